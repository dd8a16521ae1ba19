"""Runs of a method under a contract suite, and which passages their answers were read from.

Every run is built, asked and recorded in the same way. Which passages an answer was read from is
worked out from the prompts alone: a prompt shows a passage if it holds one of its sentences, and it
also rests on whatever the replies that it quotes were read from, such as an intermediate answer, a
reasoning, or the part of an answer written so far.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.base import BaseCheckpointSaver

from ragweave.errors import RagweaveError
from ragweave.graphs import CompiledGraph
from ragweave.graphs.build import build_graph
from ragweave.graphs.method import Method
from ragweave.nodes.scoring import scoring_usage
from ragweave.state import RAGOutput, Usage
from ragweave.testing.cases import Setting
from ragweave.testing.scripted import (
    ModelCall,
    Record,
    RecordingRetriever,
    RecordingScorer,
    Script,
    ScriptedModel,
)
from ragweave.tools.scorers.specs import SCORER_ROLE
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_QUOTED = 3
"""Words from which on a sentence of a reply counts as quoted where a later prompt has it."""


def winners(output: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the candidates of the latest round that gave the output's answer."""
    candidates = list(output["candidates"].values())
    latest = max((one["round"] for one in candidates), default=0)
    answer = _key(output["answer"])
    return [one for one in candidates if one["round"] == latest and _key(one["answer"]) == answer]


def _key(answer: str) -> str:
    return UNKNOWN if is_unknown(answer) else normalize_answer(answer) or answer


def calls_behind(won: Sequence[Mapping[str, Any]], calls: Sequence[ModelCall]) -> list[ModelCall]:
    """Return the calls whose replies the winning candidates are: the last ones with those replies.

    A candidate whose text is put together from several replies is that of its node's last call.
    """
    found: list[ModelCall] = []
    by_place: dict[tuple[str, str], int] = {}
    for one in won:
        place = (one["pool"], one["reply"])
        by_place[place] = by_place.get(place, 0) + 1
    for (pool, reply), count in by_place.items():
        of_node = [call for call in calls if call.node == pool]
        same = [call for call in of_node if call.reply.strip() == reply]
        found += (same or of_node)[-count:]
    return found


def shown(
    call: ModelCall, calls: Sequence[ModelCall], documents: Iterable[Document]
) -> list[Document]:
    """Return the passages that stand in a call's prompt, in their order there.

    What the prompt quotes of earlier replies doesn't count.
    """
    text = call.text
    for reply in {one.reply for one in calls if len(one.reply.split()) >= _QUOTED}:
        text = text.replace(reply, " ")
    text = folded(text)
    places = {id(doc): _place(doc, text) for doc in documents}
    there = [doc for doc in documents if places[id(doc)] is not None]
    return sorted(there, key=lambda doc: places[id(doc)] or 0)


def _place(document: Document, text: str) -> int | None:
    places = [text.find(one) for one in sentences(document.page_content)]
    return min((index for index in places if index >= 0), default=None)


def rests_on(call: ModelCall, calls: Sequence[ModelCall]) -> list[ModelCall]:
    """Return the earlier calls whose replies a call's prompt quotes, directly or through others.

    A sentence found in the replies of several nodes identifies none of them.
    """
    nodes: dict[str, set[str]] = {}
    for one in calls:
        for sentence in _telling(one.reply):
            nodes.setdefault(sentence, set()).add(one.node)
    found: list[ModelCall] = []
    open_calls = [call]
    while open_calls:
        text = folded(open_calls.pop().text)
        for one in calls:
            quoted = [
                said for said in _telling(one.reply) if len(nodes[said]) == 1 and said in text
            ]
            if quoted and one is not call and one not in found:
                found.append(one)
                open_calls.append(one)
    return found


def _telling(reply: str) -> list[str]:
    return [one for one in sentences(reply) if len(one.split()) >= _QUOTED and not is_unknown(one)]


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, white space folded."""
    return [folded(one.text) for one in split_sentences(text)]


def folded(text: str) -> str:
    """Return `text` with each run of white space as one blank."""
    return " ".join(text.split())


def asked_for(
    prompts: Set[str], settings: Sequence[Setting], likely: Callable[[str], Iterable[Setting]]
) -> Iterator[Setting]:
    """Yield settings as long as some of `prompts` are left: ours, then those in papers' words.

    Args:
        prompts: Names of prompts; the caller removes those that it has met.
        settings: The settings; for a prompt in a paper's words (`NAME@PAPER`) under its profile.
        likely: Where a prompt of ours is likely to be met, which is tried first.
    """
    for paper in sorted({name.partition("@")[2] for name in prompts}):
        tried: list[Setting] = []
        wanted = sorted(name for name in prompts if name.partition("@")[2] == paper)
        for name in [*wanted, ""]:
            left = [one for one in wanted if one in prompts and name in ("", one)]
            for setting in likely(name.partition("@")[0]) if name else settings:
                if prompts.isdisjoint(left):
                    break
                if setting not in tried:
                    tried.append(setting)
                    yield setting.with_options(profile=paper) if paper else setting


def reads_as(template: ChatPromptTemplate, text: str) -> bool:
    """Say whether all that a template has of its own stands in a prompt's text."""
    parts = [getattr(getattr(one, "prompt", None), "template", "") for one in template.messages]
    return all(piece.strip() in text for part in parts for piece in re.split(r"\{\w*\}", part))


def misread(
    output: Mapping[str, Any], calls: Sequence[ModelCall], documents: Sequence[Document]
) -> str:
    """Say how an output's passages differ from what its answer was read from; "": they don't.

    They are the passages in the prompts of the winning candidates, in prompt order where there is
    one such prompt. Where those prompts rest on earlier replies, what these were read from may
    count too; where they show no passage themselves, it must.
    """
    behind = calls_behind(winners(output), calls)
    direct = _ids(doc for call in behind for doc in shown(call, calls, documents))
    earlier = [one for call in behind for one in rests_on(call, calls)]
    indirect = _ids(doc for call in earlier for doc in shown(call, calls, documents))
    reported = [str(doc.id) for doc in output["passages"]]
    everything = set(direct) | set(indirect)
    allowed = [set(direct), everything] if direct else [everything]
    if set(reported) not in allowed:
        return f"the passages are {reported}, and the final prompts showed {direct or indirect}"
    if len(reported) != len(set(reported)):
        return f"the passages repeat: {reported}"
    if len(behind) == 1 and not earlier and reported != direct:
        return f"the passages are in the order {reported}, and the prompt's order is {direct}"
    return _altered(output["passages"], [*behind, *earlier])


def _altered(passages: Iterable[Document], calls: Sequence[ModelCall]) -> str:
    texts = [folded(call.text) for call in calls]
    for doc in passages:
        if not any(folded(doc.page_content) in text for text in texts):
            return f"the text of passage {doc.id} is not what a prompt showed: {doc.page_content!r}"
    return ""


def _ids(documents: Iterable[Document]) -> list[str]:
    return list(dict.fromkeys(str(doc.id) for doc in documents))


ROLES = {
    "model": "answer",
    "proxy": "proxy",
    "judge": "judge",
    "rewriter": "rewrite",
    "filter_model": "filter",
}
"""Arguments of `build_graph`, and the roles that they fill: each has a model of its own here."""

SCORERS = {"scorer": SCORER_ROLE, "judge_scorer": "judge"}
"""Arguments that are scorers, and the roles that they fill."""

OUTPUTS = tuple(RAGOutput.__annotations__)
"""What every graph gives back."""

Invoke: TypeAlias = Callable[[CompiledGraph, Mapping[str, Any], Any], Mapping[str, Any]]
"""How a graph is run: the graph, its input and its run configuration to its final state."""


@dataclass
class Run:
    """A run, and what it really did."""

    setting: Setting
    record: Record
    state: Mapping[str, Any] = field(default_factory=dict)
    """The whole final state."""
    error: RagweaveError | None = None

    @property
    def calls(self) -> list[ModelCall]:
        """The model calls, in the order in which they came."""
        return self.record.calls

    @property
    def scored(self) -> list[Usage]:
        """What the calls of scorers cost, in the order in which they came."""
        return [scoring_usage(role, "", pairs) for role, pairs in self.record.scorings]

    @property
    def output(self) -> dict[str, Any]:
        """The run's output."""
        return {name: self.state[name] for name in OUTPUTS}

    @property
    def unstepped(self) -> dict[str, Any]:
        """The final state, whose notes don't say in which superstep of a thread they were made."""
        return {**self.state, "notes": [{**note, "step": 0} for note in self.state["notes"]]}

    @property
    def prompts(self) -> list[tuple[str, str, str, str]]:
        """Role, node, settings and text of the calls, in an order that no timing changes."""
        return sorted(
            (call.role, call.node, json.dumps(dict(call.settings), sort_keys=True), call.text)
            for call in self.calls
        )

    @property
    def asked(self) -> tuple[object, object]:
        """Prompts and searches, in an order that no timing changes."""
        return tuple(self.prompts), tuple(sorted(self.record.searches))

    @property
    def trace(self) -> tuple[object, ...]:
        """All that the run did that anyone could see."""
        if self.error is not None:
            return type(self.error).__name__, str(self.error)
        return *self.asked, as_json(self.output)


def tokens(calls: Sequence[ModelCall], scored: Sequence[Usage] = ()) -> tuple[int, int, int]:
    """Return the number of calls, and the tokens that they read and wrote, a scorer's among them."""
    read, written = (sum(getattr(one, key) for one in calls) for key in _COUNTS)
    others = ledger(scored)
    return len(calls) + others[0], read + others[1], written + others[2]


def costs_by(key: str, run: Run) -> dict[str, tuple[int, int, int]]:
    """Return `tokens` by the calls' `role` or `node`; a scorer's stand under its role alone."""
    scored = run.scored
    named = {getattr(call, key) for call in run.calls} | {
        role for one in scored for role in one["by_role"]
    }
    return {
        name: tokens(
            [call for call in run.calls if getattr(call, key) == name],
            [one for one in scored if name in one["by_role"]],
        )
        for name in named
    }


_COUNTS = ("input_tokens", "output_tokens")


def ledger(entries: Sequence[Mapping[str, Any]]) -> tuple[int, int, int]:
    """Return what entries of a run's usage count as calls and tokens."""
    return tuple(sum(one[key] for one in entries) for key in ("calls", *_COUNTS))


def as_json(value: Any) -> str:
    """Write plain JSON values and documents, nothing else.

    Raises:
        TypeError: There is another value among them.
        ValueError: There is a number that JSON lacks.
    """
    return json.dumps(value, default=_document, sort_keys=True, allow_nan=False)


def _document(value: object) -> Any:
    if isinstance(value, Document):
        return value.model_dump()
    raise TypeError(f"{type(value).__name__} is neither a JSON value nor a Document")


def final_state(
    graph: CompiledGraph, given: Mapping[str, Any], config: Any = None, context: Any = None
) -> Mapping[str, Any]:
    """Run a graph to its end and return its whole state."""
    *_, last = graph.stream(dict(given), config, stream_mode="values", context=context)
    return dict(last)


def _invoke(graph: CompiledGraph, given: Mapping[str, Any], config: Any) -> Mapping[str, Any]:
    return graph.invoke(dict(given), config)


def _ainvoke(graph: CompiledGraph, given: Mapping[str, Any], config: Any) -> Mapping[str, Any]:
    return asyncio.run(graph.ainvoke(dict(given), config))


def _astream(graph: CompiledGraph, given: Mapping[str, Any], config: Any) -> Mapping[str, Any]:
    async def last() -> Mapping[str, Any]:
        states = graph.astream(dict(given), config, stream_mode="values")
        return dict([state async for state in states][-1])

    return asyncio.run(last())


WAYS: Mapping[str, Invoke] = {"invoke": _invoke, "ainvoke": _ainvoke, "astream": _astream}
"""Ways to run a graph beside `stream`."""


@dataclass(frozen=True, kw_only=True)
class Harness:
    """A method with a script and passages, to be built and run in any setting."""

    method: Method
    script: Script
    question: str
    documents: Sequence[Document]
    retriever: Callable[[RecordingRetriever], Any] = lambda own: own
    """What the graph gets in the place of the recording retriever."""

    def build(
        self,
        setting: Setting,
        record: Record,
        *,
        prompts: Mapping[str, ChatPromptTemplate] | None = None,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
    ) -> CompiledGraph:
        """Build the method; its models and its retriever write to `record`."""
        parts: dict[str, Any] = {
            name: ScriptedModel(
                script=setting.replies or self.script, role=role, **setting.model
            ).recording(record)
            for name, role in ROLES.items()
        }
        found = list(self.documents) if setting.finds else []
        finder = RecordingRetriever(documents=found).recording(record)
        parts |= {"retriever": self.retriever(finder), **setting.parts}
        for name, role in SCORERS.items():
            if name in parts:
                parts[name] = RecordingScorer(parts[name], role, record)
        return build_graph(
            self.method, **parts, prompts=prompts, checkpointer=checkpointer, **setting.options
        )

    def given(self, setting: Setting) -> dict[str, Any]:
        """Return the graph's input."""
        return {"question": self.question, **setting.input}

    def run(
        self,
        setting: Setting,
        *,
        prompts: Mapping[str, ChatPromptTemplate] | None = None,
        config: Any = None,
        invoke: Invoke = final_state,
    ) -> Run:
        """Build and run the method once; an error of ragweave's is part of what it did."""
        done = Run(setting, Record())
        try:
            graph = self.build(setting, done.record, prompts=prompts)
            done.state = invoke(graph, self.given(setting), config)
        except RagweaveError as error:
            done.error = error
        return done
