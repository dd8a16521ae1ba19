"""DOS RAG: as many passages as the budget holds, in the order of their documents. One call.

Source: Laitenberger et al. 2025 (Stronger Baselines for Retrieval-Augmented Generation with
Long-Context Language Models, arXiv 2506.03989), the baseline Document's Original Structure RAG.
"""

from __future__ import annotations

from langgraph.graph import END

from ragweave.graphs.fragments import add_question_retrieval, together
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.document_order import DosRagOptions, restore_step
from ragweave.nodes.options import Options
from ragweave.nodes.step import Goto, Route
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState

READ = AnswerStep("concat", "concat")


def to_answers(state: RAGState, options: Options) -> Goto:
    """Route: one branch a sample over all passages that the budget holds."""
    return branches(state, "concat", options, contexts=together(state["passages"])) or "vote"


def build(parts: Parts[DosRagOptions]) -> CompiledGraph:
    """Build `dos_rag`: retrieve, fill the budget, restore the order, read."""
    options = parts.options

    graph = draft(parts)
    add_question_retrieval(graph, parts)
    graph.add_node("restore", restore_step(options))
    graph.add_node("concat", parts.answers(READ), retry_policy=parts.retry)
    graph.add_node("vote", vote_step("vote", "concat", options))
    graph.add_edge("collect", "restore")
    graph.add_conditional_edges("restore", Route(to_answers, options), ["concat", "vote"])
    graph.add_edge("concat", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "dos_rag", parts)


METHOD = Method(
    name="dos_rag",
    summary="As many passages as the budget holds, in the order of their documents.",
    paper="Laitenberger et al. 2025, DOS RAG",
    when=(
        "A model with a long context, and documents cut into passages: the simple baseline that "
        "multi-stage methods have to beat at the same number of tokens."
    ),
    best="p",
    worst="2p",
    options=DosRagOptions,
    build=build,
    prompts=answer_prompts("concat"),
)
