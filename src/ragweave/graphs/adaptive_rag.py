"""Adaptive-RAG: a classifier sends each question to no retrieval, one round, or many (IRCoT).

Source: Jeong et al. 2024 (Adaptive-RAG), section 3 and figure 2.
"""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END

from ragweave.graphs.fragments import add_begin, second_look
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes import adaptive_rag, ircot
from ragweave.nodes.adaptive_rag import AdaptiveRagOptions
from ragweave.nodes.retrieve import retrieve_step
from ragweave.nodes.step import Route
from ragweave.nodes.vote import vote_step


def build(parts: Parts[AdaptiveRagOptions]) -> CompiledGraph:
    """Build `adaptive_rag`: a small call, or none, to choose, and the calls of what was chosen."""
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry
    pools = tuple(reader.name for reader in ircot.READERS.values())
    one = retrieve_step(parts.retriever, options, "search", lambda opts: opts.k_one)
    classify = adaptive_rag.classify_step(models, prompts, options, parts.retriever)

    graph = draft(parts)
    add_begin(graph, parts)
    graph.add_node("classify", classify, retry_policy=retry)
    graph.add_node("search", one, retry_policy=retry)
    graph.add_node("retrieve", retrieve_step(parts.retriever, options), retry_policy=retry)
    graph.add_node("collect", adaptive_rag.collect_routed_step(options))
    graph.add_node("reason", ircot.reason_step(models, prompts, options), retry_policy=retry)
    for reader in ircot.READERS.values():
        graph.add_node(reader.name, parts.answers(reader), retry_policy=retry)
        graph.add_edge(reader.name, "vote")
    again, second = second_look(parts, adaptive_rag.looks_again, adaptive_rag.to_second_look)
    ended_early = adaptive_rag.ended_early
    vote = vote_step("vote", pools, options, truncated=ended_early, falls_back=again)
    graph.add_node("vote", vote)
    readers: dict[Hashable, str] = {"read": "answer", "reason": "answer_cot"}
    graph.add_conditional_edges(
        "begin",
        Route(adaptive_rag.to_classifier, options),
        {"classify": "classify", "passages given": "collect"},
    )
    graph.add_conditional_edges(
        "classify",
        Route(adaptive_rag.to_route, options),
        {"one": "search", "many": "retrieve", **readers},
    )
    graph.add_edge("search", "collect")
    graph.add_edge("retrieve", "collect")
    graph.add_conditional_edges(
        "collect",
        Route(adaptive_rag.to_reading, options),
        {"many rounds": "reason", "nothing found": "vote", **readers},
    )
    graph.add_conditional_edges(
        "reason",
        Route(ircot.to_next, options),
        {"sentence": "retrieve", "next": "reason", "finish": END, **readers},
    )
    graph.add_conditional_edges(
        "vote",
        Route(second, options),
        {"answered": END, "not known": "search"},
    )
    return finish(graph, "adaptive_rag", parts)


METHOD = Method(
    name="adaptive_rag",
    summary="A classifier chooses for each question: no retrieval, one round, or many.",
    paper="Jeong et al. 2024, Adaptive-RAG",
    when="Where easy and multi-hop questions come mixed: train a `router` on your own.",
    best="p",
    worst="max_steps + 4p, and 1 small",
    options=AdaptiveRagOptions,
    build=build,
    roles=lambda options: (
        ("proxy",) if options.strategy == "classified" and not options.router else ()
    ),
    prompts={
        **adaptive_rag.PROMPTS,
        **ircot.PROMPTS,
        **answer_prompts("concat", "direct", "cot", "cot_passages"),
    },
)
