"""Direct prompting: the question alone, or with `retrieve=True` over the passages found. One call.

Source: the baseline of all papers. The examples of `shots` are those of BlendFilter's tables; with them the
prompt does not ask to say Unknown.
"""

from typing import Any

from pydantic import Field

from ragweave.graphs.base import Graph, method
from ragweave.graphs.examples import PROMPTS, ShotOptions, answered, with_shots
from ragweave.nodes.answer import add_answer
from ragweave.nodes.queries import SearchOptions, search_node
from ragweave.nodes.retrieve import TO_RETRIEVAL, add_search, to_retrieval
from ragweave.nodes.runner import Components


class DirectOptions(ShotOptions, SearchOptions):
    """Options of `direct` and `cot`."""

    retrieve: bool = Field(False, description="Whether to retrieve passages and answer from them.")

    @property
    def query_calls(self) -> tuple[int, int]:
        """None without retrieval."""
        return super().query_calls if self.retrieve else (0, 0)


def add_asking(graph: Graph, components: Components, name: str, **how: Any) -> None:
    """Add retrieval where it is asked for, the answer, with examples if they are wanted, and the vote."""
    add_search(graph, search_node(components))
    graph.add_conditional_edges(
        "begin",
        lambda state, runtime: to_retrieval(state) if runtime.context.retrieve else "no search",
        {**TO_RETRIEVAL, "no search": "collect"},
    )
    add_answer(graph, components, "collect", name, f"{name}_passages", closed_book=name, named=with_shots, **how)


@method(
    "direct",
    paper="the baseline of all papers",
    when="To know what the model knows by itself. With retrieve=True it is the plainest RAG there is.",
    group="baselines",
    calls=lambda o: (o.samples, o.samples),
    options=DirectOptions,
    prompts=PROMPTS,
)
def direct(graph: Graph, components: Components) -> None:
    """Ask the model, without retrieval unless retrieve=True."""
    add_asking(graph, components, "direct", values=answered)
