"""Loading the weights of trained components, once for all graphs of the process."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.weights import need
from ragweave.tools.trained.card import CARD, Card, read_card


def load(folder: str | Path) -> Any:
    """Load a component: a `LinearScorer`, `CrossEncoderScorer`, `SpanScorer` or `Writer`, by the kind on its card.

    Raises:
        MissingExtraError: The packages of that kind are not installed.
        ModelError: The weights are damaged, or not there.
    """
    path = Path(folder).expanduser().resolve()
    return _loaded(path, (path / CARD).stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _loaded(path: Path, _changed: int) -> Any:
    card = read_card(path)
    neural = () if card.kind == "linear" else ("torch", "transformers")
    need(f"A trained {card.kind}", "hf" if neural else "offline", "safetensors", *neural)
    from safetensors import SafetensorError

    try:
        return _made(path, card)
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(f"{path}: can't be read ({reason})") from error


def _made(path: Path, card: Card) -> Any:
    if card.kind == "linear":
        from ragweave.tools.trained.linear import LinearScorer

        return LinearScorer(path, card)
    if card.kind == "span-encoder":
        from ragweave.tools.trained.span_encoder import load_span_scorer

        return load_span_scorer(path, card)
    if card.kind == "cross-encoder":
        from ragweave.tools.trained.cross_encoder import load_cross_encoder

        return load_cross_encoder(path, card)
    from ragweave.tools.trained.writer import load_writer

    return load_writer(path, card)
