"""The kinds of trained parts: the one place that knows what loads which."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from ragweave.errors import UsageError
from ragweave.tools.parts.card import CARD, ModelCard, read_card
from ragweave.tools.parts.safe import check_safe
from ragweave.tools.parts.spec import existing

if TYPE_CHECKING:
    from ragweave.tools.parts.spans.scorer import SpanScorer
    from ragweave.tools.parts.writers import TextWriter

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


_shared: WeakValueDictionary[tuple[str, int], Scoring | SpanScorer | TextWriter] = (
    WeakValueDictionary()
)
"""What is in memory, by folder and by when its card was written: graphs share their parts."""
_lock = threading.Lock()


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


def engine_of(folder: str | Path) -> Scoring | SpanScorer | TextWriter:
    """Load a part's weights, or return them where they are in memory already.

    Nothing of the folder is run: weights are safetensors (or ONNX), and a folder that holds code,
    pickles or a configuration that names code is refused.

    Raises:
        UsageError: As `card_of`, or the folder is unsafe.
        MissingExtraError: What the kind needs is not installed.
        ModelError: The weights can't be read.
    """
    card = card_of(folder)
    path = Path(folder).expanduser().resolve()
    check_safe(path)
    key = (str(path), (path / CARD).stat().st_mtime_ns)
    with _lock:
        engine = _shared.get(key)
        if engine is None:
            engine = _shared[key] = _loaded(path, card)
        return engine


def _loaded(path: Path, card: ModelCard) -> Scoring | SpanScorer | TextWriter:
    if card.kind == "linear":
        from ragweave.tools.parts.judge.load import load_linear_scorer

        return load_linear_scorer(path)
    if card.kind == "cross-encoder":
        from ragweave.tools.parts.pairs import load_pair_scorer

        return load_pair_scorer(path)
    if card.kind == "span-encoder":
        from ragweave.tools.parts.spans.scorer import load_span_scorer

        return load_span_scorer(path)
    from ragweave.tools.parts.writers import load_writer

    return load_writer(path)
