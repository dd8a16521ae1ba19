"""Summary prompt: a one-shot chain of thought that first extracts what helps. One call.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.2 and figure 9. The figure is a picture: wording and
example are ours.
"""

from __future__ import annotations

from langgraph.runtime import Runtime

from ragweave.graphs.base import Graph, method
from ragweave.graphs.concat import FusionOptions
from ragweave.graphs.examples import one_shot
from ragweave.nodes.answer import answer_branches, answer_node, together
from ragweave.nodes.ask import Components
from ragweave.nodes.queries import add_retrieval
from ragweave.nodes.retrieve import Route
from ragweave.nodes.vote import end_by_vote
from ragweave.state import RAGState

PROMPTS = {
    "summary": one_shot(
        "First sum up what the passages say that helps with the question, then answer it.",
        "Useful information: the lighthouse on Lake Orrin was lit in 1891. So the answer is 1891.",
    )
}


def to_answer(state: RAGState, runtime: Runtime[FusionOptions]) -> Route:
    """Route: one branch per sample over all passages; without any the answer is Unknown."""
    return answer_branches(state, "summary", runtime.context, together(state["passages"])) or "no passage"


@method(
    "summary",
    summary="One prompt that first sums up what helps.",
    paper="Liu et al. 2024, Post-fusion as Fallback",
    when="One call, with a model that follows a worked example: it first sums up what helps.",
    group="noisy passages",
    calls=lambda o: (o.samples, 2 * o.samples),
    options=FusionOptions,
    prompts=PROMPTS,
)
def summary(graph: Graph, components: Components) -> None:
    """Wire begin → retrieve → collect → summary → vote."""
    add_retrieval(graph, components)
    graph.add_node("summary", answer_node(components, "summary", "summary", reasoning=True, copies="1891"))
    graph.add_conditional_edges("collect", to_answer, {"each sample": "summary", "no passage": "vote"})
    end_by_vote(graph, "summary")
