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
from ragweave.nodes.sampling import draws_nothing
from ragweave.nodes.shots import ShotOptions, reasoned
from ragweave.nodes.step import Goto, Route
from ragweave.nodes.vote import pool_of, vote_step
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


def finds_the_same(state: RAGState) -> bool:
    """Say whether a round found the passages that the round before answered from, in their order.

    Question and passages are all that a prompt holds, so that a model which draws nothing would
    say the same, and search with it, in this round and in every later one.
    """
    found = [doc.id or "" for doc in state["passages"]]
    before = [one for one in pool_of(state, "answer") if one["round"] == state["round"] - 1]
    return bool(before) and all(one["passages"] == found for one in before)


def to_next_round(state: RAGState, options: IterRetgenOptions) -> str:
    """Route: another round, or the vote; passages given by the caller never change by searching."""
    if not state["retrieved"]:
        return "done"
    last = LOOP.is_last(state, done=state["round"] + 1, most=options.rounds)
    return "done" if last else "next round"


def left_rounds_out(state: RAGState, options: IterRetgenOptions) -> bool:
    """Say whether the recursion limit left rounds out; the option's own count is the method.

    A round without an answer of its own found what the one before had found: none was left out.
    """
    answered = any(one["round"] == state["round"] for one in pool_of(state, "answer"))
    return answered and bool(state["retrieved"]) and state["round"] + 1 < options.rounds


def build(parts: Parts[IterRetgenOptions]) -> CompiledGraph:
    """Build `iter_retgen`: `y_t = M(q, R(y_{t-1} ⊕ q))`, one call a round.

    A model at temperature 0 is not asked the same again: the run ends where a round finds the last
    one's passages, but under a paper's profile.
    """
    options = parts.options
    model = parts.models.by_role("answer")

    def to_new_answers(state: RAGState, opts: IterRetgenOptions) -> Goto:
        settled = not opts.paper and draws_nothing(model, opts) and finds_the_same(state)
        return "same passages" if settled else to_answers(state, opts)

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
    graph.add_conditional_edges(
        "collect",
        Route(to_new_answers, options),
        {"answer": "answer", "same passages": "vote"},
    )
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
    best="p",
    worst="2·rounds·p",
    options=IterRetgenOptions,
    build=build,
    prompts={
        **answer_prompts("cot", "cot_passages"),
        **variants(SHOT_PROMPTS, "cot_shots", "cot_shots_closed"),
        "cot_passages@slimplm": REFERRED,
    },
)
