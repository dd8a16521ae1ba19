"""Concat + PF: Concat, and only where it says Unknown, Post-Fusion as the fallback.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.3 and figure 2, upper half.
"""

from __future__ import annotations

from dataclasses import dataclass

from langgraph.graph import END

from ragweave.graphs.fragments import add_question_retrieval, one_by_one, together
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import FUSION, Method, answer_prompts
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.options import FusionOptions, Options
from ragweave.nodes.step import Goto, Route
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState


@dataclass(frozen=True, kw_only=True)
class ConcatPfOptions(FusionOptions):
    """Options of `concat_pf`."""


def to_concat(state: RAGState, options: Options) -> Goto:
    """Route: one branch a sample over all passages; to the vote where there are none."""
    contexts = together(state["passages"])
    return branches(state, "concat", options, contexts=contexts) or "concat_vote"


def falls_back(state: RAGState, _options: Options) -> bool:
    """Say whether Unknown sends each passage to Post-Fusion: where there are any."""
    return bool(state["passages"])


def to_fallback(state: RAGState, options: Options) -> Goto:
    """Route: an answer ends the run; Unknown sends each passage to Post-Fusion."""
    if state["status"] == "answered" or not falls_back(state, options):
        return "answered"
    return branches(state, "post_fusion", options, contexts=one_by_one(state["passages"]))


def build(parts: Parts[ConcatPfOptions]) -> CompiledGraph:
    """Build `concat_pf`: 1 call where Concat knows, 1 + k where it does not."""
    options = parts.options
    concat = AnswerStep("concat", "concat")
    post_fusion = AnswerStep("post_fusion", "post_fusion", round=1, one_passage=True)

    graph = draft(parts)
    add_question_retrieval(graph, parts)
    graph.add_node("concat", parts.answers(concat), retry_policy=parts.retry)
    graph.add_node(
        "concat_vote", vote_step("concat_vote", "concat", options, falls_back=falls_back)
    )
    graph.add_node("post_fusion", parts.answers(post_fusion), retry_policy=parts.retry)
    graph.add_node("vote", vote_step("vote", "post_fusion", options))
    graph.add_conditional_edges("collect", Route(to_concat, options), ["concat", "concat_vote"])
    graph.add_edge("concat", "concat_vote")
    graph.add_conditional_edges(
        "concat_vote", Route(to_fallback, options), {"answered": END, "unknown": "post_fusion"}
    )
    graph.add_edge("post_fusion", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "concat_pf", parts)


METHOD = Method(
    name="concat_pf",
    summary="Concat; where it says Unknown, Post-Fusion as the fallback.",
    paper=FUSION,
    when=(
        "The recommended start: Concat's price on most questions, and k more calls only where "
        "there would be no answer at all."
    ),
    best="p",
    worst="2·(1 + k)·p",
    options=ConcatPfOptions,
    build=build,
    prompts=answer_prompts("concat", "post_fusion"),
)
