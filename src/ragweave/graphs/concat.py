"""Concat: the question and all passages in one prompt. One call.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.1, equation 1: `a = LLM(q, p1 … pk)`.
"""

from ragweave.graphs.base import Graph, method
from ragweave.nodes.answer import add_answer, together
from ragweave.nodes.queries import SearchOptions, add_retrieval
from ragweave.nodes.runner import Components


class FusionOptions(SearchOptions):
    """Options of the methods of Liu et al. 2024."""

    own_paper = "post_fusion"


@method(
    "concat",
    paper="Liu et al. 2024, Post-fusion as Fallback",
    when="The everyday choice where calls are expensive. It may say Unknown although a passage holds the answer.",
    group="start here",
    calls=lambda o: (o.samples, o.samples),
    options=FusionOptions,
)
def concat(graph: Graph, components: Components) -> None:
    """All passages in one prompt."""
    add_retrieval(graph, components)
    add_answer(graph, components, "collect", "concat", "concat", together)
