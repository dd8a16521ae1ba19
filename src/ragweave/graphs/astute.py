"""Astute RAG: the model's own knowledge and what was retrieved, consolidated by source.

Source: Wang et al. 2024 (Astute RAG: Overcoming Imperfect Retrieval Augmentation and Knowledge
Conflicts for Large Language Models, arXiv 2410.07176), section 4 and algorithm 1.
"""

from __future__ import annotations

from langgraph.graph import END

from ragweave.graphs.fragments import add_begin, add_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes import astute
from ragweave.nodes.astute import ANSWER, PROMPTS, AstuteOptions, AstuteState
from ragweave.nodes.step import Route
from ragweave.nodes.vote import vote_step


def build(parts: Parts[AstuteOptions]) -> CompiledGraph:
    """Build `astute`: a call for what is known, one for each further round, and the answer."""
    parts = parts.extended(AstuteState)
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry

    graph = draft(parts)
    add_begin(graph, parts)
    add_retrieval(graph, parts)
    graph.add_node("recall", astute.recall_step(models, prompts, options), retry_policy=retry)
    graph.add_node(
        "consolidate", astute.consolidate_step(models, prompts, options), retry_policy=retry
    )
    graph.add_node("answer", parts.answers(ANSWER), retry_policy=retry)
    graph.add_node("vote", vote_step("vote", "answer", options))
    graph.add_conditional_edges(
        "begin", Route(astute.to_knowledge, options), ["retrieve", "recall", "collect"]
    )
    graph.add_edge("recall", "collect")
    graph.add_edge("collect", "consolidate")
    graph.add_conditional_edges("consolidate", Route(astute.to_answer, options), ["answer"])
    graph.add_edge("answer", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "astute", parts)


METHOD = Method(
    name="astute",
    summary="Own knowledge and retrieved passages, consolidated by source, then answered.",
    paper="Wang et al. 2024, Astute RAG",
    when=(
        "A large model that knows much, over a retriever that may mislead: what both sources say "
        "outweighs what one says alone. Small models remember too little."
    ),
    best="1 + p",
    worst="iterations + 2p",
    options=AstuteOptions,
    build=build,
    prompts={**PROMPTS, **answer_prompts("direct")},
)
