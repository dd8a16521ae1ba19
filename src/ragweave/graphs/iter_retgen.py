"""ITER-RETGEN: retrieve and generate in turns; each round searches with the last round's text.

Source: Shao et al. 2023 (Enhancing Retrieval-Augmented Large Language Models with Iterative
Retrieval-Generation Synergy); as a baseline in SlimPLM (appendix B: three rounds) and BlendFilter
(appendix C: no retriever training).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.graph import END, START

from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.augment_prompts import SHOT_PROMPTS
from ragweave.nodes.begin import begin_step
from ragweave.nodes.requery import requery_step
from ragweave.nodes.retrieve import collect_step, retrieve_step, to_retrieval
from ragweave.nodes.rounds import RoundOptions
from ragweave.nodes.shots import ShotOptions, reasoned
from ragweave.nodes.step import Route
from ragweave.nodes.vote import vote_step
from ragweave.state import Stopped

_STEPS = 6
"""Supersteps from an answer through another round to the end."""


@dataclass(frozen=True, kw_only=True)
class IterRetgenOptions(RoundOptions, ShotOptions):
    """Options of `iter_retgen`."""


def to_answers(state: Mapping[str, Any], options: IterRetgenOptions) -> Any:
    """Route: a branch a sample over this round's passages; without any, closed book."""
    return branches(state, "answer", options, contexts=[state["passages"]], round=state["round"])


def to_next_round(state: Mapping[str, Any], options: IterRetgenOptions) -> str:
    """Route: another round, or the vote; passages given by the caller never change by searching."""
    if not state["retrieved"] or state["round"] + 1 >= options.rounds:
        return "done"
    return "next round" if state["remaining_steps"] >= _STEPS else "done"


def cut_short(state: Mapping[str, Any], options: IterRetgenOptions) -> Stopped:
    """Say whether the recursion limit left rounds out; the option's own count is the method."""
    return "rounds" if state["retrieved"] and state["round"] + 1 < options.rounds else ""


def build(parts: Parts[IterRetgenOptions]) -> CompiledGraph:
    """Build `iter_retgen`: `y_t = M(q, R(y_{t-1} ⊕ q))`, one call a round."""
    options = parts.options
    answer = AnswerStep(
        "answer",
        "cot_passages",
        closed_template="cot",
        reasons=True,
        shot_templates=("cot_shots", "cot_shots_closed"),
        values=reasoned,
    )

    graph = draft(options)
    graph.add_node("begin", begin_step(options))
    graph.add_node("retrieve", retrieve_step(parts.retriever, options), retry_policy=parts.retry)
    graph.add_node("collect", collect_step(options))
    graph.add_node("answer", parts.answers(answer), retry_policy=parts.retry)
    graph.add_node("requery", requery_step("answer", options))
    graph.add_node("vote", vote_step("vote", "answer", options, cut_short))
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", Route(to_retrieval, options), ["retrieve", "collect"])
    graph.add_edge("retrieve", "collect")
    graph.add_conditional_edges("collect", Route(to_answers, options), ["answer"])
    graph.add_conditional_edges(
        "answer", Route(to_next_round, options), {"next round": "requery", "done": "vote"}
    )
    graph.add_conditional_edges("requery", Route(to_retrieval, options), ["retrieve"])
    graph.add_edge("vote", END)
    return finish(graph, "iter_retgen", parts)


METHOD = Method(
    name="iter_retgen",
    summary="Retrieve and answer in rounds; each searches with the last one's text.",
    paper="Shao et al. 2023, ITER-RETGEN",
    best="rounds·p",
    worst="rounds·p",
    options=IterRetgenOptions,
    build=build,
    prompts={
        **answer_prompts("cot", "cot_passages"),
        **{name: SHOT_PROMPTS[name] for name in ("cot_shots", "cot_shots_closed")},
    },
)
