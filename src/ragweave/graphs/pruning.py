"""Pruning prompt: one-shot chain of thought that first rules passages out. One call.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback Improves Retrieval
Augmented Generation with LLMs), section 3.2.2 and figure 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragweave.graphs.fragments import single_round, together
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import FUSION, Method, answer_prompts
from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.options import FusionOptions


@dataclass(frozen=True, kw_only=True)
class PruningOptions(FusionOptions):
    """Options of `pruning`."""


def build(parts: Parts[PruningOptions]) -> CompiledGraph:
    """Build `pruning`: say which passages cannot answer, then answer from the rest."""
    return single_round(parts, AnswerStep("pruning", "pruning", reasons=True), together)


METHOD = Method(
    name="pruning",
    summary="One prompt that first rules out the passages that cannot answer.",
    paper=FUSION,
    when=("One call, with a model that follows a worked example: it first rules passages out."),
    best="p",
    worst="2p",
    options=PruningOptions,
    build=build,
    prompts=answer_prompts("pruning"),
)
