"""Loading a trained part's weights by its kind: the only place that knows which loader to use."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ragweave.trained.card import CARD, ModelCard, Scoring, card_of, check_safe

if TYPE_CHECKING:
    from ragweave.trained.span_scorer import SpanScorer
    from ragweave.trained.writers import TextWriter


_shared: WeakValueDictionary[tuple[str, int], Scoring | SpanScorer | TextWriter] = (
    WeakValueDictionary()
)
"""Loaded parts by folder and by the card's time of modification: graphs share their parts."""
_lock = threading.Lock()


def engine_of(folder: str | Path) -> Scoring | SpanScorer | TextWriter:
    """Load a part's weights, or return them where they are already in memory.

    No code in the folder is run: weights are safetensors (or ONNX), and a folder that contains
    code, pickles or a configuration that names code is rejected.

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
        from ragweave.trained.judge import load_linear_scorer

        return load_linear_scorer(path)
    if card.kind == "cross-encoder":
        from ragweave.trained.pairs import load_pair_scorer

        return load_pair_scorer(path)
    if card.kind == "span-encoder":
        from ragweave.trained.span_scorer import load_span_scorer

        return load_span_scorer(path)
    from ragweave.trained.writers import load_writer

    return load_writer(path)
