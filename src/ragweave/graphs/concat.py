"""Concat: the question and all passages in one prompt. One call.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.1, equation 1: `a = LLM(q, p1 … pk)`.
"""

from __future__ import annotations

from langgraph.runtime import Runtime

from ragweave.graphs.base import Graph, method
from ragweave.nodes.answer import answer_branches, answer_node, together
from ragweave.nodes.ask import Components
from ragweave.nodes.queries import SearchOptions, add_retrieval
from ragweave.nodes.retrieve import Route
from ragweave.nodes.vote import end_by_vote
from ragweave.state import RAGState


class FusionOptions(SearchOptions):
    """Options of the methods of Liu et al. 2024."""

    own_paper = "post_fusion"


def to_answer(state: RAGState, runtime: Runtime[FusionOptions]) -> Route:
    """Route: one branch per sample over all passages; without any the answer is Unknown."""
    return answer_branches(state, "concat", runtime.context, together(state["passages"])) or "no passage"


@method(
    "concat",
    summary="All passages in one prompt.",
    paper="Liu et al. 2024, Post-fusion as Fallback",
    when="The everyday choice where calls are expensive. It may say Unknown although a passage holds the answer.",
    group="start here",
    calls=lambda o: (o.samples, o.samples),
    options=FusionOptions,
)
def concat(graph: Graph, components: Components) -> None:
    """Wire begin → retrieve → collect → concat → vote."""
    add_retrieval(graph, components)
    graph.add_node("concat", answer_node(components, "concat", "concat"))
    graph.add_conditional_edges("collect", to_answer, {"each sample": "concat", "no passage": "vote"})
    end_by_vote(graph, "concat")
