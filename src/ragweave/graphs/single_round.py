"""The wiring that every single-round method shares: retrieve, ask, vote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langgraph.graph import END, START

from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.begin import begin_step
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import collect_step, retrieve_step, to_retrieval
from ragweave.nodes.step import Route
from ragweave.nodes.vote import vote_step

Contexts = Callable[[Sequence[Document]], list[list[Document]]]
"""From the passages to the contexts that are asked about one by one."""


def together(passages: Sequence[Document]) -> list[list[Document]]:
    """All passages in one context (Liu et al. 2024, eq. 1); none without passages."""
    return [list(passages)] if passages else []


def one_by_one(passages: Sequence[Document]) -> list[list[Document]]:
    """A context for each passage (Liu et al. 2024, eq. 2)."""
    return [[passage] for passage in passages]


def single_round(
    parts: Parts[Any],
    answer: AnswerStep,
    contexts: Contexts,
    retrieves: Callable[[Any], bool] = lambda _options: True,
) -> CompiledGraph:
    """Wire a method that asks once: a branch per context and sample, then a vote.

    Args:
        parts: Models, retriever, options and the rest.
        answer: How the answer node asks; the graph takes its name.
        contexts: What the answer node is asked about; no context leads straight to the vote,
            which then says Unknown.
        retrieves: Whether the options ask for retrieval.
    """
    options = parts.options

    def to_search(state: Mapping[str, Any], opts: Options) -> Any:
        return to_retrieval(state, opts) if retrieves(opts) else "collect"

    def to_answers(state: Mapping[str, Any], opts: Options) -> Any:
        asked = contexts(state["passages"])
        return branches(state, answer.name, opts, contexts=asked) or "vote"

    graph = draft(options)
    graph.add_node("begin", begin_step(options))
    graph.add_node("retrieve", retrieve_step(parts.retriever, options), retry_policy=parts.retry)
    graph.add_node("collect", collect_step(options))
    graph.add_node(answer.name, parts.answers(answer), retry_policy=parts.retry)
    graph.add_node("vote", vote_step("vote", answer.name, options))
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", Route(to_search, options), ["retrieve", "collect"])
    graph.add_edge("retrieve", "collect")
    graph.add_conditional_edges("collect", Route(to_answers, options), [answer.name, "vote"])
    graph.add_edge(answer.name, "vote")
    graph.add_edge("vote", END)
    return finish(graph, answer.name, parts)
