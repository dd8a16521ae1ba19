"""Chains, in which each call reads the previous reply and may search."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

from langchain_core.documents import Document
from langgraph.graph import END, StateGraph
from langgraph.runtime import Runtime
from pydantic import model_validator

from ragweave.nodes import read
from ragweave.nodes.answer import answer_branches, answer_node, together
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import Route, add_search, retrieve_node, search_branches
from ragweave.nodes.runner import Components
from ragweave.nodes.vote import candidate, end_by_vote, final_update
from ragweave.state import RAGState, running
from ragweave.tools.text.words import normalize_answer

LAST_ROUND = 1_000
"""The round of the final Concat, after all rounds of a chain."""


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


def end_chain(
    state: RAGState,
    answer: str,
    reply: str,
    read_ids: Iterable[str],
    *,
    passages: Sequence[Document],
    truncated: bool,
) -> RAGState:
    """Return the update that ends a chain with its one candidate; `passages` are all of the chain's, as shown."""
    pool = running()[1]
    made = candidate(answer, reply, pool, dict.fromkeys(read_ids))
    end = final_update(state, [made], passages=passages, truncated=truncated)
    return {**end, "candidates": {f"{pool}:0": made}}


def asked_before(query: str, queries: Iterable[str]) -> bool:
    """Return whether a query was asked before, ignoring case and punctuation."""
    return bool(query) and normalize_answer(query) in map(normalize_answer, queries)


def copies_example(answer: str, examples: str, state: RAGState, seen: Sequence[str]) -> bool:
    """Return whether a short answer is copied from the prompt's examples, as small models do."""
    return state["answer_type"] == "short" and read.copied(answer, examples, " ".join([state["question"], *seen]))


def to_search(state: RAGState, runtime: Runtime[Any]) -> Route:
    """Route: search for the queries, go on without one, or end; Concat reads what was found if a limit left no answer."""
    if not state["candidates"]:
        if not state["queries"]:
            return "go on"
        return "passages given" if state["given"] else search_branches(state["queries"])
    options = runtime.context
    wanted = state["truncated"] and getattr(options, "fallback_retrieval", False)
    return (answer_branches(state, "concat", options, together(state["passages"])) if wanted else []) or "answered"


def add_loop(graph: StateGraph[Any, Any, Any, Any], components: Components, name: str, then: str) -> None:
    """Add to the node `name`, which asks for searches, the search, which leads to the node `then`, and Concat."""
    add_search(graph, retrieve_node(components.retriever))
    graph.add_node("concat", answer_node(components, "concat", "concat", round=LAST_ROUND))
    graph.add_edge("begin", name)
    routes: dict[Hashable, str] = {"search": "retrieve", "passages given": "collect", "go on": name}
    graph.add_conditional_edges(name, to_search, {**routes, "no answer": "concat", "answered": END})
    graph.add_edge("collect", then)
    end_by_vote(graph, "concat")
