"""How a session goes on with a labelling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragweave.errors import UsageError

OnProgress = Callable[[int, int, int], None]
"""Called with questions done, questions in all, and failures so far."""


@dataclass(frozen=True, kw_only=True)
class LabelConfig:
    """How a session goes on with a labelling; none of it bears on the rows."""

    concurrency: int = 16
    """Questions in flight at once."""
    retry_failed: bool = False
    """Whether questions whose model calls failed are tried again."""
    drop_failed: bool = False
    """Whether the file is finished without them."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        if self.concurrency < 1:
            raise UsageError(f"--concurrency must be at least 1, not {self.concurrency}")
