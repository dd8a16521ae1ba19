"""Concat: the question and all passages in one prompt. One call.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.1, equation 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragweave.graphs.fragments import single_round, together
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import FUSION, Method, answer_prompts
from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.options import FusionOptions


@dataclass(frozen=True, kw_only=True)
class ConcatOptions(FusionOptions):
    """Options of `concat`."""


def build(parts: Parts[ConcatOptions]) -> CompiledGraph:
    """Build `concat`: `a = LLM(q, p1 … pk)`."""
    return single_round(parts, AnswerStep("concat", "concat"), together)


METHOD = Method(
    name="concat",
    summary="All passages in one prompt.",
    paper=FUSION,
    when=(
        "The everyday choice where calls are dear: one prompt, one call. It may say Unknown "
        "though the answer stands in a passage."
    ),
    best="p",
    worst="2p",
    options=ConcatOptions,
    build=build,
    prompts=answer_prompts("concat"),
)
