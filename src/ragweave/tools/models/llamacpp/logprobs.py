"""Log-probabilities out of a row of logits, without sorting the vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
"""Logits or log-probabilities of one position, shape (vocabulary,)."""


def log_normaliser(logits: Row) -> float:
    """Return log(sum(exp(logits))), in natural logarithm."""
    top = float(logits.max())
    return top + float(np.log(np.exp(logits - np.float32(top)).sum(dtype=np.float64)))


def logprob_of(logits: Row, token: int) -> float:
    """Return a token's log-probability, at most 0."""
    return min(0.0, float(logits[token]) - log_normaliser(logits))


def best(logits: Row, count: int) -> NDArray[np.int64]:
    """Return the `count` tokens of highest logit, best first; ties go to the lower token."""
    if count >= logits.size:
        chosen: NDArray[Any] = np.arange(logits.size)
    else:
        chosen = np.argpartition(logits, logits.size - count)[logits.size - count :]
        chosen.sort()
    return chosen[np.argsort(-logits[chosen], kind="stable")]
