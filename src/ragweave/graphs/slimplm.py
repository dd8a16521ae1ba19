"""SlimPLM: a slim proxy model decides when and what to retrieve; the big model is called once.

Source: Tan et al. 2024 (Small Models, Big Insights: Leveraging Slim Proxy Models To Decide When and
What to Retrieve for LLMs), section 3 and figure 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.graph import END, START

from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.begin import begin_step
from ragweave.nodes.budget import BudgetOptions, trim_step
from ragweave.nodes.draft import draft_step
from ragweave.nodes.judge import judge_claim_step, judge_step
from ragweave.nodes.necessity import (
    NecessityOptions,
    to_claim_filter,
    to_draft,
    to_judge,
    to_rewrite,
    without_verdict,
)
from ragweave.nodes.options import Options
from ragweave.nodes.proxy_faults import proxy_down
from ragweave.nodes.proxy_prompts import PROXY_PROMPTS
from ragweave.nodes.reference import REFERENCE_PROMPTS, reference_answer
from ragweave.nodes.retrieve import collect_step, retrieve_step, to_retrieval
from ragweave.nodes.rewrite import plan_step, rewrite_step
from ragweave.nodes.step import Route
from ragweave.nodes.vote import vote_step

DIRECT = AnswerStep("direct", "direct")
ANSWER = reference_answer("answer")


@dataclass(frozen=True, kw_only=True)
class SlimPlmOptions(NecessityOptions, BudgetOptions):
    """Options of `slimplm`."""

    k: int = 10
    """Passages per query (section 4, released code)."""


def to_reference(state: Mapping[str, Any], options: Options) -> Any:
    """Route: what is not known is answered over the reference, once a sample."""
    return branches(state, "answer", options, contexts=[state["passages"]])


def build(parts: Parts[SlimPlmOptions]) -> CompiledGraph:
    """Build `slimplm`: one call to the big model; proxy, judge and rewriter are small."""
    options, models, prompts, retry = parts.options, parts.models, parts.prompts, parts.retry
    scorer = parts.judge_scorer
    slim: dict[str, Any] = {"retry_policy": retry, "error_handler": proxy_down("plan")}
    unjudged: dict[str, Any] = {
        "retry_policy": retry,
        "error_handler": proxy_down(without_verdict(options)),
    }

    graph = draft(options)
    graph.add_node("begin", begin_step(options))
    graph.add_node("draft", draft_step(models, prompts, options), **slim)
    graph.add_node("judge", judge_step(models, prompts, options, scorer), **unjudged)
    graph.add_node("rewrite", rewrite_step(models, prompts, options), **slim)
    graph.add_node("judge_claim", judge_claim_step(models, prompts, options, scorer), **slim)
    graph.add_node("plan", plan_step(options))
    graph.add_node("retrieve", retrieve_step(parts.retriever, options), retry_policy=retry)
    graph.add_node("collect", collect_step(options))
    graph.add_node("trim", trim_step(options))
    graph.add_node("direct", parts.answers(DIRECT), retry_policy=retry)
    graph.add_node("answer", parts.answers(ANSWER), retry_policy=retry)
    graph.add_node("vote", vote_step("vote", ("direct", "answer"), options))
    graph.add_edge(START, "begin")
    graph.add_conditional_edges(
        "begin",
        Route(to_draft, options),
        {"draft": "draft", "no proxy": "plan", "passages given": "collect"},
    )
    graph.add_conditional_edges(
        "draft",
        Route(to_judge, options),
        {"judge": "judge", "rewrite": "rewrite", "no draft": "plan"},
    )
    graph.add_conditional_edges(
        "judge",
        Route(to_rewrite, options),
        {"known": "direct", "not known": "rewrite", "not rewritten": "plan"},
    )
    graph.add_conditional_edges(
        "rewrite",
        Route(to_claim_filter, options),
        {"each claim": "judge_claim", "no claim to judge": "plan"},
    )
    graph.add_edge("judge_claim", "plan")
    graph.add_conditional_edges("plan", Route(to_retrieval, options), {"each query": "retrieve"})
    graph.add_edge("retrieve", "collect")
    graph.add_edge("collect", "trim")
    graph.add_conditional_edges("trim", Route(to_reference, options), ["answer"])
    graph.add_edge("direct", "vote")
    graph.add_edge("answer", "vote")
    graph.add_edge("vote", END)
    return finish(graph, "slimplm", parts)


METHOD = Method(
    name="slimplm",
    summary="A small proxy model decides when and what to retrieve; one call to the big one.",
    paper="Tan et al. 2024, SlimPLM",
    when=(
        "Many easy questions, a dear model and a small one at hand: the small one decides "
        "when and what to retrieve, and the big one is called once."
    ),
    best="p, and 2 small",
    worst="p, and 3 + claims small",
    options=SlimPlmOptions,
    build=build,
    prompts={**PROXY_PROMPTS, **REFERENCE_PROMPTS, **answer_prompts("direct")},
)
