"""Post-Fusion: one call per passage, then a majority vote. k calls, in parallel.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.1, equation 2: `a_i = LLM(q, p_i)`.
"""

from ragweave.graphs.base import Graph, method
from ragweave.graphs.concat import FusionOptions
from ragweave.nodes.answer import add_answer, one_by_one
from ragweave.nodes.queries import add_retrieval
from ragweave.nodes.runner import Components


@method(
    "post_fusion",
    paper="Liu et al. 2024, Post-fusion as Fallback",
    when="Where passages are long or distract from one another. A wrong majority can vote a right answer down.",
    group="noisy passages",
    calls=lambda o: (o.k * o.samples, o.k * o.samples),
    options=FusionOptions,
)
def post_fusion(graph: Graph, components: Components) -> None:
    """Each passage alone, then a majority vote."""
    add_retrieval(graph, components)
    add_answer(graph, components, "collect", "post_fusion", "post_fusion", one_by_one, one_passage=True)
