"""Self-Eval: the model says whether it needs retrieval, then answers with passages or without.

Source: Kadavath et al. 2022 (Language Models (Mostly) Know What They Know), as SlimPLM's baseline
(section 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragweave.graphs.fragments import PROMPTS as ANSWERS
from ragweave.graphs.fragments import with_retrieval_decision
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.profile import Paper
from ragweave.nodes.retrieval_decision import PROMPTS, DecisionOptions, retrieval_decision_step


@dataclass(frozen=True, kw_only=True)
class SelfEvalOptions(DecisionOptions):
    """Options of `self_eval`."""

    decided_by: Literal["answer", "judge"] = "answer"
    """Whether the large model itself decides (the paper's way), or the judge's role."""

    @property
    def own_paper(self) -> Paper:
        """SlimPLM."""
        return "slimplm"


def build(parts: Parts[SelfEvalOptions]) -> CompiledGraph:
    """Build `self_eval`: one call to decide, and one to answer, both by the large model.

    What it said to know, and then answered Unknown, is answered again over what is found.
    """
    decide = retrieval_decision_step(
        parts.models, parts.prompts, parts.options, lambda options: options.decided_by
    )
    return with_retrieval_decision(parts, "self_eval", "need", decide)


METHOD = Method(
    name="self_eval",
    summary="The model itself says first whether it needs to retrieve.",
    paper="Kadavath et al. 2022, Self-Eval",
    when="Where some questions need no retrieval and the model can tell which.",
    best="1 + p",
    worst="1 + 4p",
    options=SelfEvalOptions,
    build=build,
    roles=lambda options: (options.decided_by,),
    prompts={**PROMPTS, **answer_prompts(*ANSWERS)},
)
