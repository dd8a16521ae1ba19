"""Numbers for what was found: counts as log(1 + n), flags as 0 or 1, shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sized


def log_count(things: Sized) -> float:
    """Return log(1 + the number of things)."""
    return math.log1p(len(things))


def flag(found: object) -> float:
    """Return 1.0 where something was found, else 0.0."""
    return 1.0 if found else 0.0


def share(part: Iterable[object], whole: Sized) -> float:
    """Return how large a part of `whole` is; 0.0 of nothing."""
    return sum(1 for _ in part) / max(len(whole), 1)
