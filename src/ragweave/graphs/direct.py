"""Direct prompting: the question alone, or with `retrieve=True` over the passages found. One call.

Source: the baseline of all papers. The examples of `shots` are those of BlendFilter's tables; with them the
prompt does not ask to say Unknown.
"""

from pydantic import Field

from ragweave.graphs.base import Graph, method
from ragweave.graphs.examples import PROMPTS, ShotOptions, answered, with_shots
from ragweave.nodes.answer import answer_node, each_sample
from ragweave.nodes.ask import Components, Node
from ragweave.nodes.queries import SearchOptions, search_node
from ragweave.nodes.retrieve import TO_RETRIEVAL, add_search, to_retrieval
from ragweave.nodes.vote import end_by_vote


class DirectOptions(ShotOptions, SearchOptions):
    """Options of `direct` and `cot`."""

    retrieve: bool = Field(False, description="Whether to retrieve passages and answer from them.")

    @property
    def query_calls(self) -> tuple[int, int]:
        """None without retrieval."""
        return super().query_calls if self.retrieve else (0, 0)


def add_asking(graph: Graph, components: Components, name: str, answer: Node) -> None:
    """Add retrieval where it is asked for, the answer, and the vote."""
    add_search(graph, search_node(components))
    graph.add_node(name, answer)
    graph.add_conditional_edges(
        "begin",
        lambda state, runtime: to_retrieval(state) if runtime.context.retrieve else "no search",
        {**TO_RETRIEVAL, "no search": "collect"},
    )
    graph.add_conditional_edges("collect", each_sample(name), {"each sample": name})
    end_by_vote(graph, name)


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
    answer = answer_node(
        components, "direct", "direct_passages", closed_book="direct", named=with_shots, values=answered
    )
    add_asking(graph, components, "direct", answer)
