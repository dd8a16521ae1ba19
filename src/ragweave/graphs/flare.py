"""FLARE: retrieve in the middle of writing, for each sentence that the model is unsure of.

Source: Jiang et al. 2023 (Active Retrieval Augmented Generation); as a baseline in SlimPLM (appendix
B: three rounds, search results before the question).
"""

from __future__ import annotations

from langgraph.graph import END

from ragweave.graphs.fragments import add_begin, add_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method
from ragweave.nodes.flare import PROMPTS, FlareOptions, flare_step
from ragweave.nodes.retrieve import to_retrieval
from ragweave.nodes.step import Goto, Route
from ragweave.state import RAGState


def to_doubt(state: RAGState, options: FlareOptions) -> Goto:
    """Route: a doubtful sentence is looked up (in the given passages, where there are any)."""
    return "sure" if state["candidates"] else to_retrieval(state, options)


def build(parts: Parts[FlareOptions]) -> CompiledGraph:
    """Build `flare`: one call, and one more for each doubtful sentence.

    Raises:
        UsageError: The answering model can't report log-probabilities.
    """
    options = parts.options

    graph = draft(parts)
    add_begin(graph, parts)
    graph.add_node(
        "flare", flare_step(parts.models, parts.prompts, options), retry_policy=parts.retry
    )
    add_retrieval(graph, parts)
    graph.add_edge("begin", "flare")
    graph.add_conditional_edges(
        "flare",
        Route(to_doubt, options),
        {"sure": END, "doubtful": "retrieve", "collect": "collect"},
    )
    graph.add_edge("collect", "flare")
    return finish(graph, "flare", parts)


METHOD = Method(
    name="flare",
    summary="Look up each sentence that the model is unsure of, and write it anew.",
    paper="Jiang et al. 2023, FLARE",
    when=(
        "Long answers, with a model that reports log-probabilities: it looks up what it is "
        "unsure of while it writes."
    ),
    best="1",
    worst="rounds + 2",
    options=FlareOptions,
    build=build,
    prompts=PROMPTS,
)
