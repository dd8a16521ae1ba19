"""The uncertainty gate: a short draft without passages, and how uncertain the model was of it.

Source: TARG (arXiv 2511.09803, version 1), algorithm 1: decode k tokens on the bare prompt (k = 20,
section 4), greedily; retrieve where a score of their logits exceeds a threshold (eq. 4). For the
gates over samples N = 3 drafts at temperature 0.7 (sections 3.4 and 4). The simple gates of arXiv
2501.12835 stand beside its own (`ragweave.tools.models.uncertainty`).

Where we differ: a draft that says Unknown is uncertain, whatever its probabilities, since our
prompts ask for that word; the gates over samples compare words, not tokens, and leave thoughts out;
and the optional check again while a long answer is written (section 3.2) is left to FLARE.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from ragweave.errors import UsageError
from ragweave.nodes.ask import Prompt, Question, Reply, Templates, reply_to
from ragweave.nodes.options import Options, at_least
from ragweave.nodes.replies import bare_text
from ragweave.nodes.step import Call, Context, Work
from ragweave.nodes.wording import ANSWER_FORMS, worded
from ragweave.state import Branch, RAGState
from ragweave.tools.models import Models, Role
from ragweave.tools.models.forms import gives_logprobs
from ragweave.tools.models.uncertainty import (
    SAMPLED,
    THRESHOLDS,
    Gate,
    disagreement,
    gate_settings,
    uncertainty,
)
from ragweave.tools.text.unknown import is_unknown

DRAFT_TEMPERATURE = 0.7
"""Temperature of several drafts (TARG, section 4)."""


@dataclass(frozen=True, kw_only=True)
class GateOptions(Options):
    """Options of a gate."""

    gate: Gate = "margin"
    """What is measured: of one draft's log-probabilities `margin` (TARG's default, section 5),
    `entropy`, `mean` or `least`; of several drafts, for a model without log-probabilities,
    `variance` (TARG) or `dissimilarity`. The log-probabilities are those of all tokens that a
    server reports, a thinking model's thoughts among them: turn its thinking off."""
    gate_tokens: int = 20
    """Most tokens of a draft (TARG's k, section 4: 20 of 10, 20 and 30)."""
    gate_samples: int = 3
    """How many drafts `variance` and `dissimilarity` compare (TARG's N, section 3.4)."""

    @property
    def gate_role(self) -> Role | None:
        """Whose draft is measured; None: nothing is."""
        return None

    @property
    def gate_drafts(self) -> int:
        """How many drafts are measured; 1 where a judge decides instead."""
        return self.gate_samples if self.gate_role and self.gate in SAMPLED else 1

    @property
    def most_uncertain(self) -> float:
        """The uncertainty above which to retrieve."""
        return THRESHOLDS[self.gate]

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        super().__post_init__()
        at_least("gate_tokens", self.gate_tokens, 1)
        at_least("gate_samples", self.gate_samples, 2)


def check_gate(models: Models, options: object) -> None:
    """Check that the model reports log-probabilities where they decide.

    Raises:
        UsageError: It does not.
    """
    role = options.gate_role if isinstance(options, GateOptions) else None
    if role is None or not isinstance(options, GateOptions) or options.gate in SAMPLED:
        return
    model = models.by_role(role)
    if not gives_logprobs(model):
        kind = getattr(model, "_llm_type", type(model).__name__)
        raise UsageError(
            f"gate={options.gate} needs the probability of each token, and the model {kind!r} "
            "reports none: take openai:NAME (any OpenAI-compatible server), llamacpp:PATH or "
            "hf:FOLDER, or gate=variance, which compares several drafts"
        )


def gated(
    node: str, models: Models, templates: Templates, state: RAGState, context: Context[Any]
) -> Work:
    """Set `known` by the uncertainty of a draft: the body of a node.

    A draft without a word, or one that says Unknown, is not known. Noted `gated` with what was
    measured.

    Args:
        node: Name of the node.
        models: The models by role.
        templates: The prompt templates; `direct` asks.
        state: The state.
        context: What the node has beside it; its options are `GateOptions`.
    """
    opts: GateOptions = context.options
    drafts: list[Reply] = []
    for number in range(opts.gate_drafts):
        draft = yield from _draft(node, number, models, templates, state, context)
        drafts.append(draft)
    refused = sum(is_unknown(bare_text(one.text)) for one in drafts) * 2 > len(drafts)
    found = _measured(drafts, opts.gate)
    detail = {"gate": opts.gate, "uncertainty": found, "threshold": opts.most_uncertain}
    context.note("gated", **detail, **({"said_unknown": True} if refused else {}))
    return {"known": found is not None and found <= opts.most_uncertain and not refused}


def _draft(
    node: str,
    number: int,
    models: Models,
    templates: Templates,
    state: RAGState,
    context: Context[Any],
) -> Generator[Call, Any, Reply]:
    """Ask for one draft."""
    kind, asked = state["resolved_answer_type"], state["question"]
    branch: Branch = {
        "question": asked,
        "answer_type": kind,
        "passages": [],
        "sample": number,
        "hints": [],
    }

    def prompt(_branch: Branch, options: GateOptions) -> Prompt:
        warm = DRAFT_TEMPERATURE if options.gate in SAMPLED else 0.0
        return Prompt(
            worded(templates, "direct", options),
            {"task": "answer", "question": asked, "answer_type": kind},
            {"question": asked, "answer_form": ANSWER_FORMS[kind]},
            settings={**gate_settings(options.gate), "temperature": warm},
            reply_tokens=options.gate_tokens,
        )

    role: Role = context.options.gate_role or "answer"
    question = Question[Branch, Any](name=node, role=role, prompt=prompt)
    return (yield from reply_to(question, models, branch, context))


def _measured(drafts: list[Reply], gate: Gate) -> float | None:
    if gate in SAMPLED:
        return disagreement([bare_text(one.text) for one in drafts], gate)
    message = drafts[0].message
    return None if message is None else uncertainty(message, gate)
