"""The tags and texts of an HTML page in one pass, linear in its length however broken it is.

`html.parser` looks for the end of each unclosed tag, comment and quote through the rest of the
page, so a page of a few hundred kilobytes can hold it for hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Literal, NamedTuple

_NAME = re.compile(r"</?([a-zA-Z][^\t\n\r\f />]*)")
_IN_TAG = re.compile(r">|=[ \t\n\r\f]*+([\"'])")
_RAW = {
    name: re.compile(rf"</{name}(?=[\t\n\r\f />])", re.IGNORECASE) for name in ("script", "style")
}
_LONG_REFERENCE = re.compile(r"&#(?:[0-9]{20,}+|[xX][0-9a-fA-F]{20,}+);?")
"""What `unescape` would make a number of, however long it is."""
_UNENDED = 8
"""Tags whose quotes never close that are looked at; after them a tag ends at its first `>`."""


class Piece(NamedTuple):
    """A start tag, an end tag, or text."""

    kind: Literal["start", "end", "text"]
    text: str
    """The tag's name in small letters, or the text, its character references resolved."""


def pieces(page: str) -> Iterator[Piece]:
    """Yield the tags and texts of `page` in order; comments and declarations are left out."""
    yield from _Scan(page).pieces()


class _Scan:
    def __init__(self, page: str) -> None:
        self._page = page
        self._last = page.rfind(">")
        self._unended = 0
        self._missing: dict[str, int] = {}
        """From where on a closing mark is known not to come."""

    def pieces(self) -> Iterator[Piece]:
        page, at, text = self._page, 0, 0
        while 0 <= (mark := page.find("<", at)) < self._last:
            name = _NAME.match(page, mark)
            other = page[mark + 1] in "!?/"
            if not name and not other:
                at = mark + 1
                continue
            yield from _text(page[text:mark])
            at = self._tag_end(name.end()) if name else self._other_end(mark)
            text = at
            if name:
                yield from self._tag(name, at)
                if page[mark + 1] != "/" and (raw := _RAW.get(name[1].lower())):
                    end = raw.search(page, at)
                    at = end.start() if end else len(page)
                    yield Piece("text", page[text:at])
                    text = at
            elif page.startswith("<![CDATA[", mark):
                yield Piece("text", page[mark + 9 : at].removesuffix("]]>"))
        yield from _text(page[text:])

    def _tag(self, name: re.Match[str], end: int) -> Iterator[Piece]:
        tag = name[1].lower()
        if name.group().startswith("</"):
            yield Piece("end", tag)
            return
        yield Piece("start", tag)
        if self._page.startswith("/>", end - 2):
            yield Piece("end", tag)

    def _tag_end(self, at: int) -> int:
        """Return where the tag that stands before `at` ends: at a `>` outside quotes."""
        start, page = at, self._page
        while self._unended < _UNENDED:
            found = _IN_TAG.search(page, at)
            if found is None:
                break
            if found.group() == ">":
                return found.end()
            at = page.find(found[1], found.end()) + 1
            if not at:
                break
        self._unended += 1
        return page.index(">", start) + 1

    def _other_end(self, mark: int) -> int:
        """Return where a comment, a section or a declaration ends; what is unclosed at `>`."""
        for opening, closing in (("<!--", "-->"), ("<![CDATA[", "]]>")):
            if self._page.startswith(opening, mark):
                end = self._end_of(closing, mark + len(opening))
                return end if end else self._page.index(">", mark) + 1
        return self._page.index(">", mark) + 1

    def _end_of(self, closing: str, at: int) -> int:
        """Return where `closing` ends next, or 0; what is not found is not looked for again."""
        if self._missing.get(closing, len(self._page)) <= at:
            return 0
        found = self._page.find(closing, at)
        if found < 0:
            self._missing[closing] = at
            return 0
        return found + len(closing)


def _text(text: str) -> Iterator[Piece]:
    if text:
        yield Piece("text", unescape(_LONG_REFERENCE.sub("\ufffd", text)))
