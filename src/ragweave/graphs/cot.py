"""Chain of thought: direct prompting that reasons first, with or without passages. One call.

Source: Wei et al. 2022 (Chain-of-Thought Prompting Elicits Reasoning in Large Language Models), as a
baseline in BlendFilter, whose examples `shots` shows, and in SlimPLM, whose released code shows three
for MuSiQue and none elsewhere: its row is `shots=3` there.
"""

from ragweave.graphs.base import Graph, method
from ragweave.graphs.direct import DirectOptions, add_asking
from ragweave.graphs.examples import PROMPTS, reasoned
from ragweave.nodes.runner import Components


@method(
    "cot",
    paper="Wei et al. 2022, Chain-of-Thought",
    when="A baseline for questions that take several steps of reasoning, with a model that can reason.",
    group="baselines",
    calls=lambda o: (o.samples, 2 * o.samples),
    options=DirectOptions,
    prompts=PROMPTS,
)
def cot(graph: Graph, components: Components) -> None:
    """Ask the model to think step by step, without retrieval unless retrieve=True."""
    add_asking(graph, components, "cot", reasoning=True, values=reasoned)
