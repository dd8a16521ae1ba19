"""SuRe: candidate answers, a summary for each, and a choice by validity and pairwise ranking.

Source: Kim et al. 2024 (SuRe: Summarizing Retrievals using Answer Candidates for Open-domain QA of
LLMs), section 3 and figure 2.
"""

from __future__ import annotations

from langgraph.graph import END

from ragweave.graphs.fragments import add_question_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method
from ragweave.nodes import sure
from ragweave.nodes.retrieve import join_step
from ragweave.nodes.step import Route
from ragweave.nodes.sure import SureOptions, SureState
from ragweave.nodes.sure_prompts import PROMPTS


def to_proposal(state: SureState, _options: SureOptions) -> str:
    """Route: without any passage there is nothing to propose from."""
    return "propose" if state["passages"] else "choose"


def build(parts: Parts[SureOptions]) -> CompiledGraph:
    """Build `sure`: one call, and for K candidates K summaries, K checks and K·(K - 1) comparisons."""
    parts = parts.extended(SureState)
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry

    graph = draft(parts)
    add_question_retrieval(graph, parts)
    graph.add_node("propose", sure.propose_step(models, prompts, options), retry_policy=retry)
    graph.add_node("summarise", sure.summarise_step(models, prompts, options), retry_policy=retry)
    graph.add_node("join", join_step("join", options))
    graph.add_node("verify", sure.verify_step(models, prompts, options), retry_policy=retry)
    graph.add_node("rank", sure.rank_step(models, prompts, options), retry_policy=retry)
    graph.add_node("choose", sure.choose_step(options))
    graph.add_conditional_edges(
        "collect",
        Route(to_proposal, options),
        {"propose": "propose", "choose": "choose"},
    )
    graph.add_conditional_edges(
        "propose", Route(sure.to_summaries, options), ["summarise", "choose"]
    )
    graph.add_edge("summarise", "join")
    graph.add_conditional_edges(
        "join", Route(sure.to_checks, options), ["verify", "rank", "choose"]
    )
    graph.add_edge("verify", "choose")
    graph.add_edge("rank", "choose")
    graph.add_edge("choose", END)
    return finish(graph, "sure", parts)


METHOD = Method(
    name="sure",
    summary="Candidate answers, a summary for each; the best supported one wins.",
    paper="Kim et al. 2024, SuRe",
    when=(
        "Short answers where passages speak for several: seven calls, most of them short. The "
        "winning summary is a rationale to show."
    ),
    best="1",
    worst="1 + candidates·(candidates + 1)",
    options=SureOptions,
    build=build,
    roles=lambda options: ("judge",) if options.validity or options.ranking else (),
    prompts=PROMPTS,
)
