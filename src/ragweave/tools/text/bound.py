"""How much of a model's reply is read at all.

A reply may be of any length: a model runs away, or a passage makes it. What is read is bounded here,
once, and the patterns behind it take time in proportion to what they read.
"""

from __future__ import annotations

MAX_REPLY = 20_000
"""Characters of a reply that are read; of a longer one half at its start and half at its end."""


def bounded(text: str) -> str:
    """Return `text`, or the two ends of one that is longer than `MAX_REPLY`."""
    if len(text) <= MAX_REPLY:
        return text
    half = MAX_REPLY // 2
    return f"{text[: half - 1]}\n{text[-half:]}"
