"""PF + Concat: Post-Fusion, then Concat as the distiller over the passages that gave an answer.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.3 and figure 2, lower half.
"""

from langgraph.graph import END
from langgraph.runtime import Runtime

from ragweave.graphs.base import Graph, method
from ragweave.graphs.concat import FusionOptions
from ragweave.nodes.answer import answer_branches, answer_node, candidates_shown, each_sample, one_by_one
from ragweave.nodes.queries import add_retrieval
from ragweave.nodes.retrieve import Route
from ragweave.nodes.runner import Components
from ragweave.nodes.vote import answers_of, pool_of, vote_node
from ragweave.state import UNKNOWN, RAGState


def sift(state: RAGState) -> RAGState:
    """Keep the passages that gave an answer; all of them if none did."""
    answers = [candidate for candidate in pool_of(state, "post_fusion") if candidate["answer"] != UNKNOWN]
    useful = {doc_id for candidate in answers for doc_id in candidate["passages"]}
    return {"passages": [doc for doc in state["passages"] if doc.id in useful]} if useful else {}


def to_distiller(state: RAGState, runtime: Runtime[FusionOptions]) -> Route:
    """Route: the candidates go to the distiller with their passages."""
    hints = answers_of(pool_of(state, "post_fusion"))
    return answer_branches(state, "distill", runtime.context, [state["passages"]], hints) if hints else "all unknown"


@method(
    "pf_concat",
    paper="Liu et al. 2024, Post-fusion as Fallback",
    when="Where quality is worth k + 1 calls: passages without an answer are dropped, and candidates help to decide.",
    group="noisy passages",
    calls=lambda o: (o.k * o.samples, (o.k + 1) * o.samples),
    options=FusionOptions,
)
def pf_concat(graph: Graph, components: Components) -> None:
    """Post-Fusion; then Concat as the distiller over what gave an answer."""
    add_retrieval(graph, components)
    graph.add_node("post_fusion", answer_node(components, "post_fusion", "post_fusion", one_passage=True))
    graph.add_node("sift", sift)
    graph.add_node("distill", answer_node(components, "distill", "distill", round=1, values=candidates_shown))
    graph.add_node("vote", vote_node("post_fusion", "distill"))
    graph.add_conditional_edges(
        "collect", each_sample("post_fusion", one_by_one), {"each passage": "post_fusion", "no passage": "sift"}
    )
    graph.add_edge("post_fusion", "sift")
    graph.add_conditional_edges("sift", to_distiller, {"candidates": "distill", "all unknown": "vote"})
    graph.add_edge("distill", "vote")
    graph.add_edge("vote", END)
