"""PF + Concat: Post-Fusion, then Concat as the distiller over the passages that gave an answer.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.3 and figure 2, lower half.
"""

from __future__ import annotations

from dataclasses import dataclass

from langgraph.graph import END

from ragweave.graphs.fragments import add_question_retrieval, one_by_one
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import FUSION, Method, answer_prompts
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.context_filter import answers_of, sift_step
from ragweave.nodes.options import FusionOptions, Options
from ragweave.nodes.step import Goto, Route
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState


@dataclass(frozen=True, kw_only=True)
class PfConcatOptions(FusionOptions):
    """Options of `pf_concat`."""


def to_post_fusion(state: RAGState, options: Options) -> Goto:
    """Route: a branch for each passage and sample; to `sift` where there are none."""
    contexts = one_by_one(state["passages"])
    return branches(state, "post_fusion", options, contexts=contexts) or "sift"


def to_distiller(state: RAGState, options: Options) -> Goto:
    """Route: candidates go to the distiller with their passages; without any, to the vote."""
    hints = answers_of(state, "post_fusion")
    if not hints:
        return "all unknown"
    return branches(state, "distill", options, contexts=[state["passages"]], hints=hints)


def build(parts: Parts[PfConcatOptions]) -> CompiledGraph:
    """Build `pf_concat`: k calls, and one more where any passage gave an answer."""
    options = parts.options
    post_fusion = AnswerStep("post_fusion", "post_fusion", one_passage=True)
    distill = AnswerStep("distill", "distill", round=1)

    graph = draft(parts)
    add_question_retrieval(graph, parts)
    graph.add_node("post_fusion", parts.answers(post_fusion), retry_policy=parts.retry)
    graph.add_node("sift", sift_step("post_fusion", options))
    graph.add_node("distill", parts.answers(distill), retry_policy=parts.retry)
    graph.add_node("vote", vote_step("vote", ("post_fusion", "distill"), options))
    graph.add_conditional_edges("collect", Route(to_post_fusion, options), ["post_fusion", "sift"])
    graph.add_edge("post_fusion", "sift")
    graph.add_conditional_edges(
        "sift", Route(to_distiller, options), {"all unknown": "vote", "candidates": "distill"}
    )
    graph.add_edge("distill", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "pf_concat", parts)


METHOD = Method(
    name="pf_concat",
    summary="Post-Fusion; then Concat as the distiller over what gave an answer.",
    paper=FUSION,
    when=(
        "Where quality is worth k + 1 calls on each question: passages that gave no answer "
        "are dropped, and the candidates help to decide."
    ),
    best="k·p",
    worst="2·(k + 1)·p",
    options=PfConcatOptions,
    build=build,
    prompts=answer_prompts("post_fusion", "distill"),
)
