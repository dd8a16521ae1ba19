"""BlendFilter: three queries blended, each one's passages filtered by the model, then answered.

Source: Wang et al. 2024 (BlendFilter: Advancing Retrieval-Augmented Large Language Models via
Query Generation Blending and Knowledge Filtering), section 3 and figure 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.graph import END, START

from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method
from ragweave.nodes.answer import AnswerStep, branches, short_answers
from ragweave.nodes.augment import (
    blend_step,
    external_step,
    internal_step,
    reasoned_answer,
)
from ragweave.nodes.augment_prompts import AUGMENT_PROMPTS
from ragweave.nodes.begin import begin_step
from ragweave.nodes.blending import (
    BlendingOptions,
    to_augmentation,
    to_blended_search,
    to_first_search,
    to_knowledge_filter,
)
from ragweave.nodes.join import join_step
from ragweave.nodes.knowledge_filter import knowledge_filter_step, topic_step
from ragweave.nodes.knowledge_prompts import KNOWLEDGE_PROMPTS
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import collect_step, retrieve_step
from ragweave.nodes.step import Route
from ragweave.nodes.vote import vote_step
from ragweave.state import by_query

REASON = reasoned_answer("reason")
SHORT_ANSWER = AnswerStep("short_answer", "short_answer", extracts=True, round=1)


@dataclass(frozen=True, kw_only=True)
class BlendFilterOptions(BlendingOptions):
    """Options of `blendfilter`."""


def to_reasoning(state: Mapping[str, Any], options: Options) -> Any:
    """Route: one branch a sample over the union, even where the filter kept nothing of it."""
    return branches(state, "reason", options, contexts=[state["passages"]])


def to_short_answer(state: Mapping[str, Any], _options: Options) -> Any:
    """Route: each reasoning is read by a turn of its own; an empty one cannot be."""
    return short_answers(state, "short_answer", "reason") or "nothing said"


def build(parts: Parts[BlendFilterOptions]) -> CompiledGraph:
    """Build `blendfilter`: 11 calls (10 under `strategyqa`), 5 of them in sequence."""
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry

    graph = draft(options)
    graph.add_node("begin", begin_step(options))
    graph.add_node("retrieve", retrieve_step(parts.retriever, options), retry_policy=retry)
    graph.add_node("augment", join_step("augment", options))
    graph.add_node("external", external_step(models, prompts, options), retry_policy=retry)
    graph.add_node("internal", internal_step(models, prompts, options), retry_policy=retry)
    graph.add_node("topic", topic_step(models, prompts, options), retry_policy=retry)
    graph.add_node("blend", blend_step(options))
    graph.add_node("search", retrieve_step(parts.retriever, options, "search"), retry_policy=retry)
    graph.add_node("gather", join_step("gather", options))
    graph.add_node(
        "knowledge_filter", knowledge_filter_step(models, prompts, options), retry_policy=retry
    )
    graph.add_node("collect", collect_step(options, lambda _options: by_query))
    graph.add_node("reason", parts.answers(REASON), retry_policy=retry)
    graph.add_node("reasoned", join_step("reasoned", options))
    graph.add_node("short_answer", parts.answers(SHORT_ANSWER), retry_policy=retry)
    graph.add_node(
        "vote", vote_step("vote", ("reason", "short_answer"), options, reader="short_answer")
    )
    graph.add_edge(START, "begin")
    graph.add_conditional_edges(
        "begin",
        Route(to_first_search, options),
        {"question": "retrieve", "nothing to retrieve": "augment"},
    )
    graph.add_edge("retrieve", "augment")
    graph.add_conditional_edges(
        "augment", Route(to_augmentation, options), ["external", "internal", "topic", "blend"]
    )
    graph.add_edge("external", "blend")
    graph.add_edge("internal", "blend")
    graph.add_edge("topic", "blend")
    graph.add_conditional_edges(
        "blend",
        Route(to_blended_search, options),
        {"augmented queries": "search", "nothing new": "gather"},
    )
    graph.add_edge("search", "gather")
    graph.add_conditional_edges(
        "gather",
        Route(to_knowledge_filter, options),
        {"each set": "knowledge_filter", "next hop": "external", "no filter": "collect"},
    )
    graph.add_edge("knowledge_filter", "collect")
    graph.add_conditional_edges("collect", Route(to_reasoning, options), ["reason"])
    graph.add_edge("reason", "reasoned")
    graph.add_conditional_edges(
        "reasoned",
        Route(to_short_answer, options),
        {"reasoning": "short_answer", "nothing said": "vote"},
    )
    graph.add_edge("short_answer", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "blendfilter", parts)


METHOD = Method(
    name="blendfilter",
    summary="Three blended queries, each one's passages filtered by the model itself.",
    paper="Wang et al. 2024, BlendFilter",
    when=(
        "Multi-hop questions, and retrievers that bring much that is off-topic. Eleven calls "
        "a question, of which five in sequence."
    ),
    best="9 + 2p, 5 in sequence",
    worst="8 + hops + 2p, 4 + hops in sequence",
    options=BlendFilterOptions,
    build=build,
    prompts={**AUGMENT_PROMPTS, **KNOWLEDGE_PROMPTS},
)
