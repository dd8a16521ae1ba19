"""Texts as PostgreSQL takes them: without zero characters, and words that fit into an index."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

_ZERO = "\U0010fffe"
"""Stands for a zero character, which no text of PostgreSQL can hold; Unicode never assigns it."""
_LONGEST = 2_000
"""Most bytes of a word in the index, an entry of which takes 2,700."""


def clean(text: str) -> str:
    """Return a text as PostgreSQL takes it: without zero characters."""
    return text.replace("\x00", _ZERO)


def restored(text: str) -> str:
    """Return a text as it was before `clean`."""
    return text.replace(_ZERO, "\x00")


def with_texts(change: Callable[[str], str], value: Any) -> Any:
    """Return values of JSON, or a row, with each text in them changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): with_texts(change, one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(change, one) for one in value]
    return value


def word_of(term: str) -> str:
    """Return a term as the index holds it: a long one is its beginning and a hash of it all."""
    term = clean(term)
    encoded = term.encode()
    if len(encoded) <= _LONGEST:
        return term
    name = hashlib.blake2b(encoded, digest_size=16).hexdigest()
    return f"{encoded[: _LONGEST - len(name)].decode(errors='ignore')}{name}"
