"""Adaptive: the parts of all four papers in one graph, each of which can be switched off.

A slim proxy's draft decides whether to retrieve (SlimPLM); its claims, and texts written with and
without passages, widen the search (SlimPLM, BlendFilter); the model filters each query's passages
(BlendFilter), a context filter their sentences (FILCO); Concat answers, and where it does not know,
Post-Fusion does (Liu et al. 2024). With parts off it makes the calls of each paper's own graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from langgraph.graph import END

from ragweave.graphs.fragments import (
    add_begin,
    add_blending,
    add_judgement,
    add_rewriting,
    one_by_one,
    second_look,
    together,
)
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.answer import AnswerStep, branches, short_answers
from ragweave.nodes.blending import (
    AUGMENT_PROMPTS,
    SHORT_ANSWER,
    BlendingOptions,
    reasoned_answer,
    to_first_search,
)
from ragweave.nodes.context_filter import (
    GENERATE_PROMPTS,
    SENTENCE_PROMPTS,
    ContextFilterOptions,
    context_filter_step,
    generated_answer,
)
from ragweave.nodes.judge import NecessityOptions, looks_again, to_second_look
from ragweave.nodes.knowledge_filter import KNOWLEDGE_PROMPTS
from ragweave.nodes.profile import Paper
from ragweave.nodes.proxy import PROXY_PROMPTS, REFERENCE_PROMPTS, reference_answer
from ragweave.nodes.retrieve import BudgetOptions, MergeStrategy, join_step, trim_step
from ragweave.nodes.step import Context, Goto, Route, Step, Work
from ragweave.nodes.sufficiency import answer_work
from ragweave.nodes.vote import vote_step
from ragweave.state import Branch, RAGState, by_query, interleave
from ragweave.tools.models import Role

STYLES = {
    "concat": AnswerStep("answer", "concat"),
    "reason": reasoned_answer("answer"),
    "reference": reference_answer("answer"),
    "generate": generated_answer("answer"),
}
DIRECT = AnswerStep("direct", "direct")
POOLS = ("direct", "answer", "short_answer")
POST_FUSION = AnswerStep("post_fusion", "post_fusion", one_passage=True, round=2)


_ASKED_BY: Mapping[str, Paper] = {
    "concat": "post_fusion",
    "reason": "blendfilter",
    "reference": "slimplm",
    "generate": "filco",
}


@dataclass(frozen=True, kw_only=True)
class AdaptiveOptions(BlendingOptions, NecessityOptions, BudgetOptions, ContextFilterOptions):
    """Options of `adaptive`."""

    union: Literal["interleave", "by_query"] = "interleave"
    """How the queries' passages join: rank by rank (SlimPLM), or query by query (BlendFilter)."""
    top: Literal["auto"] | int | None = None
    """Most spans that the context filter keeps; None: all above its threshold; auto as in `filco`."""
    answer: Literal["concat", "reason", "reference", "generate"] = "concat"
    """How the answer is asked for: Concat, BlendFilter's two turns, SlimPLM's or FILCO's prompt."""
    fallback: bool = True
    """Whether Post-Fusion asks each passage alone where the answer is Unknown."""

    @property
    def own_paper(self) -> Paper:
        """The paper whose way to ask for the answer is chosen."""
        return _ASKED_BY[self.answer]


def asked_roles(options: AdaptiveOptions) -> list[Role]:
    """Return the roles, beside `answer`, in which a model may be asked."""
    filters = options.knowledge_filter or options.filter == "llm"
    return [*options.small_roles, *(("filter",) if filters else ())]


def merge_strategy(options: AdaptiveOptions) -> MergeStrategy:
    """Return how the queries' passages are merged."""
    return interleave if options.union == "interleave" else by_query


def to_answer(state: RAGState, options: AdaptiveOptions) -> Goto:
    """Route: one branch a sample; Concat without any passage has nothing to read."""
    passages = state["passages"]
    contexts = together(passages) if options.answer == "concat" else [passages]
    return branches(state, "answer", options, contexts=contexts) or "no passage"


def to_short_answer(state: RAGState, options: AdaptiveOptions) -> Goto:
    """Route: a reasoning is read by a turn of its own."""
    if options.answer != "reason":
        return "short already"
    return short_answers(state, "short_answer", "answer") or "short already"


def falls_back(state: RAGState, options: AdaptiveOptions) -> bool:
    """Say whether Unknown sends each passage to Post-Fusion."""
    return options.fallback and bool(state["passages"])


def to_fallback(state: RAGState, options: AdaptiveOptions) -> Goto:
    """Route: Unknown sends each passage to Post-Fusion."""
    if state["status"] == "answered" or not falls_back(state, options):
        return "answered"
    return branches(state, "post_fusion", options, contexts=one_by_one(state["passages"]))


def answer_step(parts: Parts[AdaptiveOptions]) -> Step[Branch, AdaptiveOptions]:
    """Return the answer node, which asks in the style that the options in force name."""

    def body(branch: Branch, context: Context[AdaptiveOptions]) -> Work:
        style = STYLES[context.options.answer]
        return answer_work(style, parts.models, parts.prompts, branch, context)

    return Step("answer", body, parts.options)


def build(parts: Parts[AdaptiveOptions]) -> CompiledGraph:
    """Build `adaptive`: two small calls and one big one where the answer is known."""
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry
    context_filter = context_filter_step(parts.filters, models, prompts, options)
    answer_vote = vote_step(
        "answer_vote",
        POOLS,
        options,
        falls_back=falls_back,
        reader="short_answer",
    )

    graph = draft(parts)
    add_begin(graph, parts)
    add_judgement(graph, parts, given="augment")
    graph.add_node("direct", parts.answers(DIRECT), retry_policy=retry)
    again, second = second_look(parts, looks_again, to_second_look)
    direct_vote = vote_step("direct_vote", "direct", options, falls_back=again)
    graph.add_node("direct_vote", direct_vote)
    add_rewriting(graph, parts)
    add_blending(graph, parts, merge_strategy)
    graph.add_node("trim", trim_step(options))
    graph.add_node("filter_context", context_filter, retry_policy=retry)
    graph.add_node("answer", answer_step(parts), retry_policy=retry)
    graph.add_node("reasoned", join_step("reasoned", options))
    graph.add_node("short_answer", parts.answers(SHORT_ANSWER), retry_policy=retry)
    graph.add_node("answer_vote", answer_vote)
    graph.add_node("post_fusion", parts.answers(POST_FUSION), retry_policy=retry)
    graph.add_node("vote", vote_step("vote", "post_fusion", options))
    graph.add_edge("direct", "direct_vote")
    graph.add_conditional_edges(
        "direct_vote",
        Route(second, options),
        {"answered": END, "not known": "rewrite", "not rewritten": "plan"},
    )
    graph.add_conditional_edges(
        "plan",
        Route(to_first_search, options),
        {"question and claims": "retrieve", "nothing to retrieve": "augment"},
    )
    graph.add_edge("collect", "trim")
    graph.add_edge("trim", "filter_context")
    graph.add_conditional_edges(
        "filter_context",
        Route(to_answer, options),
        {"answer": "answer", "no passage": "answer_vote"},
    )
    graph.add_edge("answer", "reasoned")
    graph.add_conditional_edges(
        "reasoned",
        Route(to_short_answer, options),
        {"reasoning": "short_answer", "short already": "answer_vote"},
    )
    graph.add_edge("short_answer", "answer_vote")
    graph.add_conditional_edges(
        "answer_vote",
        Route(to_fallback, options),
        {"answered": END, "unknown": "post_fusion"},
    )
    graph.add_edge("post_fusion", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "adaptive", parts)


METHOD = Method(
    name="adaptive",
    summary="All four papers' parts in one graph; each can be switched off.",
    paper="SlimPLM, BlendFilter, FILCO, Post-fusion as Fallback",
    when=(
        "As a laboratory: every part of the four papers, each of which can be switched off. "
        "Start with all of it, look at the trace, switch off what does not earn its calls."
    ),
    best="p, and 2 small",
    worst="9 + hops + 2·(claims + rewrites) + 5p + 2k'·p, and 2 + gate_samples + claims small",
    options=AdaptiveOptions,
    build=build,
    roles=asked_roles,
    prompts={
        **PROXY_PROMPTS,
        **AUGMENT_PROMPTS,
        **KNOWLEDGE_PROMPTS,
        **SENTENCE_PROMPTS,
        **REFERENCE_PROMPTS,
        **GENERATE_PROMPTS,
        **answer_prompts("direct", "concat", "post_fusion"),
    },
)
