"""IRCoT: each sentence of the reasoning is the next search; a reader answers over what was found.

Source: Trivedi et al. 2023 (Interleaving Retrieval with Chain-of-Thought Reasoning for
Knowledge-Intensive Multi-Step Questions), section 3 and figure 2.
"""

from __future__ import annotations

from langgraph.graph import END

from ragweave.graphs.fragments import add_begin, add_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.ircot import (
    PROMPTS,
    READERS,
    IrcotOptions,
    cut_short,
    found_so_far,
    reason_step,
    to_next,
)
from ragweave.nodes.retrieve import to_retrieval
from ragweave.nodes.step import Route
from ragweave.nodes.vote import vote_step


def build(parts: Parts[IrcotOptions]) -> CompiledGraph:
    """Build `ircot`: one call a sentence, and the reader's."""
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry
    pools = tuple(reader.name for reader in READERS.values())

    graph = draft(parts)
    add_begin(graph, parts)
    add_retrieval(graph, parts, merge=found_so_far)
    graph.add_node("reason", reason_step(models, prompts, options), retry_policy=retry)
    for reader in READERS.values():
        graph.add_node(reader.name, parts.answers(reader), retry_policy=retry)
        graph.add_edge(reader.name, "vote")
    graph.add_node("vote", vote_step("vote", pools, options, truncated=cut_short))
    graph.add_conditional_edges(
        "begin", Route(to_retrieval, options), {"question": "retrieve", "collect": "collect"}
    )
    graph.add_edge("collect", "reason")
    graph.add_conditional_edges(
        "reason",
        Route(to_next, options),
        {
            "sentence": "retrieve",
            "next": "reason",
            "read": "answer",
            "reason": "answer_cot",
            "finish": END,
        },
    )
    graph.add_edge("vote", END)
    return finish(graph, "ircot", parts)


METHOD = Method(
    name="ircot",
    summary="Each sentence of the reasoning is searched for; a reader answers over what was found.",
    paper="Trivedi et al. 2023, IRCoT",
    when="Multi-hop questions, where what to search for next follows from what was found.",
    best="1 + p",
    worst="max_steps + 2p",
    options=IrcotOptions,
    build=build,
    prompts={**PROMPTS, **answer_prompts("concat", "direct", "cot", "cot_passages")},
)
