"""Texts that name a trained part: `judge/`, `part:judge?threshold=0.6`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from ragweave.errors import UsageError
from ragweave.tools.parts.card import CARD, ModelCard, read_card
from ragweave.tools.parts.safe import check_safe
from ragweave.tools.providers import MODELS

PREFIX = "part:"


class PartSpec(NamedTuple):
    """A part's folder, and the settings that follow it."""

    folder: Path
    """As it was given, `~` filled in."""
    query: str
    """What follows `?`, such as `threshold=0.6`."""


def part_spec(text: str) -> PartSpec | None:
    """Read a text that names a part's folder, or return None where it names none.

    `part:FOLDER` does, and so does a text that looks like a path (`judge/`, `./judge`, `~/judge`)
    or is the name of a folder that is there. `kind:NAME` of a model names none, with a `/` in
    NAME or without.
    """
    marked = text.strip().startswith(PREFIX)
    head, _, query = text.strip().removeprefix(PREFIX).partition("?")
    if not marked and not _is_path(head):
        return None
    return PartSpec(Path(head).expanduser(), query)


def is_part_spec(text: object) -> bool:
    """Tell whether `text` names a part's folder, finished or not."""
    return isinstance(text, str) and part_spec(text) is not None


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


def existing(folder: Path) -> Path:
    """Return `folder`.

    Raises:
        UsageError: There is none.
    """
    if folder.is_file():
        raise UsageError(
            f"{folder}: is a file, and a trained part is a folder (a GGUF file is llamacpp:{folder})"
        )
    if not folder.is_dir():
        raise UsageError(
            f"{folder}: there is no such folder (a trained part is a folder, another model KIND:NAME)"
        )
    return folder


def _is_model(head: str) -> bool:
    """Tell whether a name is a model provider's, even where a folder is called so."""
    return head in MODELS and f"{head}:" != PREFIX


def _is_path(head: str) -> bool:
    first = head.replace("\\", "/").partition("/")[0]
    if not head or ":" in first or _is_model(head):
        return False
    return first != head or head.startswith(("~", ".")) or Path(head).is_dir()
