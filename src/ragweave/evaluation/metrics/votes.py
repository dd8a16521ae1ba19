"""%Unk and %NM: answers not given, and right answers that a vote passed over.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Right = Callable[[str], float]
"""Whether an answer is right: 1.0 or 0.0."""


def unknown(status: str) -> float:
    """Return 1.0 where the method gave no answer (`status` is `unknown`), else 0.0."""
    return float(status == "unknown")


def not_majority(answer: str, pool: Iterable[str], right: Right) -> float:
    """Return 1.0 where a right answer is in the pool and the final answer is not right."""
    return float(not right(answer) and any(right(one) for one in pool))
