"""Chain of thought: direct prompting with "think step by step" (Wei et al. 2022). One call."""

from __future__ import annotations

from dataclasses import dataclass

from ragweave.graphs.fragments import single_round
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.blending import SHOT_PROMPTS
from ragweave.nodes.shots import ShotOptions, reasoned
from ragweave.nodes.wording import variants


@dataclass(frozen=True, kw_only=True)
class CotOptions(ShotOptions):
    """Options of `cot`."""

    retrieve: bool = False
    """Whether to retrieve passages and answer from them."""


def build(parts: Parts[CotOptions]) -> CompiledGraph:
    """Build `cot`: reason and answer once, without passages unless they are retrieved or given."""
    answer = AnswerStep(
        "cot",
        "cot_passages",
        closed_template="cot",
        reasons=True,
        shot_templates=("cot_shots", "cot_shots_closed"),
        values=reasoned,
    )
    return single_round(
        parts,
        answer,
        lambda passages, _options: [list(passages)],
        lambda options: options.retrieve,
    )


METHOD = Method(
    name="cot",
    summary="Ask the model to think step by step, without retrieval unless retrieve=True.",
    paper="Wei et al. 2022, Chain-of-Thought",
    when=(
        "A baseline for questions that take several steps of reasoning, with a model that can "
        "reason."
    ),
    best="p",
    worst="2p",
    options=CotOptions,
    build=build,
    prompts={
        **answer_prompts("cot", "cot_passages"),
        **variants(SHOT_PROMPTS, "cot_shots", "cot_shots_closed"),
    },
)
