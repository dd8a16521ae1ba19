"""Trained parts behind the texts that name them: `judge/`, `part:judge?threshold=0.6`."""

from __future__ import annotations

import hashlib

from ragweave.errors import UsageError
from ragweave.tools.parts.card import CARD, ModelCard, read_card
from ragweave.tools.parts.safe import check_safe
from ragweave.tools.providers import PREFIX, existing, part_spec


def absolute_spec(text: str) -> str:
    """Return a part's spec that means the same in any working directory; other texts as they are.

    Raises:
        UsageError: The folder is no finished part.
    """
    spec = part_spec(text)
    if spec is None:
        return text
    settings = f"?{spec.query}" if spec.query else ""
    return f"{PREFIX}{existing(spec.folder).resolve()}{settings}"


def inspected(text: str) -> tuple[ModelCard, str]:
    """Return a part's card, and what tells one training of it from another: the card's hash.

    Raises:
        UsageError: The text names no finished part that this version can read, or an unsafe one.
    """
    spec = part_spec(text)
    if spec is None:
        raise UsageError(f"{text}: names no trained part")
    card = read_card(existing(spec.folder))
    check_safe(spec.folder)
    return card, hashlib.sha256((spec.folder / CARD).read_bytes()).hexdigest()[:16]
