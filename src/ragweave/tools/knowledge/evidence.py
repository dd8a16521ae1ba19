"""Where a quote stands in its file, read again: boxes on a page, lines, cells, or a link; and the picture of its page."""

import hashlib
import html
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict
from urllib.parse import quote as percent_encoded

from langchain_core.documents import Document

from ragweave.state.passages import BOXES, heading_of, place_at
from ragweave.tools.knowledge.chunking import Box, UnreadableError
from ragweave.tools.knowledge.loaders import member_of, unpacked
from ragweave.tools.knowledge.loaders.docling import Sizes, original_of
from ragweave.tools.knowledge.loaders.pdf import as_pdf
from ragweave.tools.knowledge.loaders.text import decode, readable
from ragweave.tools.knowledge.marks import Mark, marks_of, page_picture
from ragweave.tools.knowledge.view import Source

_MAX_FRAGMENT = 200
"""Longest quote, in characters, that a link has in full; a longer one is linked by its first and last words."""
_ENDS = 5
"""Number of these words."""
_MARKUP = re.compile(r"^\s*(?:#{1,6}|[-*+]|\d+\.|>|\|)\s+|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}", re.MULTILINE)
"""What the loader writes where a page has headings, lists, tables or emphasis."""
_MAX_COLUMNS, _MAX_CELL = 20, 200
"""Columns of a table that are shown, and characters of a cell."""
_HTML = (".html", ".htm", ".xhtml")


class Place(TypedDict):
    """Where a quote stands in its file; for a quote over two pages, on each page."""

    file: str
    """The file's path, the page's address, or the name under which documents were added."""
    page: int | None
    """From 1; of slides, too."""
    page_size: tuple[float, float] | None
    """Width and height of the page as it is shown, in points."""
    boxes: list[Box]
    """Left, top, right, bottom of each line, in points from the top left corner of the page as it is shown."""
    lines: tuple[int, int] | None
    """First and last line of a text file, from 1."""
    cells: str
    """The cells of a sheet as a spreadsheet names them, `A4:D4`; else empty. The heading names the sheet."""
    heading: str
    """Title and headings above the quote: `Handbook › Refunds`; of a sheet, its name; of a mail, its subject, sender,
    recipient and date."""
    link: str
    """An address at which a browser shows the quote in a web page; else empty."""
    note: str
    """Why there is nothing to show, for the reader; else empty."""


class Evidence(list[Place]):
    """The places of quotes. A notebook shows their pictures."""

    def __init__(self) -> None:
        super().__init__()
        self._pages: list[tuple[bytes, Mark] | None] = []
        self._tables: list[str] = []

    def picture(self, at: int, *, whole: bool = False) -> bytes | None:
        """Return the page of the place with this index as PNG, cropped to the lines around the quote unless `whole`.

        None if there is no page to show.
        """
        page = self._pages[at]
        return page_picture(*page, whole=whole) if page else None

    def table(self, at: int) -> str:
        """Return the rows around the quote at the place with this index as HTML, with its own row marked.

        Empty if the quote is not of a row.
        """
        return self._tables[at]

    def add(
        self, passage: Document, start: int, end: int, source: Source | None, around: Sequence[Document] = ()
    ) -> None:
        """Add the places of the quote `page_content[start:end]` of a passage, which may have others around it."""
        at, meta = place_at(passage, start), passage.metadata
        mail = [f"{name}: {meta[name]}" for name in ("from", "to", "date") if meta.get(name)] if "from" in meta else []
        place: Place = {
            "file": str(meta.get("source") or ""),
            "page": at.get("page"),
            "page_size": None,
            "boxes": [],
            "lines": None,
            "cells": "",
            "heading": ", ".join([heading_of({"title": meta.get("title"), **at}), *mail]),
            "link": "",
            "note": "",
        }
        for own, page in _places(place, passage, start, end, source):
            self.append(own)
            self._pages.append(page)
            self._tables.append(_table(passage, around) if own["cells"] or (own["lines"] and "line" in meta) else "")

    def html(self) -> str:
        """Return the pictures, tables and notes as HTML."""
        parts = []
        for at, place in enumerate(self):
            parts.append(self.table(at))
            if data := self.picture(at):
                source = f"data:image/png;base64,{b64encode(data).decode()}"
                parts.append(f'<img alt="the quote on its page" style="max-width:100%" src="{source}">')
            parts += [f'<span class="dim">{html.escape(place["note"])}</span>'] * bool(place["note"])
        return "".join(parts)

    def _repr_html_(self) -> str:
        where = (f"{place['file']}, page {place['page']}" if place["page"] else place["file"] for place in self)
        return f"<p>{html.escape('; '.join(dict.fromkeys(where)))}</p>{self.html()}"


def _table(passage: Document, around: Sequence[Document]) -> str:
    """Return rows as an HTML table; "" if the passage is not one of names and values."""
    rows = {doc.id: row for doc in around if "line" in doc.metadata and (row := _row(doc.page_content))}
    if passage.id not in rows:
        return ""
    names = [*dict.fromkeys(name for row in rows.values() for name in row)][:_MAX_COLUMNS]
    lines = [f"<tr><th>{'<th>'.join(html.escape(name[:_MAX_CELL]) for name in names)}</tr>"]
    for ident, row in rows.items():
        mark = ' style="background:#ffe26e;color:#000"' if ident == passage.id else ""
        cells = "".join(f"<td>{html.escape(row.get(name, '')[:_MAX_CELL])}</td>" for name in names)
        lines.append(f"<tr{mark}>{cells}</tr>")
    return f'<div style="overflow-x:auto"><table>{"".join(lines)}</table></div>'


def _row(text: str) -> dict[str, str]:
    """Return the values of a row by the names of its columns; nothing if the text is not made of them."""
    row: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        if colon:
            row[name] = value
        elif row:
            row[[*row][-1]] += f" {line}"
        else:
            return {}
    return row


def _places(
    place: Place, passage: Document, start: int, end: int, source: Source | None
) -> Iterator[tuple[Place, tuple[bytes, Mark] | None]]:
    quote = passage.page_content[start:end]
    if source is not None and source.kind == "page":
        yield {**place, "link": text_fragment(source.key, quote)}, None
        return
    data, note = _indexed_bytes(source)
    path = Path(place["file"].removesuffix(".gz"))
    if (member := passage.metadata.get("member")) and not note:
        path, data = member_of(path, data, str(member))
        note = "" if data else "several files in it have this name"
    if note:
        yield {**place, "note": note}, None
    elif path.suffix.lower() == ".pdf" or BOXES in passage.metadata:
        pdf, sizes = _pages(path, data, Path(place["file"]).parent)
        yield from _marked(place, marks_of(passage, start, end, pdf, sizes), pdf)
    elif path.suffix.lower() in _HTML and not member:
        yield {**place, "link": text_fragment(Path(place["file"]).as_uri(), quote)}, None
    elif line := passage.metadata.get("line"):  # a row of a table
        cells = str(passage.metadata.get("cells") or "")
        yield {**place, "cells": cells, "lines": None if cells else (line, line)}, None
    else:
        yield {**place, "lines": _lines_of(data, passage, start, end)}, None


def _indexed_bytes(source: Source | None) -> tuple[bytes, str]:
    """Return the bytes of a file, unpacked; or why they are not those that were indexed."""
    if source is None or source.kind != "file":
        return b"", "it was not read from a file"
    try:
        data = Path(source.key).read_bytes()
    except OSError:
        return b"", "the file is gone since it was indexed"
    if hashlib.sha256(data).hexdigest() != source.hash:
        return b"", "the file has changed since it was indexed: index it again"
    return unpacked(data).read() if source.key.endswith(".gz") else data, ""


def _pages(path: Path, data: bytes, folder: Path) -> tuple[bytes, Sizes]:
    """Return the PDF of a file with pages, or b"" and their sizes."""
    if path.suffix.lower() == ".json":
        return original_of(data, folder)
    return data if path.suffix.lower() == ".pdf" else as_pdf(data), {}


def _marked(place: Place, marks: list[Mark], data: bytes) -> Iterator[tuple[Place, tuple[bytes, Mark] | None]]:
    note = "" if marks and marks[0].boxes else "the sentence could not be found on its page with certainty"
    for mark in marks:
        boxes = [*mark.boxes]
        yield (
            {**place, "page": mark.page, "page_size": mark.size, "boxes": boxes, "note": note},
            (data, mark) if data else None,
        )
    if not marks:
        yield {**place, "note": note}, None


def text_fragment(url: str, quote: str) -> str:
    """Return a link at which a browser scrolls to a quote and marks it; where it finds none, it opens the page.

    Source: the W3C community group's draft "URL Fragment Text Directives".
    """
    words = _MARKUP.sub("", quote).replace("|", " ").split()
    blocks = re.split(r"\n\s*\n|\n(?=\s*[-|#])", quote)  # a text is found within one block, a range across several
    full = len(blocks) == 1 and sum(map(len, words)) + len(words) <= _MAX_FRAGMENT
    parts = [words] if full or len(words) <= 2 * _ENDS else [words[:_ENDS], words[-_ENDS:]]
    texts = (percent_encoded(" ".join(part), safe="").replace("-", "%2D") for part in parts)
    return f"{url.partition('#')[0]}#:~:text={','.join(texts)}"


def _lines_of(data: bytes, passage: Document, start: int, end: int) -> tuple[int, int] | None:
    """Return the first and last line of a quote in a text file; None if it does not stand there at its offset."""
    quote, meta = passage.page_content[start:end], passage.metadata
    if "start" not in meta:
        return None
    try:
        text = readable(decode(data)[0])
    except UnreadableError:
        return None
    at = meta["start"] + start - (len(passage.page_content) - (meta["end"] - meta["start"]))  # less a table's header
    if at < 0 or text[at : at + len(quote)] != quote:
        return None
    return text.count("\n", 0, at) + 1, text.count("\n", 0, at + len(quote.rstrip())) + 1
