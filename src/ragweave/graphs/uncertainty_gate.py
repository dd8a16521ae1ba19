"""The uncertainty gate: a short draft decides whether to retrieve, by how uncertain the model was.

Source: TARG (arXiv 2511.09803), algorithm 1; the simple gates of arXiv 2501.12835.

Where we differ: what was answered Unknown without retrieval is searched for after all
(`second_look`); the algorithm stops there. There is no profile for TARG, so `profile=paper` leaves
that on; `second_look=False` turns it off, as any named paper's profile does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragweave.graphs.fragments import PROMPTS as ANSWERS
from ragweave.graphs.fragments import with_retrieval_decision
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import Method, answer_prompts
from ragweave.nodes.retrieval_decision import DecisionOptions
from ragweave.nodes.step import Context, Step, Work
from ragweave.nodes.uncertainty_gate import GateOptions, gated
from ragweave.state import RAGState
from ragweave.tools.models import Role


@dataclass(frozen=True, kw_only=True)
class UncertaintyGateOptions(GateOptions, DecisionOptions):
    """Options of `uncertainty_gate`."""

    threshold: float | None = None
    """Uncertainty above which to retrieve (TARG's τ, eq. 4); None: one within TARG's tables
    for `margin`, `entropy` and `variance`, a round number of ours for the others. Choose it on
    questions whose answers you know: `ragweave study gate`."""
    gated_by: Literal["answer", "proxy"] = "answer"
    """Whose draft is measured: the answering model's (the paper's way), or the proxy's."""

    @property
    def gate_role(self) -> Role:
        """Whose draft is measured."""
        return self.gated_by

    @property
    def most_uncertain(self) -> float:
        """The uncertainty above which to retrieve."""
        return super().most_uncertain if self.threshold is None else self.threshold


def build(parts: Parts[UncertaintyGateOptions]) -> CompiledGraph:
    """Build `uncertainty_gate`: a draft of twenty tokens, or several, and the answer."""

    def body(state: RAGState, context: Context[UncertaintyGateOptions]) -> Work:
        return gated("gate", parts.models, parts.prompts, state, context)

    gate = Step("gate", body, parts.options)
    return with_retrieval_decision(parts, "uncertainty_gate", "gate", gate)


METHOD = Method(
    name="uncertainty_gate",
    summary="Retrieves where the model is uncertain of a short draft.",
    paper="Wang et al. 2025, TARG",
    when=(
        "Where many questions need no retrieval and the model reports log-probabilities; with "
        "`gate=variance` for any model. Set `threshold` on questions whose answers you know."
    ),
    best="1 + p",
    worst="gate_samples + 4p",
    options=UncertaintyGateOptions,
    build=build,
    roles=lambda options: (options.gate_role,),
    prompts=answer_prompts(*ANSWERS),
)
