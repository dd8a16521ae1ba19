"""Concat: the question and all passages in one prompt. One call.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.1, equation 1: `a = LLM(q, p1 … pk)`.
"""

from typing import Any

from ragweave.graphs.base import Graph, method
from ragweave.nodes.answer import answer_node, each_sample, together
from ragweave.nodes.ask import Components
from ragweave.nodes.queries import SearchOptions, add_retrieval
from ragweave.nodes.vote import end_by_vote


class FusionOptions(SearchOptions):
    """Options of the methods of Liu et al. 2024."""

    own_paper = "post_fusion"


def add_reading(graph: Graph, components: Components, name: str, **how: Any) -> None:
    """Add retrieval, the answer over all passages by the prompt of that name, and the vote; `how`: see `answer_node`."""
    add_retrieval(graph, components)
    graph.add_node(name, answer_node(components, name, name, **how))
    graph.add_conditional_edges("collect", each_sample(name, together), {"each sample": name, "no passage": "vote"})
    end_by_vote(graph, name)


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
    add_reading(graph, components, "concat")
