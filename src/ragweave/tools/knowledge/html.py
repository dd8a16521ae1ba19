"""Loader of HTML: one pass over the tags, without a tree, so that no page is too long or deep."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bs4.dammit import UnicodeDammit

from ragweave.tools.knowledge.html_tags import Piece, pieces
from ragweave.tools.knowledge.loaded import Loaded, UnreadableError, open_bytes, plausible
from ragweave.tools.knowledge.markup import stem

_UNSEEN = frozenset(re.findall(r"\w+", "head noscript script style template title"))
_IN_HEAD = frozenset(re.findall(r"\w+", "base link meta noscript script style template title"))
_VOID = frozenset(
    re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr")
)
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body br caption dd div dl dt figcaption figure footer h1 h2 "
        "h3 h4 h5 h6 header hr li main nav ol p pre section table td th tr ul",
    )
)


def load_html(path: Path) -> Iterator[Loaded]:
    """Load the visible text of an HTML file; its title is `<title>`, or the first `<h1>`.

    Raises:
        UnreadableError: The file is empty, binary, or in an unknown encoding.
    """
    with open_bytes(path) as file:
        data = file.read()
    if not data.strip():
        raise UnreadableError("empty")
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in data and not wide:
        raise UnreadableError("binary, not HTML")
    decoded = UnicodeDammit(data, is_html=True)
    if decoded.unicode_markup is None or decoded.contains_replacement_characters:
        raise UnreadableError("HTML in an encoding that it does not name")
    page = _Page()
    for piece in pieces(plausible(decoded.unicode_markup, "utf-16" if wide else "utf-8-sig")):
        page.take(piece)
    yield Loaded(page.text(), page.title() or stem(path))


class _Page:
    """Collects what is seen, with a new line at the edges of each block."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._headings: dict[str, list[str]] = {}
        self._open: list[str] = []
        self._count: Counter[str] = Counter()
        self._done: set[str] = set()

    def text(self) -> str:
        """Return the visible text, white space folded, a line a block."""
        lines = (" ".join(line.split()) for line in "".join(self._pieces).splitlines())
        return "\n".join(line for line in lines if line)

    def title(self) -> str:
        """Return the text of the first `<title>`, else of the first `<h1>`, else nothing."""
        found = (" ".join("".join(self._headings.get(tag, ())).split()) for tag in ("title", "h1"))
        return next(filter(None, found), "")

    def take(self, piece: Piece) -> None:
        """Take the next tag or text."""
        {"start": self._start, "end": self._end, "text": self._data}[piece.kind](piece.text)

    def _start(self, tag: str) -> None:
        """Open an element; what may not stand in the head ends it, as its end tag is optional."""
        if self._count["head"] and tag not in _IN_HEAD:
            self._end("head")
        self._edge(tag)
        if tag not in _VOID:
            self._open.append(tag)
            self._count[tag] += 1

    def _end(self, tag: str) -> None:
        """Close an element and all that is open within; an end without a start is an edge."""
        if not self._count[tag]:
            self._edge(tag)
        while self._count[tag]:
            last = self._open.pop()
            self._count[last] -= 1
            self._edge(last)
            if last in self._headings:
                self._done.add(last)
            if last == tag:
                return

    def _data(self, data: str) -> None:
        """Keep text that is seen, and that of the first title and heading."""
        for tag in ("title", "h1"):
            if self._count[tag] and tag not in self._done:
                self._headings.setdefault(tag, []).append(data)
        if not any(self._count[tag] for tag in _UNSEEN):
            self._pieces.append(data)

    def _edge(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._pieces.append("\n")
