"""Concat + PF: Concat, and only where it says Unknown, Post-Fusion as the fallback.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.3 and figure 2, upper half.
"""

from ragweave.graphs.base import Graph, method
from ragweave.graphs.concat import FusionOptions
from ragweave.nodes.answer import answer_branches, answer_node, each_sample, one_by_one, together
from ragweave.nodes.queries import add_retrieval
from ragweave.nodes.runner import Components
from ragweave.nodes.vote import add_fallback, end_by_vote


@method(
    "concat_pf",
    paper="Liu et al. 2024, Post-fusion as Fallback",
    when="The recommended start: Concat's price on most questions, and k more calls only where it has no answer.",
    group="start here",
    calls=lambda o: (o.samples, (1 + o.k) * o.samples),
    options=FusionOptions,
)
def concat_pf(graph: Graph, components: Components) -> None:
    """Concat; where it says Unknown, Post-Fusion as the fallback."""
    add_retrieval(graph, components)
    graph.add_node("concat", answer_node(components, "concat", "concat"))
    graph.add_node("post_fusion", answer_node(components, "post_fusion", "post_fusion", round=1, one_passage=True))
    graph.add_conditional_edges(
        "collect", each_sample("concat", together), {"each sample": "concat", "no passage": "concat_vote"}
    )
    graph.add_edge("concat", "concat_vote")
    add_fallback(
        graph,
        "concat_vote",
        "concat",
        wanted=lambda state, _options: bool(state["passages"]),
        then=lambda state, o: answer_branches(state, "post_fusion", o, one_by_one(state["passages"])),
        routes={"unknown": "post_fusion"},
    )
    end_by_vote(graph, "post_fusion")
