"""The wiring that every single-round method shares: retrieve, ask, vote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.documents import Document
from langgraph.graph import END

from ragweave.graphs.fragments import add_question_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import to_retrieval
from ragweave.nodes.step import Goto, Route
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState

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

    def to_search(state: RAGState, opts: Options) -> Goto:
        return to_retrieval(state, opts) if retrieves(opts) else "collect"

    def to_answers(state: RAGState, opts: Options) -> Goto:
        asked = contexts(state["passages"])
        return branches(state, answer.name, opts, contexts=asked) or "vote"

    graph = draft(parts)
    add_question_retrieval(graph, parts, to_search)
    graph.add_node(answer.name, parts.answers(answer), retry_policy=parts.retry)
    graph.add_node("vote", vote_step("vote", answer.name, options))
    graph.add_conditional_edges("collect", Route(to_answers, options), [answer.name, "vote"])
    graph.add_edge(answer.name, "vote")
    graph.add_edge("vote", END)
    return finish(graph, answer.name, parts)
