"""Loops: a model writes, asks for searches, is shown what they found, and writes on until it answers.

Some models ask in their own turn, by tags, and continue it with the results.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Self

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import END, StateGraph
from langgraph.runtime import Runtime
from pydantic import model_validator
from typing_extensions import TypedDict

from ragweave.nodes import read
from ragweave.nodes.answer import answer_branches, answer_node, together
from ragweave.nodes.options import Options
from ragweave.nodes.prompts import Reply
from ragweave.nodes.retrieve import GIVEN, Route, add_search, arranged, retrieve_node, search_branches
from ragweave.nodes.runner import Components
from ragweave.nodes.vote import candidate, end_by_vote, final_update
from ragweave.state import RAGState, running
from ragweave.tools.text.words import normalize_answer

LAST_ROUND = 1_000
"""The round of the final Concat, after all steps of a loop."""


class ChainOptions(Options):
    """Options of a method whose calls form one chain."""

    @model_validator(mode="after")
    def _one_chain(self) -> Self:
        if self.samples > 1:
            raise ValueError(
                "samples: this method's calls form one chain, so its answers can't be sampled one by one: run the graph "
                f"{self.samples} times"
            )
        return self


class Step(TypedDict):
    """One step of a loop."""

    text: str
    """What the model wrote: a thought, a follow-up question, or its turn up to the end of an action."""
    queries: dict[str, str]
    """The searches that it asked for, by name."""
    shown: str
    """What it was shown, if not the passages that these searches found: an intermediate answer, a reminder."""


class LoopState(RAGState, total=False):
    """The state of a loop."""

    steps: list[Step]
    must_answer: bool
    """Whether the next call must answer."""
    read: list[str]
    """Ids of the passages that were read so far."""


def is_last(state: LoopState, options: Any) -> bool:
    """Return whether the next call must answer: no round is left, or the model was asked to."""
    return state["must_answer"] or len(state["steps"]) >= options.max_rounds


def add_step(state: LoopState, text: str, *queries: str, shown: str = "") -> LoopState:
    """Return the update that adds a step and starts its searches; the first one finds the passages that were given."""
    named = {f"round_{len(state['steps'])}_{place}": query for place, query in enumerate(queries)}
    if state["given"] and queries and not any(step["queries"] for step in state["steps"]):
        named = {GIVEN: " ".join(queries)}
    return {"steps": [*state["steps"], Step(text=text, queries=named, shown=shown)], "queries": named}


def asked_before(query: str, state: LoopState) -> bool:
    """Return whether a query was asked before, ignoring case and punctuation."""
    earlier = (text for step in state["steps"] for text in step["queries"].values())
    return bool(query) and normalize_answer(query) in map(normalize_answer, earlier)


def passages_found(state: LoopState, options: Options) -> list[Document]:
    """Return what the steps found, in order, repeats included."""
    docs = []
    for name in (name for step in state["steps"] for name in step["queries"]):
        docs += state["passages"] if name == GIVEN else arranged(state["retrieved"].get(name, []), options.order)
    return docs


def found_by(step: Step, shown: Sequence[Document]) -> list[Document]:
    """Return the passages, of those shown, that a step found."""
    return [doc for doc in shown if doc.metadata.get("query") in step["queries"]]


def copies_example(answer: str, examples: str, state: RAGState, seen: Sequence[str]) -> bool:
    """Return whether a short answer is copied from the prompt's examples, as small models do."""
    return state["answer_type"] == "short" and read.copied(answer, examples, " ".join([state["question"], *seen]))


def end_loop(
    state: RAGState, answer: str, reply: str, read_ids: Iterable[str], *, passages: Sequence[Document], truncated: bool
) -> RAGState:
    """Return the update that ends a loop with its one candidate; `passages` are all of the loop's, as shown."""
    pool = running()[1]
    last = candidate(answer, reply, pool, dict.fromkeys(read_ids))
    update = final_update(state, [last], passages=passages, truncated=truncated)
    return {**update, "candidates": {f"{pool}:0": last}}


def to_search(state: RAGState, runtime: Runtime[Any]) -> Route:
    """Route: search for the queries, go on without one, or end; Concat reads what was found if a limit left no answer."""
    if not state["candidates"]:
        if not state["queries"]:
            return "go on"
        return "passages given" if state["given"] else search_branches(state["queries"])
    options = runtime.context
    wanted = state["truncated"] and getattr(options, "fallback_retrieval", False)
    return (answer_branches(state, "concat", options, together(state["passages"])) if wanted else []) or "answered"


def add_loop(
    graph: StateGraph[Any, Any, Any, Any], components: Components, name: str, then: str, *, concat: bool = False
) -> None:
    """Add to the node `name`, which asks for searches, the search, which leads to the node `then`, and the end.

    `concat`: whether Concat answers where a limit left no answer.
    """
    routes: dict[Hashable, str] = {"search": "retrieve", "passages given": "collect", "go on": name, "answered": END}
    if concat:
        graph.add_node("concat", answer_node(components, "concat", "concat", round=LAST_ROUND))
        end_by_vote(graph, "concat")
        routes["no answer"] = "concat"
    add_search(graph, retrieve_node(components.retriever))
    graph.add_edge("begin", name)
    graph.add_conditional_edges(name, to_search, routes)
    graph.add_edge("collect", then)


# ---- tags


class Tags(NamedTuple):
    """The marks around an action."""

    begin: str
    end: str


class Tagged(NamedTuple):
    """A reply up to the end of its first action, the action's marks, and what stands between them."""

    text: str
    tags: Tags | None
    action: str


def first_action(reply: Reply[Any], tags: Sequence[Tags], *, opened: str = "") -> Tagged:
    """Return the first action of a reply's raw text, thoughts included.

    `opened` is the end of the prompt, which the reply continues.
    A server omits the tag that it stopped at, so the last tag may not be closed.
    """
    raw = str(reply.message.text) if reply.message else ""
    text = raw if not raw.strip() or raw.lstrip().startswith(opened) else opened + raw
    ends = [(at, pair) for pair in tags if (at := text.find(pair.end)) >= 0]
    at, ended = min(ends, default=(len(text), None))
    turn = text[:at]
    last = ended or max(tags, key=lambda pair: turn.rfind(pair.begin))
    start = turn.rfind(last.begin)
    if start < 0:
        return Tagged(turn, None, "")
    return Tagged(turn + last.end, last, turn[start + len(last.begin) :].strip())


def boxed(text: str) -> str:
    r"""Return what the last `\boxed{…}` of a text holds; "" without one."""
    boxes = re.findall(r"\\boxed\{(?:\\\w+\{)?([^{}]*)", text)
    return str(boxes[-1]).strip() if boxes else ""


def transcript(steps: Sequence[Step], result_of: Callable[[Step], str], end: str = "") -> list[BaseMessage]:
    """Return the messages of steps: what the model wrote, and after it what it was shown; `end` ends the last one."""
    if not steps:
        return [HumanMessage(end)] if end else []
    results = [result_of(step) for step in steps]
    results[-1] += end
    pairs = zip(steps, results, strict=True)
    return [message for step, result in pairs for message in (AIMessage(step["text"] or "…"), HumanMessage(result))]
