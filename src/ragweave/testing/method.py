"""The contract of a method: what every method's graph must do, whatever its paper."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy
from typing_extensions import TypedDict

from ragweave.errors import ModelError, UnusableModelError, UsageError
from ragweave.graphs import METHODS, Method, MethodGraph, build_graph
from ragweave.roles import ROLES, arguments_of
from ragweave.state import RAGOutput
from ragweave.testing.scripted import (
    CARDS,
    HIDDEN,
    ODD_MODELS,
    ModelCall,
    Record,
    RecordingRetriever,
    Reply,
    Script,
    ScriptedModel,
)

_ODD = ("", '}]> zqxv "ids": [[ <Known(Tr', "<passage 1> </passage> %s {0} \x00\n" * 3)
"""Replies that no reader can read."""


_AT_ONCE = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ConnectionError)


class _Parent(TypedDict, total=False):
    question: str
    answer: str
    status: str
    passages: list[Document]


class MethodTests:
    """What every method must do. Subclass it once for each method; pytest finds the tests.

    class TestConcat(MethodTests):
        method = "concat"
        replies = ["Ada Brenner"]
    """

    method: str | Method
    """The method, or its name."""
    replies: Script = ()
    """Replies by node or in order; for a function of the call, override `reply` instead."""
    looping: Script = ()
    """Replies that keep a method's loop going up to the limit that its options set; if none are given, `replies`."""
    question: str = "Who built the bridge at Alden?"
    answer: str = "Ada Brenner"
    """The answer that the script leads to."""
    other_question: str = "Which river runs under the bridge at Alden?"
    """What a thread is asked first, and `question` second."""
    documents: Sequence[Document] = CARDS
    """Passages to find."""
    options: Mapping[str, Any] = {}
    """Options of every run."""
    arguments: Mapping[str, Any] = {}
    """More arguments of `build_graph`: `embeddings`, `scorer`, …"""

    def reply(self, call: ModelCall) -> Reply:
        """Return what a model replies to a call; called only if `replies` is empty."""
        raise NotImplementedError(f"{type(self).__name__} needs replies, or a reply method")

    # -- what it answers -----------------------------------------------------------------------

    def test_the_script_leads_to_the_answer(self) -> None:
        """The method gives the expected answer, and the whole output."""
        out = self.run(Record())
        assert set(out) >= set(RAGOutput.__annotations__)
        assert (out["question"], out["answer"], out["status"]) == (self.question, self.answer, "answered")
        assert out["truncated"] is False

    def test_passages_are_what_the_answer_was_read_from(self) -> None:
        """Each passage stood in a prompt, and those of the winning candidates are all there."""
        record = Record()
        out = self.run(record)
        prompts = " ".join(" ".join(call.text.split()) for call in record.calls)
        for passage in out["passages"]:
            assert " ".join(passage.page_content.split()) in prompts, f"no prompt showed {passage.id}"
        candidates = out["candidates"].values()
        last = max(candidate["round"] for candidate in candidates)
        winners = [
            candidate for candidate in candidates if (candidate["answer"], candidate["round"]) == (self.answer, last)
        ]
        read = {name for candidate in winners for name in candidate["passages"]}
        assert read == {passage.id for passage in out["passages"]}

    def test_all_ways_to_run_it_ask_and_give_the_same(self) -> None:
        """Sync, async, streamed, in a batch, in a chain and as a tool; loops run to the limits of the method's options."""
        given = {"question": self.question}
        call = {"type": "tool_call", "name": "answer", "id": "1", "args": given}
        ways: list[Callable[[MethodGraph], Any]] = [
            lambda graph: graph.invoke(given),
            lambda graph: asyncio.run(graph.ainvoke(given)),
            lambda graph: _output([*graph.stream(given, stream_mode="values")][-1]),
            lambda graph: asyncio.run(_last(graph, given)),
            lambda graph: graph.batch([given])[0],
            lambda graph: (RunnablePassthrough[Any]() | graph).invoke(given),
            lambda graph: RunnableLambda(lambda _question: graph).invoke(given),
            lambda graph: graph.as_tool(name="answer").invoke(call).artifact,
        ]
        records = [Record() for _ in ways]
        graphs = [self.build(record, script=self.looping or None) for record in records]
        outputs = [way(graph) for way, graph in zip(ways, graphs, strict=True)]
        assert all(_json(output) == _json(outputs[0]) for output in outputs)
        assert all(_asked(record) == _asked(records[0]) for record in records)

    def test_the_second_question_of_a_thread_starts_clean(self) -> None:
        """Nothing of a thread's first question shows in its second."""
        alone, second, saver = Record(), Record(), InMemorySaver()
        expected = self.run(alone)
        first = {"question": self.other_question, "passages": [self.documents[1]], "answer_type": "long"}
        self.run(Record(), given=first, checkpointer=saver, fail=False)
        assert _json(self.run(second, checkpointer=saver)) == _json(expected)
        assert _asked(second) == _asked(alone)

    def test_the_second_question_of_a_parent_graph_starts_clean(self) -> None:
        """As a node of another graph it takes no passages that an earlier question left there."""
        alone, second, saver = Record(), Record(), InMemorySaver()
        config: Any = {"configurable": {"thread_id": "contract"}}
        expected = self.run(alone)
        for record, question in ((Record(), self.other_question), (second, self.question)):
            parent = StateGraph(_Parent)
            parent.add_node("method", self.build(record))
            parent.add_edge(START, "method")
            out = parent.compile(checkpointer=saver).invoke({"question": question}, config)
        assert out["answer"] == expected["answer"]
        assert _asked(second) == _asked(alone)

    def test_a_thread_goes_on_after_an_edit(self) -> None:
        """Forked at any checkpoint with other passages, a run goes on to its end, sync and async alike."""
        saver = InMemorySaver()
        config: Any = {"configurable": {"thread_id": "contract"}}
        self.run(Record(), checkpointer=saver)
        graph = self.build(Record(), script=lambda _call: self.answer, checkpointer=saver)
        edit = {"question": self.question, "passages": [self.documents[1].page_content]}
        history = [*graph.get_state_history(config)]
        for point, before in zip(history, [*history[1:], None], strict=True):
            # LangGraph asks for `as_node` where several nodes have just ended.
            node = before.next[0] if before is not None and len(before.next) > 1 else None
            forks = [graph.update_state(point.config, edit, node)]
            forks.append(asyncio.run(graph.aupdate_state(point.config, edit, node)))
            first, second = (graph.invoke(None, fork) for fork in forks)
            assert _json(first) == _json(second)
            assert (first["answer"] == "Unknown") == (first["status"] == "unknown")

    # -- what it costs -------------------------------------------------------------------------

    def test_usage_counts_the_calls_made(self) -> None:
        """Calls, tokens and retrievals, in all, by role and by node, are those really made."""
        record = Record()
        usage = self.run(record)["usage"]
        assert usage["calls"] == len(record.calls)
        assert usage["retrievals"] == len(record.searches)
        for table, key in (("by_role", "role"), ("by_node", "node")):
            calls = Counter(getattr(call, key) for call in record.calls)
            assert {name: tokens["calls"] for name, tokens in usage[table].items()} == calls
        assert usage["input_tokens"] == sum(3 + len(call.text.split()) for call in record.calls)

    def test_calls_lie_within_the_declared_ones(self) -> None:
        """A run makes no fewer calls than the method declares, and no more."""
        method = self._method()
        fewest, most = method.calls(method.options(**self.options))
        record = Record()
        self.run(record)
        assert fewest <= len(record.calls) <= most

    def test_a_spent_budget_ends_the_run(self) -> None:
        """With one call left, sync and async, a run ends after it: answered, or truncated."""
        given = {"question": self.question}
        for awaits in (False, True):
            record = Record()
            graph = self.build(record, max_calls=1)
            output = asyncio.run(graph.ainvoke(given)) if awaits else graph.invoke(given)
            assert len(record.calls) <= 1
            assert output["truncated"] or self._method().calls(self._method().options(**self.options))[0] <= 1
            assert (output["answer"] == "Unknown") == (output["status"] == "unknown")

    # -- what goes wrong, and what comes along -------------------------------------------------

    def test_odd_replies_never_raise(self) -> None:
        """An empty or unreadable reply of any node, or of all, gives Unknown or an answer, within the declared calls."""
        method, record = self._method(), Record()
        _, most = method.calls(method.options(**self.options))
        self.run(record)
        for text in _ODD:
            for node in sorted({call.node for call in record.calls} | {""}):
                odd = Record()
                out = self.run(odd, script=self._odd(node, text))
                assert (out["answer"] == "Unknown") == (out["status"] == "unknown")
                assert out["answer"].strip()
                assert len(odd.calls) <= most

    def test_odd_models_give_no_false_answer(self) -> None:
        """With each of the `ODD_MODELS`, a run ends as that says: what is not an answer is Unknown, and noted."""
        for kind, odd in ODD_MODELS.items():
            try:
                graph = self.build(Record(), script=odd.reply, arguments={"retry_policy": _AT_ONCE})
                *_, state = graph.stream({"question": self.question}, stream_mode="values")
            except (ModelError, UsageError) as error:
                assert type(error).__name__ in (odd.error, UnusableModelError.__name__), f"{kind}: {error!r}"
                continue
            events = {note["event"] for note in state["notes"]}
            assert not odd.error, f"{kind}: no error"
            assert HIDDEN not in state["answer"], f"{kind}: {state['answer']}"
            assert not odd.note or odd.note in events, f"{kind}: {events}"
            assert odd.answers or state["status"] == "unknown", f"{kind}: {state['answer']}"
            assert state["usage"]["estimated"] is odd.estimated, f"{kind}: {state['usage']}"

    def test_odd_replies_end_under_every_profile(self) -> None:
        """Under each paper's profile, a run ends within the declared calls if odd replies follow its first one."""
        method = self._method()
        papers = {name.partition("@")[2] for name in method.prompts} | {method.options.own_paper}
        for profile, text in product(sorted(papers - {""}), _ODD[:2]):
            _, most = method.calls(method.options(**{**self.options, "profile": profile}))
            record = Record()
            out = self.run(record, script=self._odd_after_one(record, text, most), fail=False, profile=profile)
            assert not out or (out["answer"] == "Unknown") == (out["status"] == "unknown")

    def test_given_passages_take_the_place_of_retrieval(self) -> None:
        """Passages in the input are read and nothing is retrieved, with a retriever or without."""
        passages = [doc.model_copy(update={"id": f"given{n}"}) for n, doc in enumerate(self.documents[:3])]
        for arguments in ({}, {"retriever": None}):
            record = Record()
            given = {"question": self.question, "passages": passages}
            out = self.run(record, given=given, arguments=arguments)
            assert record.searches == []
            assert out["usage"]["retrievals"] == 0
            assert {doc.id for doc in out["passages"]} <= {doc.id for doc in passages}

    def test_any_retriever_will_do(self) -> None:
        """One that takes no `k`, and finds all passages, is cut to `k`."""
        own, foreign = Record(), Record()
        expected = self.run(own)
        all_found = RecordingRetriever(documents=list(self.documents)).recording(foreign)
        retriever: Any = RunnableLambda(lambda query: all_found.invoke(query, k=len(self.documents)))
        assert _json(self.run(foreign, arguments={"retriever": retriever})) == _json(expected)

    def test_nothing_found_is_no_error(self) -> None:
        """If no passage is found, the run ends like any other."""
        out = self.run(Record(), arguments={"retriever": RecordingRetriever(documents=[])})
        assert out["passages"] == []

    def test_an_option_of_a_run_is_that_of_the_build(self) -> None:
        """`context={"k": 2}` has the same effect in a run as the option `k=2` of `build_graph`."""
        built, given = Record(), Record()
        expected = self.build(built, k=2).invoke({"question": self.question})
        out = self.build(given).invoke({"question": self.question}, context={**self.options, "k": 2})
        assert _json(out) == _json(expected)
        assert _asked(given) == _asked(built)

    def test_a_callers_prompts_replace_the_methods(self) -> None:
        """Each prompt that a run asks reaches the model in the caller's wording."""
        marked = {
            name: ChatPromptTemplate([("system", "zqxv"), *template.messages])
            for name, template in self._method().prompts.items()
            if "@" not in name
        }
        record = Record()
        self.run(record, arguments={"prompts": marked}, fail=False)
        assert record.calls
        assert all("zqxv" in call.text for call in record.calls)

    def test_the_output_is_plain_json(self) -> None:
        """The output and the whole state hold JSON values and documents alone."""
        *_, state = self.build(Record()).stream({"question": self.question}, stream_mode="values")
        _json(state)

    def test_the_graph_draws(self) -> None:
        """The graph has a picture, in which no node stands alone."""
        shape = self.build(Record()).get_graph()
        linked = {end for edge in shape.edges for end in (edge.source, edge.target)}
        assert linked == set(shape.nodes)
        assert all(name in shape.draw_mermaid() for name in shape.nodes)

    # -- how it is run -------------------------------------------------------------------------

    def build(
        self,
        record: Record,
        *,
        script: Script | None = None,
        arguments: Mapping[str, Any] | None = None,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
        **options: Any,
    ) -> MethodGraph:
        """Build the method; its models and its retriever write to `record`."""
        script = script or self.replies or self.reply
        models = arguments_of({role: ScriptedModel(script=script, role=role).recording(record) for role in ROLES})
        retriever = RecordingRetriever(documents=list(self.documents)).recording(record)
        arguments = {"retriever": retriever, "checkpointer": checkpointer, **self.arguments, **(arguments or {})}
        return build_graph(self.method, **{**models, **arguments, **self.options, **options})

    def run(
        self, record: Record, *, given: Mapping[str, Any] | None = None, fail: bool = True, **built: Any
    ) -> dict[str, Any]:
        """Run the method once, on a thread if it has a checkpointer.

        Where the script has no reply for a node, raise if `fail`, else return {}.
        """
        config: Any = {"configurable": {"thread_id": "contract"}}
        try:
            return dict(self.build(record, **built).invoke(dict(given or {"question": self.question}), config))
        except LookupError:
            if fail:
                raise
            return {}

    def _method(self) -> Method:
        return METHODS[self.method] if isinstance(self.method, str) else self.method

    def _odd(self, node: str, text: str) -> Script:
        script, own = self.replies or self.reply, Record()

        def reply(call: ModelCall) -> Reply:
            return text if node in ("", call.node) else own.reply(script, call)

        return reply

    def _odd_after_one(self, record: Record, text: str, most: int) -> Script:
        script, own = self.replies or self.reply, Record()

        def reply(call: ModelCall) -> Reply:
            if len(record.calls) > most:
                raise RuntimeError(f"more calls than the {most} that the method declares")
            return text if len(record.calls) > 1 else own.reply(script, call)

        return reply


async def _last(graph: MethodGraph, given: Mapping[str, Any]) -> dict[str, Any]:
    states = [state async for state in graph.astream(dict(given), stream_mode="values")]
    return _output(states[-1])


def _output(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: state[name] for name in RAGOutput.__annotations__}


def _asked(record: Record) -> tuple[list[Any], list[str]]:
    """Return prompts and searches, in an order that no timing changes."""
    calls = [(call.role, call.node, sorted(map(str, call.settings.items())), call.text) for call in record.calls]
    return sorted(calls), sorted(record.searches)


def _json(value: Any) -> str:
    """Return the JSON of plain values and documents; anything else raises."""

    def document(value: object) -> Any:
        if isinstance(value, Document):
            return value.model_dump()
        raise TypeError(f"{type(value).__name__} is neither a JSON value nor a Document")

    return json.dumps(value, default=document, sort_keys=True, allow_nan=False)
