"""Documents that Docling has read: JSON with `"schema_name": "DoclingDocument"`. Its own package is not needed.

The text is Markdown in Docling's reading order, without running heads. The box of each item is stored with its text.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, takewhile, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from ragweave.tools.knowledge.chunking import Box, Loaded, Word
from ragweave.tools.knowledge.loaders.text import markdown, readable

_FURNITURE = ("page_header", "page_footer")
_MAX_PAGE = 100_000
"""Highest number of a page."""
_MAX_EDGE = 1e6
"""Largest coordinate, in points."""
_HASH = 2**64 - 1
"""Docling gives the last 64 bits of a file's SHA-256."""

Sizes = Mapping[int, tuple[float, float]]
"""Width and height of pages, in points."""
_Place = tuple[int, Box]
"""Page and box."""
_Marks = list[tuple[int, int, _Place]]
"""Where parts of a text stand: start, end, place."""


class _Piece(NamedTuple):
    """An item as Markdown."""

    text: str
    marks: _Marks
    parent: str
    gap: str
    """What separates it from an item before it that has the same parent."""


def load_docling(name: str, document: Mapping[str, Any]) -> Loaded:
    """Load the text of a document with its headings, tables, pages and boxes."""
    pieces, on = [*_pieces(document)], [0]
    for piece in pieces:  # one without a place is on the page of the one before it
        on.append(piece.marks[0][2][0] if piece.marks else on[-1])
    texts: list[str] = []
    words: list[Word] = []
    pages: list[int] = []
    at, parent = 0, ""
    for piece in (pieces[number] for number in sorted(range(len(pieces)), key=on[1:].__getitem__)):
        gap = (piece.gap if piece.parent == parent else "\n\n") if texts else ""
        texts += (gap, piece.text)
        at, parent = at + len(gap), piece.parent
        for start, end, (page, box) in piece.marks:
            pages += [at + start if pages else 0] * (page - len(pages))
            if page == len(pages):
                words.append(Word(at + start, at + end, box))
        at += len(piece.text)
    loaded = markdown("".join(texts), str(document.get("name") or name))
    return replace(loaded, pages=tuple(pages), words=tuple(words))


def _pieces(document: Mapping[str, Any]) -> Iterator[_Piece]:
    """Yield the items of a document as Markdown, in reading order."""
    sizes = _sizes(document)
    groups = {group["self_ref"]: group.get("label") for group in document.get("groups", ())}
    for item in _items(document):
        parent, label = (item.get("parent") or {}).get("$ref", ""), item["label"]
        gap = " " if groups.get(parent) == "inline" else "\n" if label == "list_item" else "\n\n"
        places = [_place(sizes, prov["page_no"], prov["bbox"]) for prov in item.get("prov", ())]
        if rows := _rows(item.get("data") or {}):
            text, marks = _table(sizes, rows, next(iter(places), None))
        else:
            lead = _lead(item)
            text = readable(item.get("text") or item.get("orig") or _described(item)).strip()
            text = text and lead + (" ".join(text.split()) if lead[:1] == "#" else text)
            text = f"```\n{text}\n```" if label == "code" and text else text
            spans = [prov["charspan"] for prov in item.get("prov", ())] if places[1:] else [(0, len(text))]
            marks = _spread(spans, places, len(lead), len(text))
        if text:
            yield _Piece(text, marks, parent, gap)


def _items(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the items in reading order, each once, after its captions; of a table not what is in its cells."""
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
        if item.get("content_layer", "body") == "body" and item["label"] not in _FURNITURE:
            yield item


def _lead(item: Mapping[str, Any]) -> str:
    """Return what stands before an item's text in Markdown."""
    if item["label"] in ("title", "section_header"):
        return "#" * (1 if item["label"] == "title" else min(int(item.get("level", 1)) + 1, 6)) + " "
    if item["label"] != "list_item":
        return ""
    return f"{item['marker']} " if item.get("enumerated") and item.get("marker") else "- "


def _described(item: Mapping[str, Any]) -> str:
    """Return what a model said about a picture."""
    return "\n".join(note["text"] for note in item.get("annotations", ()) if note.get("kind") == "description")


def _place(sizes: Sizes, page: int, box: Mapping[str, Any]) -> _Place | None:
    """Return page and box, by the top left corner; None if it is on none of the document's pages."""
    if page not in sizes:
        return None
    from_top = box.get("coord_origin", "TOPLEFT") == "TOPLEFT"
    top, bottom = sorted(float(box[edge] if from_top else sizes[page][1] - box[edge]) for edge in "tb")
    edges = float(box["l"]), top, float(box["r"]), bottom
    return (page, edges) if all(-_MAX_EDGE < edge < _MAX_EDGE for edge in edges) else None


def _spread(spans: Sequence[Sequence[int]], places: Sequence[_Place | None], lead: int, end: int) -> _Marks:
    """Return where the parts of a text stand: `spans` are its characters in each place."""
    marks: _Marks = []
    for (first, last), place in zip(spans, places, strict=False):
        start, stop = (min(max(int(at) + lead, 0), end) for at in (first, last))
        marks += [(start if marks else 0, stop, place)] * (start < stop) if place else []
    return marks


def _rows(data: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """Return the cells of a table; merged ones are in each of their places if the file has the grid."""
    cells = data.get("table_cells") or ()
    return data.get("grid") or [[*row] for _, row in groupby(cells, lambda cell: cell["start_row_offset_idx"])]


def _table(sizes: Sizes, rows: Sequence[Sequence[Any]], place: _Place | None) -> tuple[str, _Marks]:
    """Return a table as Markdown, and where its cells stand, or else the table; its header is one row."""
    above = [*takewhile(lambda row: all(cell.get("column_header") for cell in row), rows)] or rows[:1]
    lines, marks, at = list[str](), _Marks(), 0
    for row in (zip_longest(*above), *(zip(row) for row in rows[len(above) :])):
        line = "|"
        for cells in row:
            cell = cells[-1]
            names = (" ".join(readable(cell["text"]).split()) for cell in cells)
            text = " ".join(dict.fromkeys(filter(None, names))).replace("|", "\\|")
            own = _place(sizes, place[0], cell["bbox"]) if place and cell.get("bbox") else place
            marks += [(at + len(line) + 1, at + len(line) + 1 + len(text), own)] if own and text else []
            line += f" {text} |"
        lines += [line] if lines else [line, "|" + " --- |" * len(above[0])]
        at = sum(map(len, lines[:2])) + 2 if len(lines) == 2 else at + len(line) + 1
    return "\n".join(lines), marks


def original_of(data: bytes, folder: Path) -> tuple[bytes, Sizes]:
    """Return the PDF that Docling read, if it lies in this folder, else b""; and the sizes of its pages."""
    document = json.loads(data)
    origin = document["origin"] if isinstance(document.get("origin"), dict) else {}
    path = folder / Path(str(origin.get("filename", ""))).name
    original = path.read_bytes() if path.suffix.lower() == ".pdf" and path.is_file() else b""
    if int(hashlib.sha256(original).hexdigest(), 16) & _HASH != origin.get("binary_hash"):
        original = b""
    return original, _sizes(document)


def _sizes(document: Mapping[str, Any]) -> Sizes:
    """Return width and height of each page, in points."""
    pages = {int(number): page["size"] for number, page in (document.get("pages") or {}).items()}
    sizes = {number: (float(size["width"]), float(size["height"])) for number, size in pages.items()}
    return {number: size for number, size in sizes.items() if 0 < number <= _MAX_PAGE and 0 < max(size) < _MAX_EDGE}
