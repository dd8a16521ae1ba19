"""How uncertain a model was of its own words, from the log-probabilities that it reports.

Sources: arXiv 2501.12835, section 3 (mean and maximum token entropy, perplexity); TARG (arXiv
2511.09803), section 3: entropy and the gap between the two likeliest tokens over a short prefix.
Every measure rises with uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from ragweave.errors import ModelError

Gate = Literal["mean", "least", "entropy", "margin"]
"""What is measured.

* `mean`: the mean surprise of the tokens, in nats (the log of perplexity).
* `least`: the surprise of the least likely token, in nats.
* `entropy`: the mean entropy over the reported candidates of each place, in nats.
* `margin`: the mean of the second candidate's probability over the first's, 0 to 1.
"""

THRESHOLDS: Mapping[Gate, float] = MappingProxyType(
    {"mean": 0.5, "least": 1.6, "entropy": 0.8, "margin": 0.35}
)
"""Where nothing was chosen on labelled questions: round numbers, no model's."""

CANDIDATES = 5
"""Candidates a place that `entropy` and `margin` ask for: as many as OpenAI's form gives."""


def gate_settings(gate: Gate) -> dict[str, Any]:
    """Return the settings of a call whose uncertainty is to be measured."""
    more = {"top_logprobs": CANDIDATES} if gate in ("entropy", "margin") else {}
    return {"logprobs": True, **more}


def uncertainty(message: BaseMessage, gate: Gate) -> float | None:
    """Return how uncertain a reply is; None where it has no token.

    Args:
        message: A reply that was asked for with `gate_settings`.
        gate: What is measured.

    Raises:
        ModelError: The reply reports no log-probabilities, or no candidates where they are needed.
    """
    logprobs = message.response_metadata.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, Sequence):
        if not message.text.strip():
            return None
        raise ModelError(
            "the uncertainty gate needs the probability of each token, and the reply has none: "
            "the server ignores logprobs=True; use one that reports log-probabilities"
        )
    if not content:
        return None
    surprises = [-_log(entry["logprob"]) for entry in content]
    if gate == "mean":
        return sum(surprises) / len(surprises)
    if gate == "least":
        return max(surprises)
    places = [_candidates(entry, gate) for entry in content]
    measured = [_entropy(one) if gate == "entropy" else _margin(one) for one in places]
    return sum(measured) / len(measured)


def _log(value: Any) -> float:
    number = float(value)
    return -100.0 if math.isnan(number) else min(max(number, -100.0), 0.0)


def _candidates(entry: Mapping[str, Any], gate: Gate) -> list[float]:
    """Return the log-probabilities of a place's candidates, the likeliest first."""
    found = [_log(one["logprob"]) for one in entry.get("top_logprobs") or ()]
    if not found:
        raise ModelError(
            f"gate={gate} needs the candidates of each place, and the reply has none: the server "
            "ignores top_logprobs; use gate=mean or gate=least"
        )
    return sorted(found, reverse=True)


def _entropy(candidates: Sequence[float]) -> float:
    """Return the entropy of the candidates as if there were no others."""
    weights = [math.exp(one) for one in candidates]
    total = sum(weights) or 1.0
    return -sum(one / total * math.log(one / total) for one in weights if one > 0)


def _margin(candidates: Sequence[float]) -> float:
    return math.exp(candidates[1] - candidates[0]) if len(candidates) > 1 else 0.0
