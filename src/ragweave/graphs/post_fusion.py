"""Post-Fusion: each passage is asked alone, a majority vote decides. k calls, side by side.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.1, equation 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragweave.graphs.fragments import one_by_one, single_round
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import FUSION, Method, answer_prompts
from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.options import FusionOptions


@dataclass(frozen=True, kw_only=True)
class PostFusionOptions(FusionOptions):
    """Options of `post_fusion`."""


def build(parts: Parts[PostFusionOptions]) -> CompiledGraph:
    """Build `post_fusion`: `a_i = LLM(q, p_i)`, then the answer that most passages give."""
    answer = AnswerStep("post_fusion", "post_fusion", one_passage=True)
    return single_round(parts, answer, one_by_one)


METHOD = Method(
    name="post_fusion",
    summary="Each passage alone, then a majority vote.",
    paper=FUSION,
    when=(
        "Where passages are long or distract from one another, and k calls a question are "
        "acceptable. A wrong majority can vote a right answer down."
    ),
    best="k·p",
    worst="2k·p",
    options=PostFusionOptions,
    build=build,
    prompts=answer_prompts("post_fusion"),
)
