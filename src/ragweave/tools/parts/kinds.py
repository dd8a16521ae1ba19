"""The kinds of trained parts, and which of them serve which role."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ragweave.errors import UsageError
from ragweave.tools.parts.card import ModelCard, read_card
from ragweave.tools.providers import existing

SCORES = ("cross-encoder", "linear")
"""Kinds that give a probability for a pair of texts."""
JUDGES = ("linear",)
"""Those of them that read a question and its draft, and nothing else."""
READS = ("span-encoder",)
"""Kinds that read whole passages and score their sentences: filters alone."""
WRITES = ("seq2seq", "causal-lora")
"""Kinds that write text."""


class Scoring(Protocol):
    """What a part of a kind in `SCORES` is, once loaded; safe under threads."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return a probability for each pair, in [0, 1], in order."""
        ...

    def count(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the tokens that are read of each pair."""
        ...


def card_of(folder: str | Path) -> ModelCard:
    """Return a part's card; nothing else of the folder is read.

    Raises:
        UsageError: There is no such folder, it is no finished part, its card is damaged or of
            another format version, or its kind is unknown or not one for its role.
    """
    path = existing(Path(folder).expanduser())
    card = read_card(path)
    if card.kind not in (*SCORES, *READS, *WRITES):
        known = ", ".join((*SCORES, *READS, *WRITES))
        raise UsageError(f"{path}: is of kind {card.kind!r}, and this ragweave knows {known}")
    if card.kind in JUDGES and card.role != "judge":
        raise UsageError(f"{path}: is damaged (a {card.kind} part is a judge, not a {card.role})")
    if card.kind in READS and card.role != "filter":
        raise UsageError(f"{path}: is damaged (a {card.kind} part is a filter, not a {card.role})")
    return card
