"""Adaptive-RAG: a classifier sends each question to no retrieval, one round, or many (IRCoT).

Source: Jeong et al. 2024 (Adaptive-RAG: Learning to Adapt Retrieval-Augmented Large Language Models through Question
Complexity), section 3 and figure 2: a classifier reads the question alone and gives one of three classes (3.2): A,
the model answers by itself; B, one retrieval; C, many (3.1; IRCoT, 4.2). One round finds 15 passages and each of many
6 (released code, for Flan-T5).

Where we differ: the paper's classifier is a T5-Large, trained on which approach was right. Here it is a linear router
over MiniLM's vectors (`router=FOLDER`), for which a dearer route must add enough to the probability of a right answer,
or another decision model; without one, a model is asked by our prompt how many searches the question takes. A question
that was to take no retrieval and is answered Unknown is searched for once (`fallback_retrieval`).
"""

from collections.abc import Hashable
from typing import Literal

from langgraph.graph import END
from langgraph.runtime import Runtime
from pydantic import Field

from ragweave.graphs import ircot
from ragweave.graphs.base import Graph, method
from ragweave.graphs.self_eval import to_answer
from ragweave.nodes import route
from ragweave.nodes.answer import answer_branches
from ragweave.nodes.loop import LoopState
from ragweave.nodes.retrieve import Route, collect_node, fallback_wanted, retrieve_node, search_branches
from ragweave.nodes.runner import Components
from ragweave.nodes.vote import add_fallback
from ragweave.state import RouteName


class AdaptiveRagOptions(ircot.IrcotOptions):
    """Options of `adaptive_rag`; those of `ircot` are for many rounds."""

    strategy: Literal["classified", "none", "one", "many"] = Field(
        "classified",
        description="Whether the classifier chooses the route, or every question takes the same one (the paper's No "
        "Retrieval, Single-step and Multi-step Approach). Passages that the caller gives are read once, or with `many` "
        "reasoned over step by step.",
    )
    k_one: int = Field(15, ge=1, description="Passages of a single round; `k` is for each of many rounds.")
    fallback_retrieval: bool = Field(
        True, description="Whether to retrieve once if the answer without passages is Unknown; the paper stops there."
    )


class AdaptiveRagState(LoopState, total=False):
    route: RouteName | None
    """What the classifier chose."""


def to_start(state: AdaptiveRagState, runtime: Runtime[AdaptiveRagOptions]) -> Route:
    """Route: choose, or go the way that is the same for all; given passages need neither."""
    o = runtime.context
    if state["given"]:
        return "reason" if o.strategy == "many" else "read"
    if o.strategy == "classified":
        return "classify"
    return to_route({**state, "route": o.strategy}, runtime)


def to_route(state: AdaptiveRagState, runtime: Runtime[AdaptiveRagOptions]) -> Route:
    """Route: no retrieval, one round, or many."""
    if state["route"] == "none":
        return answer_branches(state, _reader(runtime.context), runtime.context, [[]])
    return search_branches(state["queries"], "search" if state["route"] == "one" else "retrieve")


def to_reader(state: AdaptiveRagState, runtime: Runtime[AdaptiveRagOptions]) -> Route:
    """Route: the reader of one round."""
    return to_answer(state, runtime, _reader(runtime.context))


def _reader(options: AdaptiveRagOptions) -> str:
    return "answer_cot" if options.read_by == "cot" else "answer"


@method(
    "adaptive_rag",
    paper="Jeong et al. 2024, Adaptive-RAG",
    when="Where easy and multi-hop questions come mixed: train a `router` on your own.",
    group="when to retrieve",
    calls=lambda o: (
        (o.strategy == "classified") + o.samples,
        (o.strategy == "classified") + o.max_steps + (1 + o.fallback_retrieval) * o.samples,
    ),
    options=AdaptiveRagOptions,
    state=AdaptiveRagState,
    prompts={**route.PROMPTS, **ircot.PROMPTS},
)
def adaptive_rag(graph: Graph, components: Components) -> None:
    """A classifier chooses for each question: no retrieval, one round, or many."""
    readers: dict[Hashable, str] = {"direct": "answer", "step by step": "answer_cot"}
    graph.add_node("classify", route.classify(components))
    graph.add_node("search", retrieve_node(components.retriever, lambda options: options.k_one))
    graph.add_node("collect", collect_node())
    graph.add_node("retrieve", retrieve_node(components.retriever))
    graph.add_node("add_up", collect_node(ircot.found_so_far))
    graph.add_node("reason", ircot.reason(components))
    ircot.add_readers(graph, components)
    routes: dict[Hashable, str] = {"one": "search", "many": "retrieve", **readers}
    first: dict[Hashable, str] = {"classify": "classify", "read": "collect", "reason": "add_up"}
    graph.add_conditional_edges("begin", to_start, {**first, **routes})
    graph.add_conditional_edges("classify", to_route, routes)
    graph.add_edge("search", "collect")
    graph.add_conditional_edges("collect", to_reader, {**readers, "nothing found": "vote"})
    graph.add_edge("retrieve", "add_up")
    graph.add_edge("add_up", "reason")
    graph.add_conditional_edges(
        "reason", ircot.to_next, {"sentence": "retrieve", "go on": "reason", "answered": END, **readers}
    )
    graph.add_edge("answer", "vote")
    graph.add_edge("answer_cot", "vote")
    add_fallback(
        graph,
        "vote",
        "answer",
        "answer_cot",
        wanted=fallback_wanted(components),
        then=lambda state, _options: search_branches(state["queries"], "search"),
        routes={"not known": "search"},
    )
