"""Texts as loaders give them, passages as they are stored, and the position of a quote in its source."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ragweave.state.passages import indexed_text

LONGEST_TITLE = 400
"""Characters of a title or heading; a longer one is cut."""
LONGEST_FIELD = 1_000
"""Characters of a metadata value; a longer one is left out, as every passage would repeat it."""


class UnreadableError(Exception):
    """A file cannot be read; the message is the reason, on one line."""


class Heading(NamedTuple):
    """A heading within a text."""

    start: int
    """Offset of its first character."""
    level: int
    """1 is the highest."""
    text: str


class Table(NamedTuple):
    """A table within a text; each of its lines is a row."""

    start: int
    body: int
    """Offset of the first row after the header."""
    end: int


@dataclass(frozen=True)
class Loaded:
    """A text of a file: the whole file, or one row of a table."""

    text: str
    title: str = ""
    id: str | None = None
    """The id that the source gives, if it gives one."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """JSON values to keep with every passage."""
    pages: tuple[int, ...] = ()
    """Offsets at which pages 1, 2, … begin, for a text that has pages."""
    headings: tuple[Heading, ...] = ()
    tables: tuple[Table, ...] = ()

    def place(self, offset: int) -> dict[str, Any]:
        """Return `page` and `heading_path` of the character at `offset`, where it has them."""
        return self._places[bisect_right(self._changes, offset) - 1]

    def breaks(self, start: int, end: int) -> list[int]:
        """Return the offsets between `start` and `end` at which page or headings change."""
        return self._changes[bisect_right(self._changes, start) : bisect_left(self._changes, end)]

    @cached_property
    def _changes(self) -> list[int]:
        return sorted({0, *self.pages, *(one.start for one in self.headings)})

    @cached_property
    def _places(self) -> list[dict[str, Any]]:
        places: list[dict[str, Any]] = []
        above: list[Heading] = []
        heads = {one.start: one for one in self.headings}
        for at in self._changes:
            if head := heads.get(at):
                above = [*(one for one in above if one.level < head.level), head]
            path = [one.text[:LONGEST_TITLE] for one in above]
            path = path[1:] if path[:1] == [self.title] else path
            page = {"page": max(bisect_right(self.pages, at), 1)} if self.pages else {}
            places.append(page | ({"heading_path": path} if path else {}))
        return places


class Passage(NamedTuple):
    """A passage as the store keeps it."""

    name: str
    """Its public id: the document's own (`id#n` where it is cut), else a content id."""
    document: str | None
    """The id of the document that it was cut from."""
    content: str
    """Hash of all that is indexed of it: title, headings and text."""
    text: str
    metadata: dict[str, Any]


def passage_of(loaded: Loaded, start: int, end: int, lead: str = "", number: str = "") -> Passage:
    """Return the passage `text[start:end]` of a text, behind a table's header where `lead` is one.

    `metadata["breaks"]` lists [offset in the passage, page and headings from there on] wherever
    they change within it, so that a quote is cited by its own place, not by the passage's.
    `number` is what its id adds to the document's.
    """
    text = lead + loaded.text[start:end]
    own = {k: v for k, v in loaded.metadata.items() if len(str(v)) <= LONGEST_FIELD}
    meta = {**own, "title": loaded.title[:LONGEST_TITLE], "start": start, "end": end}
    meta |= loaded.place(start)
    breaks = [[at - start + len(lead), loaded.place(at)] for at in loaded.breaks(start, end)]
    if breaks:
        meta["breaks"] = breaks
    content = hashlib.sha256(indexed_text(text, meta).encode("utf-8", "replace")).hexdigest()[:32]
    name = f"{loaded.id}{number}" if loaded.id else content[:16]
    return Passage(name, loaded.id, content, text, meta)
