"""Documents that Docling has read: JSON with `"schema_name": "DoclingDocument"`. Its own package is not needed.

The text is Markdown in Docling's reading order, without running heads. The box of each item is stored with its text.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ragweave.tools.knowledge.chunking import Box, Loaded, Word
from ragweave.tools.knowledge.loaders.text import markdown, readable

_FURNITURE = ("page_header", "page_footer")
_MAX_PAGE = 100_000
"""Highest number of a page."""
_MAX_EDGE = 1e6
"""Largest coordinate, in points."""
_MAX_SPANNED = 1_000_000
"""Characters that a document's merged cells repeat, an empty cell counted as ten; in a document with more they do not."""
_MAX_EMPTY = 20
"""Cells that a table has for each one with text; the rows of a table with more are not aligned."""
_HASH = 2**64 - 1
"""Docling gives the last 64 bits of a file's SHA-256."""


_Place = tuple[int, Box]
"""Page and box."""
_Row = dict[int, tuple[str, _Place | None]]
"""The cells of a row by their columns: text and place."""


class _Mark(NamedTuple):
    """Where a part of an item's text stands."""

    start: int
    end: int
    page: int
    box: Box


class _Piece(NamedTuple):
    """An item as Markdown."""

    text: str
    marks: Sequence[_Mark]
    parent: str
    gap: str
    """What separates it from an item before it that has the same parent."""


def load_docling(name: str, document: Mapping[str, Any]) -> Loaded:
    """Load the text of a document with its headings, tables, pages and boxes."""
    texts: list[str] = []
    words: list[Word] = []
    pages: list[int] = []
    at, parent = 0, ""
    for piece in _by_page(document):
        gap = (piece.gap if piece.parent == parent else "\n\n") if texts else ""
        texts += (gap, piece.text)
        at, parent = at + len(gap), piece.parent
        for mark in piece.marks:
            pages += [at + mark.start if pages else 0] * (mark.page - len(pages))
            if mark.page == len(pages):
                words.append(Word(at + mark.start, at + mark.end, mark.box))
        at += len(piece.text)
    loaded = markdown("".join(texts), str(document.get("name") or name))
    return replace(loaded, pages=tuple(pages), words=tuple(words))


def _by_page(document: Mapping[str, Any]) -> list[_Piece]:
    """Return the pieces of a document, page after page; one without a place follows the one before it."""
    pieces, pages, page = [*_pieces(document)], [], 0
    for piece in pieces:
        page = piece.marks[0].page if piece.marks else page
        pages.append(page)
    return [pieces[at] for at in sorted(range(len(pieces)), key=pages.__getitem__)]


def _pieces(document: Mapping[str, Any]) -> Iterator[_Piece]:
    """Yield the items of a document as Markdown, in reading order."""
    groups = {group["self_ref"]: group.get("label") for group in document.get("groups", ())}
    spanned = sum(
        _rows_of(cell) * _columns_of(cell) * (10 + len(cell["text"]))
        for table in document.get("tables", ())
        for cell in table["data"]["table_cells"]
        if _rows_of(cell) * _columns_of(cell) > 1
    )
    for item in _items(document):
        parent = (item.get("parent") or {}).get("$ref", "")
        gap = " " if groups.get(parent) == "inline" else "\n" if item["label"] == "list_item" else "\n\n"
        places = [place for prov in item.get("prov", ()) if (place := _place(document, prov["page_no"], prov["bbox"]))]
        if "table_cells" in (item.get("data") or ()):
            place_of = partial(_cell_place, document, places)
            text, marks = _table_text(_table(item["data"]["table_cells"], place_of, repeat=spanned <= _MAX_SPANNED))
        else:
            text = readable(item.get("text") or item.get("orig") or _described(item)).strip()
            lead = _lead(item)
            text = f"{lead}{' '.join(text.split()) if lead[:1] == '#' else text}" if text else ""
            if item["label"] == "code" and text:
                text = f"```\n{text}\n```"
            marks = _marks(item.get("prov", ()), places, len(lead), len(text))
        if text:
            yield _Piece(text, marks, parent, gap)


def _items(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the items in reading order, each once, those with a caption after it; of a table not what is in its cells."""
    stack = [(child["$ref"], False) for child in reversed(document["body"]["children"])]
    known: set[str] = set()
    while stack:
        ref, is_open = stack.pop()
        if not is_open and ref in known:
            continue
        known.add(ref)
        _, kind, at = ref.split("/")
        item = document[kind][int(at)]
        if not is_open:
            stack += [(ref, True), *((caption["$ref"], False) for caption in reversed(item.get("captions", ())))]
            continue
        inside = () if kind == "tables" else item.get("children", ())
        stack += [(child["$ref"], False) for child in reversed([*inside, *item.get("footnotes", ())])]
        if item.get("content_layer", "body") == "body" and item.get("label") not in _FURNITURE:
            yield item


def _lead(item: Mapping[str, Any]) -> str:
    """Return what stands before an item's text in Markdown."""
    if item["label"] in ("title", "section_header"):
        return "#" * (1 if item["label"] == "title" else min(int(item.get("level", 1)) + 1, 6)) + " "
    if item["label"] != "list_item":
        return ""
    return f"{item['marker']} " if item.get("enumerated") and item.get("marker") else "- "


def _described(item: Mapping[str, Any]) -> str:
    """Return what a model says about a picture, if one was asked."""
    return "\n".join(note["text"] for note in item.get("annotations", ()) if note.get("kind") == "description")


def _place(document: Mapping[str, Any], page: int, box: Mapping[str, Any]) -> _Place | None:
    """Return the page and the box of an item, by the top left corner; None if it is on none of the document's pages."""
    known = document.get("pages", {}).get(str(page)) if 1 <= page <= _MAX_PAGE else None
    if known is None:
        return None
    left, right = sorted((float(box["l"]), float(box["r"])))
    from_top = box.get("coord_origin", "TOPLEFT") == "TOPLEFT"
    ys = [float(box[edge]) if from_top else known["size"]["height"] - box[edge] for edge in "tb"]
    edges = left, min(ys), right, max(ys)
    return (page, edges) if all(-_MAX_EDGE < edge < _MAX_EDGE for edge in edges) else None


def _cell_place(document: Mapping[str, Any], places: Sequence[_Place], cell: Mapping[str, Any]) -> _Place | None:
    """Return where a cell stands, or else its table."""
    own = _place(document, places[0][0], cell["bbox"]) if places and cell.get("bbox") else None
    return own or next(iter(places), None)


def _marks(provs: Sequence[Mapping[str, Any]], places: Sequence[_Place], lead: int, end: int) -> list[_Mark]:
    """Return where the parts of a text stand; one in several boxes says which of its characters are in each."""
    if len(provs) == 1:
        return [_Mark(0, end, *place) for place in places]
    marks: list[_Mark] = []
    for prov, place in zip(provs, places, strict=False) if len(provs) == len(places) else ():
        first, last = (min(max(int(at) + lead, 0), end) for at in prov["charspan"])
        marks += [_Mark(first if marks else 0, last, *place)] * (first < last)
    return marks


def _rows_of(cell: Mapping[str, Any]) -> int:
    return int(cell["end_row_offset_idx"]) - int(cell["start_row_offset_idx"])


def _columns_of(cell: Mapping[str, Any]) -> int:
    """Return how many columns show a cell's text: of those that it spans all, if it is a header."""
    return int(cell["end_col_offset_idx"]) - int(cell["start_col_offset_idx"]) if cell.get("column_header") else 1


def _table(cells: Sequence[Mapping[str, Any]], place_of: Callable[[Any], _Place | None], *, repeat: bool) -> list[_Row]:
    """Return the rows of a table by their columns; first the header, which is one row."""
    rows: dict[int, _Row] = defaultdict(dict)
    bodies: set[int] = set()
    for cell in cells:
        text = " ".join(readable(cell["text"]).split()).replace("|", "\\|")
        first, left = int(cell["start_row_offset_idx"]), int(cell["start_col_offset_idx"])
        for row in range(first, first + (_rows_of(cell) if repeat else 1)):
            bodies |= set() if cell.get("column_header") else {row}
            columns = range(left, left + (_columns_of(cell) if repeat else 1))
            rows[row] |= dict.fromkeys(columns, (text, place_of(cell)))
    numbers = sorted(rows)
    above = max(1, next((at for at, row in enumerate(numbers) if row in bodies), len(numbers)))
    header: _Row = {}
    for row in numbers[:above]:
        for column, (text, place) in rows[row].items():
            name = header[column][0] if column in header else ""
            header[column] = text if text == name else f"{name} {text}".strip(), place
    return [header, *(rows[row] for row in numbers[above:])]


def _table_text(rows: Sequence[_Row]) -> tuple[str, list[_Mark]]:
    """Return a table as Markdown, and where its cells stand."""
    columns = sorted({column for row in rows for column in row})
    is_sparse = len(rows) * len(columns) > _MAX_EMPTY * sum(map(len, rows))
    lines: list[str] = []
    marks: list[_Mark] = []
    at = 0
    for row in rows:
        line = "|"
        for column in row if is_sparse else columns:
            text, place = row.get(column, ("", None))
            if place and text:
                start = at + len(line) + 1
                marks.append(_Mark(start, start + len(text), *place))
            line += f" {text} |"
        lines += [line] if lines else [line, "|" + " --- |" * len(columns)]
        at = sum(map(len, lines[:2])) + 2 if row is rows[0] else at + len(line) + 1
    return "\n".join(lines) if columns else "", marks


def original_of(data: bytes, folder: Path) -> tuple[bytes, dict[int, tuple[float, float]]]:
    """Return the PDF that Docling read, if it lies in this folder, else b""; and the sizes of its pages."""
    document = json.loads(data)
    origin = document.get("origin") or {}
    path = folder / Path(str(origin.get("filename", ""))).name
    original = path.read_bytes() if path.suffix.lower() == ".pdf" and path.is_file() else b""
    if int(hashlib.sha256(original).hexdigest(), 16) & _HASH != origin.get("binary_hash"):
        original = b""
    sizes = {int(number): page["size"] for number, page in document["pages"].items()}
    return original, {number: (float(size["width"]), float(size["height"])) for number, size in sizes.items()}
