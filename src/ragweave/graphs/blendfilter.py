"""BlendFilter: three queries blended, each one's passages filtered by the model, then answered.

Source: Wang et al. 2024 (BlendFilter: Advancing Retrieval-Augmented Large Language Models via
Query Generation Blending and Knowledge Filtering), section 3 and figure 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from langgraph.graph import END

from ragweave.graphs.fragments import add_begin, add_blending
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method
from ragweave.nodes.answer import branches, short_answers
from ragweave.nodes.blending import (
    AUGMENT_PROMPTS,
    SHORT_ANSWER,
    BlendingOptions,
    reasoned_answer,
    to_first_search,
)
from ragweave.nodes.knowledge_filter import KNOWLEDGE_PROMPTS
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import join_step
from ragweave.nodes.step import Goto, Route
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState, by_query

REASON = reasoned_answer("reason")


@dataclass(frozen=True, kw_only=True)
class BlendFilterOptions(BlendingOptions):
    """Options of `blendfilter`."""


def to_reasoning(state: RAGState, options: Options) -> Goto:
    """Route: one branch a sample over the union, even where the filter kept nothing of it."""
    return branches(state, "reason", options, contexts=[state["passages"]])


def to_short_answer(state: RAGState, _options: Options) -> Goto:
    """Route: each reasoning is read by a turn of its own; an empty one cannot be."""
    return short_answers(state, "short_answer", "reason") or "nothing said"


def build(parts: Parts[BlendFilterOptions]) -> CompiledGraph:
    """Build `blendfilter`: 11 calls (10 under `strategyqa`), 5 of them in sequence."""
    options, retry = parts.options, parts.retry

    graph = draft(parts)
    add_begin(graph, parts)
    add_blending(graph, parts, lambda _options: by_query)
    graph.add_node("reason", parts.answers(REASON), retry_policy=retry)
    graph.add_node("reasoned", join_step("reasoned", options))
    graph.add_node("short_answer", parts.answers(SHORT_ANSWER), retry_policy=retry)
    graph.add_node(
        "vote", vote_step("vote", ("reason", "short_answer"), options, reader="short_answer")
    )
    graph.add_conditional_edges(
        "begin",
        Route(to_first_search, options),
        {"question": "retrieve", "nothing to retrieve": "augment"},
    )
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
    worst="8 + hops + 3p, 5 + hops in sequence",
    options=BlendFilterOptions,
    build=build,
    roles=lambda options: ("filter",) if options.knowledge_filter else (),
    prompts={**AUGMENT_PROMPTS, **KNOWLEDGE_PROMPTS},
)
