"""Adaptive: the components of four papers in one graph, each of which can be switched off.

Sources: a slim proxy's draft decides whether to retrieve, and its claims widen the search (SlimPLM);
so do texts written with and without passages, and the model filters each query's passages
(BlendFilter); a context filter keeps the sentences that help (FILCO); Concat answers, and where it
does not know, Post-Fusion (Liu et al. 2024). With components off it makes the calls of each paper's graph.
"""

from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime, get_runtime
from pydantic import Field

from ragweave.graphs import blendfilter, concat_pf, filco, slimplm
from ragweave.graphs.base import Graph, method
from ragweave.nodes.answer import Branch, answer_branches, answer_node, one_by_one
from ragweave.nodes.retrieve import Route, join
from ragweave.nodes.runner import Caller, Components, FunctionNode, Node
from ragweave.nodes.vote import add_fallback, end_by_vote
from ragweave.state import RAGState


class AdaptiveOptions(
    blendfilter.BlendFilterOptions, slimplm.ProxyOptions, filco.FilterOptions, concat_pf.CollectionOptions
):
    own_paper = ""

    union: Literal["interleave", "by_query"] = Field("interleave", description="How the queries' passages are joined.")
    top: filco.Top = Field(None, description="Maximum segments kept; none: no limit.")
    answer: Literal["concat", "reason", "reference", "generate"] = Field(
        "concat",
        description="How the answer is asked for: Concat, BlendFilter's two turns, SlimPLM's or FILCO's prompt.",
    )
    fallback: bool = Field(True, description="Whether Post-Fusion reads each passage alone if the answer is Unknown.")


class AdaptiveState(slimplm.ProxyState, blendfilter.BlendFilterState, total=False):
    """The state of `adaptive`."""


def styled_answer_node(components: Components) -> Node:
    """Return the answer node, which asks as the run's options say: as Liu et al., BlendFilter, SlimPLM or FILCO."""
    nodes = {
        "concat": answer_node(components, "answer", "concat", round=1),
        "reason": answer_node(components, "answer", "reason", round=1, **blendfilter.REASONED),
        "reference": answer_node(components, "answer", "reference", round=1, **slimplm.REFERENCE),
        "generate": answer_node(components, "answer", "generate", round=1, **filco.GENERATE),
    }

    async def answer(branch: Branch, config: RunnableConfig, caller: Caller) -> Any:
        return await caller.call(nodes[get_runtime(AdaptiveOptions).context.answer], branch, config)

    return FunctionNode(answer, name="answer")


def to_answer(state: RAGState, runtime: Runtime[AdaptiveOptions]) -> Route:
    """Route: one branch per sample; Concat without any passage has nothing to read."""
    contexts = [state["passages"]] if state["passages"] or runtime.context.answer != "concat" else []
    return answer_branches(state, "answer", runtime.context, contexts) or "no passage"


def to_short_answer(state: RAGState, runtime: Runtime[AdaptiveOptions]) -> Route:
    """Route: a second turn reads the answer off each reasoning."""
    reasoned = blendfilter.draft_branches(state, "answer") if runtime.context.answer == "reason" else []
    return reasoned or "short already"


def calls(o: AdaptiveOptions) -> tuple[int, int]:
    """Return the calls per question: the proxy's, the texts, two turns per set, and the answers."""
    least, most = slimplm.small_calls(o)
    texts = sum(kind != "question" for kind in o.queries) + o.hops - 1 + o.knowledge_filter
    sets = len(o.queries) + (o.max_rewrites + o.max_claims) * o.rewrite
    filtering = 2 * sets * o.knowledge_filter + filco.scores_by_model(o)
    answers = (1 + (o.answer == "reason") + o.question_judge + o.fallback * o.k * sets) * o.samples
    return least + o.samples, most + texts + filtering + answers + o.collection_calls


@method(
    "adaptive",
    paper="SlimPLM, BlendFilter, FILCO, Post-fusion as Fallback",
    when="For experiments: start with everything on, read the trace, and switch off what does not earn its calls.",
    group="when to retrieve",
    calls=calls,
    options=AdaptiveOptions,
    state=AdaptiveState,
    prompts={
        **slimplm.slimplm.prompts,
        **blendfilter.blendfilter.prompts,
        **filco.filco.prompts,
        **concat_pf.concat_pf.prompts,
    },
    files=filco.filco.files,
)
def adaptive(graph: Graph, components: Components) -> None:
    """All four papers' components in one graph; each can be switched off."""
    slimplm.add_proxy(graph, components)
    concat_pf.add_collection(graph, components, slimplm.to_draft, {**slimplm.TO_DRAFT, "passages given": "augment"})
    blendfilter.add_blending(graph, components)
    graph.add_node("trim", slimplm.trim)
    graph.add_node("filter_context", filco.filter_node(components))
    graph.add_node("choose_sentences", filco.choose_sentences(components))
    graph.add_node("filtered", join)
    graph.add_node("answer", styled_answer_node(components))
    graph.add_node("reasoned", join)
    graph.add_node(
        "short_answer", answer_node(components, "short_answer", "short_answer", round=2, values=blendfilter.last_turn)
    )
    graph.add_node("post_fusion", answer_node(components, "post_fusion", "post_fusion", round=3, one_passage=True))
    graph.add_conditional_edges(
        "plan", blendfilter.to_first_search, {"each query": "retrieve", "nothing to search": "augment"}
    )
    graph.add_edge("collect", "trim")
    graph.add_conditional_edges(
        "trim", filco.to_filter, {"by score": "filter_context", "by a model": "choose_sentences"}
    )
    graph.add_edge("filter_context", "filtered")
    graph.add_edge("choose_sentences", "filtered")
    graph.add_conditional_edges("filtered", to_answer, {"each sample": "answer", "no passage": "answer_vote"})
    graph.add_edge("answer", "reasoned")
    graph.add_conditional_edges(
        "reasoned", to_short_answer, {"each reasoning": "short_answer", "short already": "answer_vote"}
    )
    graph.add_edge("short_answer", "answer_vote")
    add_fallback(
        graph,
        "answer_vote",
        *("direct", "answer", "short_answer"),
        reader="short_answer",
        wanted=lambda state, o: o.fallback and bool(state["passages"]),
        then=lambda state, o: answer_branches(state, "post_fusion", o, one_by_one(state["passages"])),
        routes={"unknown": "post_fusion"},
    )
    end_by_vote(graph, "post_fusion")
