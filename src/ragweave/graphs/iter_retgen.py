"""ITER-RETGEN: retrieve and generate in turns; each round searches with the last round's text.

Source: Shao et al. 2023 (Enhancing Retrieval-Augmented Large Language Models with Iterative
Retrieval-Generation Synergy); as a baseline in SlimPLM (appendix B: three rounds) and BlendFilter
(appendix C: no retriever training).
"""

from __future__ import annotations

from dataclasses import dataclass

from langgraph.graph import END

from ragweave.graphs.fragments import add_question_retrieval
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.answer import AnswerStep, branches
from ragweave.nodes.blending import SHOT_PROMPTS
from ragweave.nodes.expand_query import requery_step
from ragweave.nodes.printed import REFERRED
from ragweave.nodes.profile import Paper
from ragweave.nodes.retrieve import to_retrieval
from ragweave.nodes.rounds import Loop, RoundOptions
from ragweave.nodes.shots import ShotOptions, reasoned
from ragweave.nodes.step import Goto, Route
from ragweave.nodes.vote import vote_step
from ragweave.nodes.wording import variants
from ragweave.state import RAGState

LOOP = Loop(node="answer", round=("requery", "retrieve", "collect"), ending=("vote",))


@dataclass(frozen=True, kw_only=True)
class IterRetgenOptions(RoundOptions, ShotOptions):
    """Options of `iter_retgen`."""

    @property
    def own_paper(self) -> Paper:
        """BlendFilter."""
        return "blendfilter"


def to_answers(state: RAGState, options: IterRetgenOptions) -> Goto:
    """Route: a branch a sample over this round's passages; without any, closed book."""
    return branches(state, "answer", options, contexts=[state["passages"]], round=state["round"])


def to_next_round(state: RAGState, options: IterRetgenOptions) -> str:
    """Route: another round, or the vote; passages given by the caller never change by searching."""
    if not state["retrieved"]:
        return "done"
    last = LOOP.is_last(state, done=state["round"] + 1, most=options.rounds)
    return "done" if last else "next round"


def left_rounds_out(state: RAGState, options: IterRetgenOptions) -> bool:
    """Say whether the recursion limit left rounds out; the option's own count is the method."""
    return bool(state["retrieved"]) and state["round"] + 1 < options.rounds


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

    graph = draft(parts)
    add_question_retrieval(graph, parts)
    graph.add_node("answer", parts.answers(answer), retry_policy=parts.retry)
    graph.add_node("requery", requery_step("answer", options))
    graph.add_node("vote", vote_step("vote", "answer", options, truncated=left_rounds_out))
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
    when=(
        "Questions whose answer's words find better passages than the question's; a baseline "
        "of BlendFilter and SlimPLM."
    ),
    best="rounds·p",
    worst="2·rounds·p",
    options=IterRetgenOptions,
    build=build,
    prompts={
        **answer_prompts("cot", "cot_passages"),
        **variants(SHOT_PROMPTS, "cot_shots", "cot_shots_closed"),
        "cot_passages@slimplm": REFERRED,
    },
)
