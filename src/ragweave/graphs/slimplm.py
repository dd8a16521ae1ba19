"""SlimPLM: a slim proxy model decides when and what to retrieve; the big model is called once.

Source: Tan et al. 2024 (Small Models, Big Insights: Leveraging Slim Proxy Models To Decide When and
What to Retrieve for LLMs), section 3 and figure 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from langgraph.graph import END

from ragweave.graphs.fragments import (
    add_begin,
    add_judgement,
    add_retrieval,
    add_rewriting,
    second_look,
)
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.judge import NecessityOptions, looks_again, to_second_look
from ragweave.nodes.options import Options
from ragweave.nodes.proxy import PROXY_PROMPTS, REFERENCE_PROMPTS, reference_answer
from ragweave.nodes.retrieve import BudgetOptions, to_retrieval, trim_step
from ragweave.nodes.step import Goto, Route
from ragweave.nodes.vote import vote_step
from ragweave.state import RAGState

DIRECT = AnswerStep("direct", "direct")
ANSWER = replace(reference_answer("answer"), round=1)


@dataclass(frozen=True, kw_only=True)
class SlimPlmOptions(NecessityOptions, BudgetOptions):
    """Options of `slimplm`."""

    k: int = 10
    """Passages per query (section 4, released code)."""


def to_reference(state: RAGState, options: Options) -> Goto:
    """Route: what is not known is answered over the reference, once a sample."""
    return branches(state, "answer", options, contexts=[state["passages"]])


def build(parts: Parts[SlimPlmOptions]) -> CompiledGraph:
    """Build `slimplm`: one call to the big model, two where what was judged known is not."""
    options, retry = parts.options, parts.retry

    graph = draft(parts)
    add_begin(graph, parts)
    add_judgement(graph, parts, given="collect")
    add_rewriting(graph, parts)
    add_retrieval(graph, parts)
    graph.add_node("trim", trim_step(options))
    graph.add_node("direct", parts.answers(DIRECT), retry_policy=retry)
    graph.add_node("answer", parts.answers(ANSWER), retry_policy=retry)
    again, second = second_look(parts, looks_again, to_second_look)
    direct_vote = vote_step("direct_vote", "direct", options, falls_back=again)
    graph.add_node("direct_vote", direct_vote)
    graph.add_node("vote", vote_step("vote", ("direct", "answer"), options))
    graph.add_conditional_edges("plan", Route(to_retrieval, options), {"each query": "retrieve"})
    graph.add_edge("collect", "trim")
    graph.add_conditional_edges("trim", Route(to_reference, options), ["answer"])
    graph.add_edge("direct", "direct_vote")
    graph.add_conditional_edges(
        "direct_vote",
        Route(second, options),
        {"answered": END, "not known": "rewrite", "not rewritten": "plan"},
    )
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
    worst="4p, and 2 + gate_samples + claims small",
    options=SlimPlmOptions,
    build=build,
    roles=lambda options: options.small_roles,
    prompts={**PROXY_PROMPTS, **REFERENCE_PROMPTS, **answer_prompts("direct")},
)
