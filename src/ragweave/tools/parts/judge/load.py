"""Loading a linear judge from its folder."""

from __future__ import annotations

from pathlib import Path

from ragweave.errors import UsageError
from ragweave.tools.parts.card import read_card
from ragweave.tools.parts.judge.encoder import load_encoder
from ragweave.tools.parts.judge.scorer import LinearScorer
from ragweave.tools.parts.judge.weights import read_weights
from ragweave.tools.parts.kinds import JUDGES
from ragweave.tools.parts.safe import check_safe


def load_linear_scorer(folder: str | Path, device: str = "auto") -> LinearScorer:
    """Load a linear judge and the embedding model that it was trained with.

    Nothing in either folder is run, and nothing is downloaded.

    Args:
        folder: The part's folder.
        device: Where the embedding model runs: `auto`, `cpu`, `cuda`, `cuda:1`.

    Raises:
        UsageError: The folder is no finished judge of this kind, or something in it could run.
        MissingExtraError: sentence-transformers, or the packaged MiniLM, is not installed.
        ModelError: Weights or embedding model can't be read, or do not fit each other.
    """
    path = Path(folder)
    card = read_card(path, "judge")
    if card.kind not in JUDGES:
        wanted = " or ".join(JUDGES)
        raise UsageError(f"{path}: is a {card.kind}, and a {wanted} judge is wanted here")
    check_safe(path)
    encoder = load_encoder(card.base, path, device)
    return LinearScorer(encoder, read_weights(path, encoder.dimension))
