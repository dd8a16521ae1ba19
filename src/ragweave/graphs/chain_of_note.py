"""Chain-of-Note: a note on each passage, then the answer or Unknown. One call.

Source: Yu et al. 2023 (Chain-of-Note: Enhancing Robustness in Retrieval-Augmented Language Models),
section 2.3.1 and appendix A.5, as numbered in version 2.
"""

from __future__ import annotations

from langgraph.graph import END

from ragweave.graphs.fragments import add_question_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.chain_of_note import NAME, NOTES, PROMPTS, ChainOfNoteOptions, to_notes
from ragweave.nodes.step import Route
from ragweave.nodes.vote import vote_step


def build(parts: Parts[ChainOfNoteOptions]) -> CompiledGraph:
    """Build `chain_of_note`: notes and answer in one reply."""
    options = parts.options

    graph = draft(parts)
    add_question_retrieval(graph, parts)
    graph.add_node(NAME, parts.answers(NOTES), retry_policy=parts.retry)
    graph.add_node("vote", vote_step("vote", NAME, options))
    graph.add_conditional_edges("collect", Route(to_notes, options), [NAME, "vote"])
    graph.add_edge(NAME, "vote")
    graph.add_edge("vote", END)
    return finish(graph, NAME, parts)


METHOD = Method(
    name=NAME,
    summary="A note on each passage, then the answer or Unknown.",
    paper="Yu et al. 2023, Chain-of-Note",
    when=(
        "Noisy retrieval, where irrelevant passages must not mislead and an honest Unknown is "
        "worth having. Replies are longer: a note a passage."
    ),
    best="p",
    worst="2p",
    options=ChainOfNoteOptions,
    build=build,
    prompts={**PROMPTS, **answer_prompts("concat", "direct")},
)
