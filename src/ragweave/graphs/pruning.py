"""Pruning prompt: a one-shot chain of thought that first rules passages out. One call.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.2 and figure 8. The figure is a picture: wording and
example are ours.
"""

from ragweave.graphs.base import Graph, method
from ragweave.graphs.concat import FusionOptions
from ragweave.graphs.examples import one_shot
from ragweave.nodes.answer import add_answer, together
from ragweave.nodes.prompts import Prompts
from ragweave.nodes.queries import add_retrieval
from ragweave.nodes.runner import Components

PROMPTS: Prompts = {
    "pruning": one_shot(
        "Say of each passage in turn what it is about and whether it can answer the question, then answer from those "
        "that can.",
        "Passage 1 is about the height and the ice of Lake Orrin and cannot answer. Passage 2 says that the "
        "lighthouse was lit in 1891 and can answer. Passage 3 is about ferries and cannot answer. So the answer is "
        "1891.",
    )
}


@method(
    "pruning",
    paper="Liu et al. 2024, Post-fusion as Fallback",
    when="One call, with a model that follows a worked example: it first rules passages out.",
    group="noisy passages",
    calls=lambda o: (o.samples, 2 * o.samples),
    options=FusionOptions,
    prompts=PROMPTS,
)
def pruning(graph: Graph, components: Components) -> None:
    """One prompt that first rules out the passages that cannot answer."""
    add_retrieval(graph, components)
    add_answer(graph, components, "collect", "pruning", "pruning", together, reasoning=True, copies="1891")
