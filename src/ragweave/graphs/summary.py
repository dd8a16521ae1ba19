"""Summary prompt: a one-shot chain of thought that first extracts what helps. One call.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.2 and figure 9. The figure is a picture: wording and
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
    "summary": one_shot(
        "First sum up what the passages say that helps with the question, then answer it.",
        "Useful information: the lighthouse on Lake Orrin was lit in 1891. So the answer is 1891.",
    )
}


@method(
    "summary",
    paper="Liu et al. 2024, Post-fusion as Fallback",
    when="One call, with a model that follows a worked example: it first sums up what helps.",
    group="noisy passages",
    calls=lambda o: (o.samples, 2 * o.samples),
    options=FusionOptions,
    prompts=PROMPTS,
)
def summary(graph: Graph, components: Components) -> None:
    """One prompt that first sums up what helps."""
    add_retrieval(graph, components)
    add_answer(graph, components, "collect", "summary", "summary", together, reasoning=True, copies="1891")
