"""What a loader gives: texts with titles, or the reason why there is none."""

from __future__ import annotations

import gzip
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from ragweave.errors import RagweaveError

_SAMPLE = 65_536
_MOST_ODD = {"utf-16": 0.05, "utf-8-sig": 0.3}
"""Share of characters without a shape. In random UTF-16 it is about 0.12; a coloured log in UTF-8
has some."""


class UnreadableError(RagweaveError):
    """A file that holds no text we can read; the text is the reason."""


@dataclass(frozen=True)
class Loaded:
    """A text of a file: the whole file, or one row of it."""

    text: str
    title: str
    id: str | None = None
    """The id that the source gives, if it gives one."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """JSON values to keep with every passage."""
    pages: tuple[int, ...] = ()
    """Character offsets at which pages 1, 2, … begin, for a text that has pages."""

    def page_at(self, offset: int) -> int | None:
        """Return the page, from 1, that holds the character at `offset`."""
        return bisect_right(self.pages, offset) if self.pages else None


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, unpacked where its name ends in `.gz`."""
    return cast("BinaryIO", gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb"))


def decode(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 that says so by its byte order mark.

    Raises:
        UnreadableError: The bytes are no text, or in another encoding.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in data:
        raise UnreadableError("binary, not text")
    else:
        encoding = "utf-8-sig"
    try:
        return plausible(data.decode(encoding), encoding)
    except UnicodeDecodeError as error:
        name = "UTF-16" if encoding == "utf-16" else "UTF-8"
        raise UnreadableError(f"not {name} text (byte {error.start})") from error


def plausible(text: str, encoding: str) -> str:
    """Return `text` where it may be one: no NUL, and few characters that cannot be printed.

    Most pairs of bytes are a letter of UTF-16, so a decoder alone does not tell binary data.

    Raises:
        UnreadableError: It is binary.
    """
    sample = text[:_SAMPLE]
    odd = sum(not (one.isprintable() or one.isspace()) for one in sample)
    if "\0" in text or odd > _MOST_ODD[encoding] * len(sample):
        raise UnreadableError("binary, not text")
    return text
