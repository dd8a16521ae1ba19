"""The wiring of methods that first decide whether to retrieve: decide, retrieve or not, ask, vote.

Passages that the caller gave need no decision: the answer is read from them.
"""

from __future__ import annotations

from typing import Any

from langgraph.graph import END

from ragweave.graphs.fragments import add_begin, add_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import to_retrieval
from ragweave.nodes.step import Goto, Route, Step
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState

PROMPTS = ("direct", "direct_passages")
"""Names of the answer step's templates that these methods use."""


def to_answers(state: RAGState, options: Options) -> Goto:
    """Route: a branch a sample over all passages; closed book where there are none."""
    return branches(state, "answer", options, contexts=[state["passages"]])


def to_search(state: RAGState, options: Options) -> Goto:
    """Route: what is known is answered at once, without any passage; else retrieve."""
    return to_answers(state, options) if state["known"] else to_retrieval(state, options)


def to_decision(state: RAGState, _options: Options) -> str:
    """Route: given passages take the place of decision and retrieval."""
    return "passages given" if state["passages"] else "decide"


def with_retrieval_decision(
    parts: Parts[Any], name: str, decides: str, decide: Step[RAGState, Any]
) -> CompiledGraph:
    """Wire a method whose node `decides` sets `known` and so whether to retrieve.

    Args:
        parts: Models, retriever, options and the rest.
        name: Name of the method.
        decides: Name of the deciding node.
        decide: The node itself.
    """
    options = parts.options
    answer = AnswerStep("answer", "direct_passages", closed_template="direct")

    graph = draft(parts)
    add_begin(graph, parts)
    graph.add_node(decides, decide, retry_policy=parts.retry)
    add_retrieval(graph, parts)
    graph.add_node("answer", parts.answers(answer), retry_policy=parts.retry)
    graph.add_node("vote", vote_step("vote", "answer", options))
    graph.add_conditional_edges(
        "begin",
        Route(to_decision, options),
        {"decide": decides, "passages given": "collect"},
    )
    graph.add_conditional_edges(
        decides,
        Route(to_search, options),
        {"known": "answer", "needed": "retrieve"},
    )
    graph.add_conditional_edges("collect", Route(to_answers, options), ["answer"])
    graph.add_edge("answer", "vote")
    graph.add_edge("vote", END)
    return finish(graph, name, parts)
