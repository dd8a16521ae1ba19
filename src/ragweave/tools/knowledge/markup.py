"""The text of HTML, and what every loader gives: it yields `Loaded` texts or raises `UnreadableError`.

HTML is read in one pass over its tags, without a tree, in time linear in the page's length however
broken it is: `html.parser` searches the rest of the page for the end of each unclosed tag, comment
and quote, so a page of a few hundred kilobytes can occupy it for hours.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragweave.errors import RagweaveError
from ragweave.tools.text.untrusted import short_title

_DEEPEST = 6
"""Most headings in a path, as HTML and Markdown have levels."""


class UnreadableError(RagweaveError):
    """A file without text that we can read; the message is the reason."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        """Say why, and whether the trouble may pass without another text (no access, half-saved)."""
        super().__init__(reason)
        self.passing = passing


class Heading(NamedTuple):
    """A heading within a text."""

    start: int
    """Offset of its first character."""
    end: int
    """Offset behind its last character, marks included."""
    level: int
    """1 is the highest."""
    text: str


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

    headings: tuple[Heading, ...] = ()
    """Headings in order, for a text that has some."""
    row: bool = False
    """Whether it is a row of a table: lines that stay together."""

    def marks_at(self, offset: int) -> dict[str, Any]:
        """Return `page` and `heading_path` of the character at `offset`, where it has them."""
        page, path = self.page_at(offset), self.heading_path(offset)
        return ({} if page is None else {"page": page}) | ({"heading_path": path} if path else {})

    def heading_path(self, offset: int) -> list[str]:
        """Return the headings above the character at `offset`, the highest first, title aside."""
        at = bisect_right(self._heading_paths, offset, key=lambda one: one[0]) - 1
        return list(self._heading_paths[at][1]) if at >= 0 else []

    @cached_property
    def _heading_paths(self) -> list[tuple[int, tuple[str, ...]]]:
        found: list[tuple[int, tuple[str, ...]]] = []
        above: list[Heading] = []
        for one in self.headings:
            while above and above[-1].level >= one.level:
                above.pop()
            above.append(one)
            path = tuple(short_title(each.text) for each in above[-_DEEPEST:])
            found.append((one.start, path[1:] if path[0] == self.title else path))
        return found

    def page_at(self, offset: int) -> int | None:
        """Return the page, from 1, that holds the character at `offset`."""
        return bisect_right(self.pages, offset) if self.pages else None


def stem(path: Path) -> str:
    """Return the file name without its suffixes, as a title."""
    name = path.name.removesuffix(".gz")
    return Path(name).stem


_NAME = re.compile(r"</?([a-zA-Z][^\t\n\r\f />]*)")
_IN_TAG = re.compile(r">|=[ \t\n\r\f]*+([\"'])")
_RAW_TEXT_END = {
    name: re.compile(rf"</{name}(?=[\t\n\r\f />])", re.IGNORECASE) for name in ("script", "style")
}
_HTML_TAG = re.compile(r"<html\b[^>]*+>", re.IGNORECASE)
_LONG_REFERENCE = re.compile(r"&#(?:[0-9]{20,}+|[xX][0-9a-fA-F]{20,}+);?")
"""A reference that `unescape` would turn into a number, however long it is."""
_MOST_UNCLOSED = 8
"""Most tags with unclosed quotes that are examined; after them a tag ends at its first `>`."""


class Piece(NamedTuple):
    """A start tag, an end tag, or text."""

    kind: Literal["start", "end", "text"]
    text: str
    """The tag's name in lower case, or the text, its character references resolved."""


def _is_xml(page: str) -> bool:
    """Say whether a page is XHTML, in which `<script src="a.js"/>` is closed; in HTML it is not."""
    root = _HTML_TAG.search(page, 0, 4096)
    return page.lstrip().startswith("<?xml") or (root is not None and "xmlns" in root.group())


def pieces(page: str) -> Iterator[Piece]:
    """Yield the tags and texts of `page` in order; comments and declarations are left out."""
    yield from _Scanner(page).pieces()


class _Scanner:
    def __init__(self, page: str) -> None:
        self._page = page
        self._last = page.rfind(">")
        self._xml = _is_xml(page)
        self._unended = 0
        self._missing: dict[str, int] = {}
        """Offset from which a closing mark is known not to occur."""

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
                raw = self._raw_end(name, at)
                yield from self._tag(name, at, within=raw is not None)
                if raw is not None:
                    end = raw.search(page, at)
                    at = end.start() if end else len(page)
                    yield Piece("text", page[text:at])
                    text = at
            elif page.startswith("<![CDATA[", mark):
                yield Piece("text", page[mark + 9 : at].removesuffix("]]>"))
        yield from _text(page[text:])

    def _raw_end(self, name: re.Match[str], end: int) -> re.Pattern[str] | None:
        """Return what ends the raw text behind the tag that ends at `end`; None where none begins.

        `<script src="a.js"/>` begins one in HTML, but not in XHTML, nor where nothing would end it.
        """
        tag = name[1].lower()
        raw = None if name.group().startswith("</") else _RAW_TEXT_END.get(tag)
        if raw is None or not self._page.startswith("/>", end - 2):
            return raw
        if self._xml or tag in self._missing:
            return None
        if raw.search(self._page, end) is None:
            self._missing[tag] = end
            return None
        return raw

    def _tag(self, name: re.Match[str], end: int, *, within: bool) -> Iterator[Piece]:
        tag = name[1].lower()
        if name.group().startswith("</"):
            yield Piece("end", tag)
            return
        yield Piece("start", tag)
        if not within and self._page.startswith("/>", end - 2):
            yield Piece("end", tag)

    def _tag_end(self, at: int) -> int:
        """Return where the tag before `at` ends: at a `>` outside quotes."""
        start, page = at, self._page
        while self._unended < _MOST_UNCLOSED:
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


_HIDDEN = frozenset(re.findall(r"\w+", "head noscript script style template title"))
_AROUND = frozenset(("nav", "footer"))
_IN_HEAD = frozenset(re.findall(r"\w+", "base link meta noscript script style template title"))
_VOID = frozenset(
    re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr")
)
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body br caption center dd details dialog div dl dt fieldset "
        "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr legend li main menu nav ol optgroup "
        "option p pre search section summary table td th tr ul",
    )
)
_LEVELS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SPACE = re.compile(r"\s+")
_ORDINALS = frozenset(re.findall(r"\w+", "st nd rd th er re e ère ème"))
_PERMALINK = re.compile(r"\s*(?:[#¶§\U0001F517\uf0c1]\ufe0f?|\u200b)\s*")
"""What documentation shows in a heading as its link to itself; some draw it over an empty space."""
_MARK = "\0"
"""Stands behind the level of a heading that begins, or 0 where one ends; text never holds it."""


def needs_caret(superscript: str) -> bool:
    """Return whether a `^` must keep a superscript from what stands before it: 2^8, but 4th."""
    text = superscript.strip().lower()
    return bool(text) and text not in _ORDINALS


def is_permalink(shown: str) -> bool:
    """Return whether a link in a heading, by what it shows, is the heading's link to itself."""
    return _PERMALINK.fullmatch(shown) is not None


def visible_html(source: str, name: str) -> Loaded:
    """Read what a page shows, but its `<nav>` and `<footer>`, where there is anything else.

    Args:
        source: HTML.
        name: The title where there is no `<title>` and no `<h1>`.
    """
    found = list(pieces(source))
    page = _Page(_HIDDEN | _AROUND)
    for piece in found:
        page.take(piece)
    if not page.text()[0].strip():
        page = _Page(_HIDDEN)
        for piece in found:
            page.take(piece)
    text, headings = page.text()
    return Loaded(text, page.title() or name, headings=headings)


class _Page:
    """Collects what is seen, with a new line at the edges of each block and within `<pre>`."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self._hidden = hidden
        self._pieces: list[str] = []
        self._headings: dict[str, list[str]] = {}
        self._open: list[str] = []
        self._count: Counter[str] = Counter()
        self._done: set[str] = set()
        self._raised = False
        """Whether a superscript is open of which nothing has been seen."""
        self._link: tuple[int, int] | None = None
        """Where the link that is open begins in the pieces, and in the first `<h1>`."""

    def text(self) -> tuple[str, tuple[Heading, ...]]:
        """Return the visible text, white space folded, a line a block, and its headings."""
        lines: list[str] = []
        headings: list[Heading] = []
        length = level = 0
        for raw in "".join(self._pieces).splitlines():
            mark, _, rest = raw.rpartition(_MARK)
            level = int(mark[-1:] or 0) if _MARK in raw else level
            line = " ".join(rest.split())
            if not line:
                continue
            if level:
                headings.append(Heading(length, length + len(line), level, line))
                level = 0
            lines.append(line)
            length += len(line) + 1
        return "\n".join(lines), tuple(headings)

    def title(self) -> str:
        """Return the text of the first `<title>`, else of the first `<h1>`, else nothing."""
        found = (" ".join("".join(self._headings.get(tag, ())).split()) for tag in ("title", "h1"))
        return next(filter(None, found), "")

    def take(self, piece: Piece) -> None:
        """Take the next tag or text."""
        {"start": self._start, "end": self._end, "text": self._data}[piece.kind](piece.text)

    def _start(self, tag: str) -> None:
        """Open an element; an element not allowed in the head closes it (its end tag is optional)."""
        if self._count["head"] and tag not in _IN_HEAD:
            self._end("head")
        self._edge(tag)
        self._raised = self._raised or tag == "sup"
        if tag == "a":
            self._link = len(self._pieces), len(self._headings.get("h1", ()))
        if tag in _LEVELS:
            self._pieces.append(f"{tag[1]}{_MARK}")
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
            self._close(last)
            if last == tag:
                return

    def _close(self, tag: str) -> None:
        self._edge(tag)
        self._raised = self._raised and tag != "sup"
        if tag == "a":
            self._end_link()
        if tag in _LEVELS:
            self._pieces.append(f"0{_MARK}")
        if tag in self._headings:
            self._done.add(tag)

    def _end_link(self) -> None:
        start, self._link = self._link, None
        if start is None or not any(self._count[level] for level in _LEVELS):
            return
        if is_permalink("".join(self._pieces[start[0] :])):
            del self._pieces[start[0] :]
            del self._headings.get("h1", [])[start[1] :]

    def _data(self, data: str) -> None:
        """Keep text that is seen, and that of the first title and heading; a drawing has its own.

        Only `<pre>` keeps its lines: elsewhere a page wraps its source where it likes.
        """
        seen = not any(self._count[tag] for tag in self._hidden)
        if self._raised and seen and data.strip():
            self._raised = False
            data = f"^{data.lstrip()}" if needs_caret(data) else data
        for tag in ("title", "h1"):
            if self._count[tag] and tag not in self._done and not self._count["svg"]:
                self._headings.setdefault(tag, []).append(data)
        if seen:
            self._pieces.append(data if self._count["pre"] else _SPACE.sub(" ", data))

    def _edge(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._pieces.append("\n")
