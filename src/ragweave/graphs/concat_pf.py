"""Concat + PF: Concat, and only where it says Unknown, Post-Fusion as the fallback.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.3 and figure 2, upper half.

Where we differ: with `collection="auto"`, a question about the whole collection is answered by `table_query` or `exhaustive`.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END
from langgraph.runtime import Runtime, get_runtime
from pydantic import Field

from ragweave.graphs.base import Graph, compile_method, method
from ragweave.graphs.concat import FusionOptions
from ragweave.graphs.exhaustive import exhaustive
from ragweave.graphs.table_query import table_query
from ragweave.nodes.answer import answer_branches, answer_node, each_sample, one_by_one, together
from ragweave.nodes.options import Options, make_options
from ragweave.nodes.queries import search_node
from ragweave.nodes.retrieve import TO_RETRIEVAL, Route, add_search, to_retrieval
from ragweave.nodes.route import asks_about_all, fits_tables
from ragweave.nodes.runner import Caller, Components, FunctionNode
from ragweave.nodes.vote import add_fallback, end_by_vote
from ragweave.state import Note, RAGOutput, RAGState, add_usage, no_usage
from ragweave.tools.retrieval.base import known_of


class CollectionOptions(Options):
    """Options of a method that may leave questions about the whole collection to others."""

    collection: Literal["", "auto"] = Field(
        "",
        description="`auto`: English questions that count, list or compare all things of a kind in the knowledge base go "
        "to `table_query` if a table has what they name, else to `exhaustive`.",
    )

    @property
    def collection_calls(self) -> int:
        """The maximum of calls for such a question."""
        methods = (table_query, exhaustive) if self.collection else ()
        return sum(method.calls(make_options(method.options, {}))[1] for method in methods)


class ConcatPfOptions(FusionOptions, CollectionOptions):
    """Options of `concat_pf`."""


def add_collection(
    graph: Graph,
    components: Components,
    otherwise: Callable[[Any, Runtime[Any]], Route],
    routes: Mapping[Hashable, str],
) -> None:
    """Add the route from `begin`: a question about everything is left to other methods, if `collection` says so.

    Any other goes as `otherwise` says, and so does one to which they have no answer.
    """

    async def answer(state: RAGState, config: RunnableConfig, caller: Caller) -> Any:
        own, node = get_runtime(Options).context, graph.nodes["whole_collection"]
        context = {name: getattr(own, name) for name in Options.model_fields.keys() - {"samples", "profile"}}
        given = {"question": state["question"], "answer_type": state["answer_type"]}
        keys = [*RAGOutput.__annotations__, "notes"]
        collection, spent, notes = known_of(components.retriever, "collection"), no_usage(), list[Note]()
        for chosen in [*([table_query] if fits_tables(state["question"], collection) else []), exhaustive]:
            compiled = compile_method(chosen, components, {}, trace_policy=node.trace_policy)
            output = await caller.call(compiled, given, config, context=context, output_keys=keys)
            spent, notes = add_usage(spent, output["usage"]), [*notes, *output["notes"]]
            if any(event["event"] == "query_run" and not event["detail"]["empty"] for event in output["notes"]):
                break  # else table_query has answered from a search
        return {**output, "usage": spent, "notes": notes}

    def to_start(state: RAGState, runtime: Runtime[CollectionOptions]) -> Route:
        collection = known_of(components.retriever, "collection") if runtime.context.collection else None
        wanted = collection is not None and not state["given"] and asks_about_all(state["question"], collection)
        return "whole collection" if wanted else otherwise(state, runtime)

    def to_end(state: RAGState, runtime: Runtime[CollectionOptions]) -> Route:
        return "answered" if state["status"] == "answered" else otherwise(state, runtime)

    graph.add_node("whole_collection", FunctionNode(answer, name="whole_collection"))
    graph.add_conditional_edges("begin", to_start, {"whole collection": "whole_collection", **routes})
    graph.add_conditional_edges("whole_collection", to_end, {"answered": END, **routes})


@method(
    "concat_pf",
    paper="Liu et al. 2024, Post-fusion as Fallback",
    when="The recommended start: Concat's price on most questions, and k more calls only where it has no answer.",
    group="start here",
    calls=lambda o: (o.samples, (1 + o.k) * o.samples + o.collection_calls),
    options=ConcatPfOptions,
    prompts={**table_query.prompts, **exhaustive.prompts},
)
def concat_pf(graph: Graph, components: Components) -> None:
    """Concat; where it says Unknown, Post-Fusion as the fallback."""
    add_search(graph, search_node(components))
    add_collection(graph, components, lambda state, _runtime: to_retrieval(state), TO_RETRIEVAL)
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
