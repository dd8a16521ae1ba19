"""Direct prompting: `M(q)`, or `M(q, R(q, k))` with `retrieve=True`. One call."""

from __future__ import annotations

from dataclasses import dataclass

from ragweave.graphs.fragments import single_round
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.blending import SHOT_PROMPTS
from ragweave.nodes.shots import ShotOptions, unreasoned
from ragweave.nodes.wording import variants


@dataclass(frozen=True, kw_only=True)
class DirectOptions(ShotOptions):
    """Options of `direct`."""

    retrieve: bool = False
    """Whether to retrieve passages and answer from them."""


def build(parts: Parts[DirectOptions]) -> CompiledGraph:
    """Build `direct`: ask once, without passages unless they are retrieved or given."""
    answer = AnswerStep(
        "direct",
        "direct_passages",
        closed_template="direct",
        shot_templates=("direct_shots", "direct_shots_closed"),
        values=unreasoned,
    )
    return single_round(
        parts,
        answer,
        lambda passages, _options: [list(passages)],
        lambda options: options.retrieve,
    )


METHOD = Method(
    name="direct",
    summary="Ask the model, without retrieval unless retrieve=True.",
    paper="baseline of all four papers",
    when=(
        "To know what the model knows by itself: the baseline of any comparison. With "
        "`retrieve=True` it is the plainest RAG there is."
    ),
    best="p",
    worst="2p",
    options=DirectOptions,
    build=build,
    prompts={
        **answer_prompts("direct", "direct_passages"),
        **variants(SHOT_PROMPTS, "direct_shots", "direct_shots_closed"),
    },
)
