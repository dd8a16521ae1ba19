"""What the training of a linear judge may be told."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ragweave.errors import UsageError
from ragweave.training.settings import Settings

_USED = frozenset({"base", "held_out", "seed", "device"})


@dataclass(frozen=True, kw_only=True)
class LinearSettings(Settings):
    """Settings of a linear judge. It is solved rather than stepped: epochs and rates are refused."""

    base: str = "minilm"
    """The embedding model: `minilm` (packaged), a local path, or a hub name in the hub's cache."""
    surface_strength: float = 0.005
    """Inverse of the L2 penalty on the weights of features and cosines; smaller is stiffer."""
    meaning_strength: float = 0.0003
    """Inverse of the L2 penalty on the weights of the vectors."""
    folds: int = 8
    """Parts that the questions are dealt into to calibrate on rows that were not fitted on."""
    repeats: int = 4
    """Times that they are dealt anew."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is of the wrong type or out of its range, or has no effect here.
        """
        super().__post_init__()
        for one in dataclasses.fields(Settings):
            changed = one.name not in _USED and getattr(self, one.name) != one.default
            if changed:
                raise UsageError(f"a linear judge is trained without {one.name}: leave it out")
        for name in ("surface_strength", "meaning_strength"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.folds < 2 or self.repeats < 1:
            raise UsageError("folds must be at least 2, and repeats at least 1")
