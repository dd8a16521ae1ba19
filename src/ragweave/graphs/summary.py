"""Summary prompt: one-shot chain of thought that first extracts what helps. One call.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.2 and figure 9.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragweave.graphs.fragments import single_round, together
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import FUSION, Method, answer_prompts
from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.options import FusionOptions


@dataclass(frozen=True, kw_only=True)
class SummaryOptions(FusionOptions):
    """Options of `summary`."""


def build(parts: Parts[SummaryOptions]) -> CompiledGraph:
    """Build `summary`: sum up what helps, then answer from it."""
    return single_round(parts, AnswerStep("summary", "summary", reasons=True), together)


METHOD = Method(
    name="summary",
    summary="One prompt that first sums up what helps.",
    paper=FUSION,
    when=("One call, with a model that follows a worked example: it first sums up what helps."),
    best="p",
    worst="2p",
    options=SummaryOptions,
    build=build,
    prompts=answer_prompts("summary"),
)
