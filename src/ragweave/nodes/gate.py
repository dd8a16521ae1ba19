"""The uncertainty gate: a short draft without passages, and how uncertain the model was of it.

Source: TARG (arXiv 2511.09803, version 1), algorithm 1: decode k = 20 tokens on the bare prompt, greedily; retrieve
if a score of their logits exceeds a threshold (eq. 4). For the gates over samples: N = 3 drafts at temperature 0.7
(sections 3.4 and 4).

Where we differ: a draft that says Unknown is uncertain, whatever its probabilities, since our prompts ask for
that word; the gates over samples compare words, not tokens.
"""

from collections.abc import Callable
from typing import Annotated, Any

from langgraph.runtime import Runtime
from langgraph.types import Send
from pydantic import Field
from typing_extensions import TypedDict

from ragweave.nodes.answer import Branch, unknown_clause
from ragweave.nodes.ask import model_node
from ragweave.nodes.forms import Form
from ragweave.nodes.options import Options
from ragweave.nodes.papers import INSTRUCTIONS, style_of
from ragweave.nodes.prompts import Asking, Prompt
from ragweave.nodes.read import is_unknown
from ragweave.nodes.runner import Components, Node, StateNode
from ragweave.roles import RoleName
from ragweave.state import RAGState, merge, note
from ragweave.tools.models.decisions import SAMPLED, THRESHOLDS, Gate, disagreement, gate_settings, uncertainty


class GateOptions(Options):
    """Options of a gate."""

    gate: Gate = Field(
        "margin",
        description="The measure: `margin` (TARG's default, section 5), `entropy`, `mean` or `least` of one draft's "
        "log-probabilities; for a model without them, `variance` (TARG) or `dissimilarity` of several drafts. A "
        "thinking model's thoughts count: turn its thinking off.",
    )
    gate_tokens: int = Field(20, ge=1, description="Maximum tokens of a draft (TARG, section 4).")
    gate_samples: int = Field(3, ge=2, description="Drafts that `variance` and `dissimilarity` compare (TARG, 3.4).")

    @property
    def gate_drafts(self) -> int:
        """How many drafts are measured."""
        return self.gate_samples if self.gate in SAMPLED else 1


class GateDraft(TypedDict):
    """A draft, and how uncertain the model was of it, if that is measured on one."""

    text: str
    uncertainty: float | None


class GateState(RAGState, total=False):
    """The state of a method with a gate."""

    gate_drafts: Annotated[dict[str, GateDraft], merge]
    known: bool


def gate_branches(state: RAGState, options: GateOptions) -> list[Send]:
    """Return a branch for each draft."""
    shared = Branch(question=state["question"], answer_type=state["answer_type"])
    return [Send("gate", Branch(**shared, sample=sample)) for sample in range(options.gate_drafts)]


def gate_node(components: Components, role: RoleName | Callable[[Any], RoleName]) -> Node:
    """Return a node that asks for one draft of a model in this role."""

    @model_node(role)
    def gate(branch: Branch, options: GateOptions) -> Asking[Form, GateState]:
        values = {
            **style_of(options.paper).variables(branch["question"]),
            "instruction": INSTRUCTIONS[branch["answer_type"]],
            "unknown": unknown_clause(options),
        }
        settings = {**gate_settings(options.gate), "temperature": 0.7 if options.gate in SAMPLED else 0.0}
        reply = yield Prompt("direct", values, max_tokens=options.gate_tokens, settings=settings)
        message = None if options.gate in SAMPLED else reply.message
        measured = None if message is None else uncertainty(message, options.gate)
        return {"gate_drafts": {str(branch["sample"]): {"text": reply.text, "uncertainty": measured}}}

    return gate(components)


def decide_node(threshold: str) -> StateNode:
    """Return the node that decides whether the drafts are certain enough; one that says nothing, or Unknown, is not.

    `threshold` is the name of the option for the uncertainty above which to retrieve; None there: the gate's own.
    """

    def decide(state: GateState, runtime: Runtime[GateOptions]) -> GateState:
        gate, own = runtime.context.gate, getattr(runtime.context, threshold)
        drafts, limit = list(state["gate_drafts"].values()), THRESHOLDS[gate] if own is None else own
        texts = [draft["text"] for draft in drafts]
        measured = disagreement(texts, gate) if gate in SAMPLED else drafts[0]["uncertainty"]
        declined = 2 * sum(map(is_unknown, texts)) > len(texts)
        known = measured is not None and measured <= limit and not declined
        return {"known": known, "notes": [note("gated", gate=gate, uncertainty=measured, threshold=limit)]}

    return decide
