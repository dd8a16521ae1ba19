"""The uncertainty gate: a short draft decides whether to retrieve, by how uncertain the model was of it.

Source: TARG (arXiv 2511.09803, version 1), algorithm 1; the simple gates of arXiv 2501.12835. See `nodes/gate.py`.

Where we differ: an Unknown without passages is followed by retrieval (`fallback_retrieval`); the check
again while a long answer is written (section 3.2) is left to `flare`. Neither paper has a profile.
"""

from typing import Literal

from pydantic import Field

from ragweave.graphs.base import Graph, method
from ragweave.graphs.self_eval import DecisionOptions, add_decision
from ragweave.nodes.gate import GateOptions, GateState, decide_node, gate_branches, gate_node
from ragweave.nodes.runner import Components


class UncertaintyGateOptions(GateOptions, DecisionOptions):
    own_paper = ""

    threshold: float | None = Field(
        None,
        description="Uncertainty above which to retrieve (TARG's τ, eq. 4); none: a value within TARG's tables, or a "
        "round number. Choose it on questions whose answers you know.",
    )
    gated_by: Literal["generator", "proxy"] = Field(
        "generator", description="Whose draft is measured: the generator's (the paper's way), or the proxy's."
    )


@method(
    "uncertainty_gate",
    paper="Wang et al. 2025, TARG",
    when="Where many questions need no retrieval and the model reports log-probabilities; with `gate=variance` for any "
    "model. Set `threshold` on questions whose answers you know.",
    group="when to retrieve",
    calls=lambda o: (o.gate_drafts + o.samples, o.gate_drafts + (1 + o.fallback_retrieval) * o.samples),
    options=UncertaintyGateOptions,
    state=GateState,
)
def uncertainty_gate(graph: Graph, components: Components) -> None:
    """Retrieve where the model is uncertain of a short draft."""
    graph.add_node("gate", gate_node(components, lambda options: options.gated_by))
    graph.add_node("decide", decide_node("threshold"))
    graph.add_conditional_edges(
        "begin",
        lambda state, runtime: "passages given" if state["given"] else gate_branches(state, runtime.context),
        {"each draft": "gate", "passages given": "collect"},
    )
    graph.add_edge("gate", "decide")
    add_decision(graph, components, "decide")
