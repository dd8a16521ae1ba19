"""The majority vote over candidates, and how every graph ends."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.documents import Document
from langgraph.graph import END, StateGraph
from langgraph.runtime import Runtime, get_runtime

from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import Route
from ragweave.nodes.runner import StateNode
from ragweave.state import UNKNOWN, Candidate, RAGState, note
from ragweave.state.passages import QUESTION
from ragweave.tools.citations import cite
from ragweave.tools.models.budget import current_budget
from ragweave.tools.text.words import normalize_answer

_MAX_SHORT = 1_000
"""Characters: a longer answer to a question that asks for a short one is noted."""


def vote_node(
    *pools: str, continues: Callable[[RAGState, Any], bool] = lambda _state, _options: False, reader: str = ""
) -> StateNode:
    """Return a node that votes over the latest round of the candidates of some nodes.

    `reader` is the node that reads answers off the others' reasoning; if it says nothing, theirs count. `continues` says
    whether the method continues after an Unknown, for which it keeps its passages.
    """

    def vote(state: RAGState, runtime: Runtime[Options]) -> RAGState:
        candidates = pool_of(state, *pools)
        if state["truncated"]:  # a call that the budget refused gave no reply
            candidates = [candidate for candidate in candidates if candidate["reply"]] or candidates
        if not any(candidate["reply"] for candidate in candidates if candidate["pool"] == reader):
            candidates = [candidate for candidate in candidates if candidate["pool"] != reader]
        last = latest(candidates)
        winners = majority(last, state["passages"])
        update = final_update(state, winners or last)
        if update["status"] == "unknown" and continues(state, runtime.context):
            del update["passages"]
        return update

    return vote


def add_fallback(
    graph: StateGraph[Any, Any, Any, Any],
    vote: str,
    *pools: str,
    wanted: Callable[[RAGState, Any], bool],
    then: Callable[[RAGState, Any], Route],
    routes: Mapping[Hashable, str],
    reader: str = "",
) -> None:
    """Add a vote that ends the run, unless it gives no answer and a fallback is wanted: then it takes the route `then`.

    `routes` maps that route's labels to nodes; `pools` and `reader` are those of `vote_node`.
    """

    def to_fallback(state: RAGState, runtime: Runtime[Any]) -> Route:
        ends = state["status"] == "answered" or not wanted(state, runtime.context)
        return "answered" if ends else then(state, runtime.context)

    graph.add_node(vote, vote_node(*pools, reader=reader, continues=wanted))
    graph.add_conditional_edges(vote, to_fallback, {"answered": END, **routes})


def end_by_vote(graph: StateGraph[Any, Any, Any, Any], *answers: str, drafts: str = "") -> None:
    """Add the node `vote` over the candidates of some nodes, which lead to it, and the end after it.

    `drafts` is a node of an earlier round, whose candidates count where a limit refused all others.
    """
    graph.add_node("vote", vote_node(*answers, drafts))
    for node in answers:
        graph.add_edge(node, "vote")
    graph.add_edge("vote", END)


def candidate(answer: str, reply: str, pool: str, passages: Iterable[str], **place: int) -> Candidate:
    """Return a candidate answer of a pool; `place` sets its round, rank and sample, which are 0."""
    defaults = {"round": 0, "rank": 0, "sample": 0}
    fields = {"answer": answer, "reply": reply, "pool": pool, **defaults, **place, "passages": list(passages)}
    return cast("Candidate", fields)


def final_update(
    state: RAGState,
    winners: Sequence[Candidate],
    *,
    passages: Sequence[Document] | None = None,
    truncated: bool = False,
) -> RAGState:
    """Return the update that ends a run: the answer of the winners, best first, and the passages that they read.

    Without an answer, `winners` are the latest candidates. `passages` are those that the prompts showed; None: those of
    the state. `truncated`: whether a limit ended the method.
    """
    answer = winners[0]["answer"] if winners else UNKNOWN
    current_budget().ended(answered=answer != UNKNOWN)
    shown = passages_read([*(state["passages"] if passages is None else passages)], state, winners)
    is_long = state["answer_type"] == "short" and len(answer) > _MAX_SHORT
    is_cited = get_runtime(Options).context.citations and answer != UNKNOWN
    citations = cite(state["question"], answer, shown, state["answer_type"]) if is_cited else []
    return {
        "answer": answer,
        "status": "unknown" if answer == UNKNOWN else "answered",
        "truncated": truncated or state["truncated"],
        "passages": shown,
        "citations": citations,
        "notes": [note("answer_long", characters=len(answer))] if is_long else [],
    }


def passages_read(shown: list[Document], state: RAGState, candidates: Iterable[Candidate]) -> list[Document]:
    """Return the passages that candidates read, as shown in the prompt or else as retrieved."""
    by_id: dict[str, Document] = {}
    for passages in [shown, *state["retrieved"].values()]:
        by_id.update({str(doc.id): doc for doc in passages if str(doc.id) not in by_id})
    ids = dict.fromkeys(doc_id for candidate in candidates for doc_id in candidate["passages"])
    return [
        by_id[doc_id].model_copy(update={"metadata": {**by_id[doc_id].metadata, QUESTION: state["question"]}})
        for doc_id in ids
        if doc_id in by_id
    ]


def majority(candidates: Iterable[Candidate], passages: Sequence[Document] = ()) -> list[Candidate]:
    """Return the candidates of the majority's answer, best-ranked first; none if all are Unknown.

    Answers are compared normalised. Unknown never wins. The paper leaves ties open: here the answer of
    the best-ranked passage wins, then of the first passage in the prompt, then of the first sample.

    Source: Liu et al. 2024, eq. 2.
    """
    places = {str(doc.id): place for place, doc in enumerate(passages)}

    def place(candidate: Candidate) -> tuple[int, int, int, str]:
        first = min((places.get(doc_id, len(places)) for doc_id in candidate["passages"]), default=len(places))
        return candidate["rank"], first, candidate["sample"], candidate["answer"]

    votes: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=place):
        if candidate["answer"] != UNKNOWN:
            votes.setdefault(normalize_answer(candidate["answer"]) or candidate["answer"], []).append(candidate)
    return min(votes.values(), key=lambda voters: (-len(voters), place(voters[0])), default=[])


def pool_of(state: RAGState, *pools: str) -> list[Candidate]:
    """Return the candidates that some nodes made, in order."""
    return [candidate for candidate in state["candidates"].values() if candidate["pool"] in pools]


def latest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of the last round."""
    last = max((candidate["round"] for candidate in candidates), default=0)
    return [candidate for candidate in candidates if candidate["round"] == last]


def answers_of(candidates: Iterable[Candidate]) -> list[str]:
    """Return the distinct answers other than Unknown, in order."""
    answers: dict[str, str] = {}
    for candidate in candidates:
        if candidate["answer"] != UNKNOWN:
            answers.setdefault(normalize_answer(candidate["answer"]), candidate["answer"])
    return list(answers.values())
