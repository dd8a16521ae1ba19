"""From a quote to boxes on the pages of a PDF, and their picture.

The file is read again when a reader asks, so the index keeps no positions of printed text. Only letters and digits are
compared: a loader may join hyphens, spell out ligatures, change white space or drop a running head. The passage's
whole part on the page is searched for first, because a long text stands there only once; then the quote alone. A quote
that is found nowhere or twice is not marked, because a wrong mark is worse than none.
"""

import struct
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document

from ragweave.state.passages import place_at
from ragweave.tools.knowledge.chunking import Box, boxed_words
from ragweave.tools.knowledge.loaders.docling import Sizes
from ragweave.tools.knowledge.loaders.pdf import LONGEST_SIDE, fields_of, opened
from ragweave.tools.knowledge.loaders.ruled import chars_of, in_order

_MIN_LETTERS = 12
"""Letters that a quote needs to be found by itself, without its passage around it."""
_FINE = 64
"""PDFium rounds positions to whole pixels: this many to a point."""
_AROUND = 60.0
"""Points that a picture shows above and below a quote."""
_DPI = 110
"""Pixels an inch of a picture; large pages get fewer."""
_LEVEL = 1.3
"""Heights of a word that the box of a recognised line may have; one that rises or falls further is in several boxes."""
_YELLOW = (255, 226, 110)
"""The colours under a mark are multiplied by it, as under a marker pen: black stays black."""


class Mark(NamedTuple):
    """Where a quote, or a part of it, stands on a page."""

    page: int
    """From 1."""
    size: tuple[float, float]
    """Width and height of the page as it is shown, in points."""
    boxes: tuple[Box, ...]
    """One for each line; none if the quote's place is not certain."""


class _Part(NamedTuple):
    """What a quote and its passage have on one page: offsets in the passage."""

    page: int
    passage: tuple[int, int]
    quote: tuple[int, int]


def marks_of(
    passage: Document,
    start: int,
    end: int,
    data: bytes,
    sizes: Sizes = MappingProxyType({}),
) -> list[Mark]:
    """Return where the quote `page_content[start:end]` stands in the PDF of its passage, page by page.

    What is not printed there, as on a scan, is marked by the boxes that are stored with its passage; without the PDF
    (b""), all is, on pages of these sizes. No page has boxes if the place of a part of the quote is not certain.
    """
    parts = [*_parts(passage, start, end)]
    if data:
        with opened(data) as document:
            marks = [_mark(passage, part, document) for part in parts if part.page <= len(document)]
    else:
        shown = ((part, sizes[part.page]) for part in parts if part.page in sizes)
        marks = [Mark(part.page, size, tuple(_stored_boxes(passage, part))) for part, size in shown]
    return marks if all(mark.boxes for mark in marks) else [mark._replace(boxes=()) for mark in marks]


def _mark(passage: Document, part: _Part, document: Any) -> Mark:
    page = document[part.page - 1]
    width, height = page.get_size()
    boxes = _boxes(passage.page_content, part, *printed(page)) or _stored_boxes(passage, part)
    # PDFium also reads what is cropped away.
    shown = [(max(x, 0.0), max(y, 0.0), min(right, width), min(bottom, height)) for x, y, right, bottom in boxes]
    inside = all(x < right and y < bottom for x, y, right, bottom in shown)
    return Mark(part.page, (width, height), tuple(shown) if inside else ())


def _parts(passage: Document, start: int, end: int) -> Iterator[_Part]:
    """Yield the pages on which a quote stands."""
    text, starts, meta = passage.page_content, dict[int, int](), passage.metadata
    lead = len(text) - (meta["end"] - meta["start"]) if "start" in meta else 0  # the header of a table from before
    for at in (lead if start >= lead else 0, *(at for at, _ in passage.metadata.get("breaks", ()))):
        starts.setdefault(place_at(passage, at).get("page", 1), at)  # a picture alone is not called a page
    for (page, low), high in zip(starts.items(), [*list(starts.values())[1:], len(text)], strict=False):
        first, last = max(low, start), min(high, end)
        if any(map(str.isalnum, text[first:last])):
            yield _Part(page, (low, high), (first, last))


def printed(page: Any) -> tuple[list[str], Callable[[int], Box]]:
    """Return the characters of a page as they are read, then those of its fields and notes; and what gives their boxes.

    The box of a field's character is the field's.
    """
    from pypdfium2 import PdfPosConv

    chars = page.get_textpage()
    width, height = page.get_size()
    to_shown = PdfPosConv(page, (0, 0, round(width * _FINE), round(height * _FINE), 0)).to_bitmap

    def shown(left: float, bottom: float, right: float, top: float) -> Box:
        (x, y), (other_x, other_y) = to_shown(left, bottom), to_shown(right, top)
        return min(x, other_x) / _FINE, min(y, other_y) / _FINE, max(x, other_x) / _FINE, max(y, other_y) / _FINE

    text, order = in_order(page, chars) or (own := chars_of(chars), range(len(own)))
    fields = [(char, rect) for field, rect in fields_of(page) for char in field]
    return (
        [*text, *(char for char, _ in fields)],
        lambda at: shown(*(chars.get_charbox(order[at]) if at < len(order) else fields[at - len(order)][1])),
    )


def bare(text: Iterable[str]) -> tuple[str, list[int]]:
    """Return the letters and digits of a text without accents and ligatures, and of each where it comes from."""
    letters = [
        (letter, at)
        for at, char in enumerate(text)
        for letter in unicodedata.normalize("NFKD", char)
        if letter.isalnum()
    ]
    return "".join(letter for letter, _ in letters), [at for _, at in letters]


def _boxes(text: str, part: _Part, shown: Sequence[str], box: Callable[[int], Box]) -> list[Box]:
    """Return the boxes of a quote's lines on a page; none if it is found nowhere or more than once."""
    letters, places = bare(shown)
    (low, high), (start, end) = part.passage, part.quote
    before, quote, after = (bare(piece)[0] for piece in (text[low:start], text[start:end], text[end:high]))
    at = _found(before + quote + after, letters, begins=low > 0, ends=high < len(text))
    first = at + len(before) if at >= 0 else _found(quote, letters)
    return _lines([box(at) for at in dict.fromkeys(places[first : first + len(quote)])]) if first >= 0 else []


def _stored_boxes(passage: Document, part: _Part) -> list[Box]:
    """Return the boxes of a quote's lines by the words that are stored of a passage; none if a letter is in none of them."""
    start, end = part.quote
    words = [word for word in boxed_words(passage.metadata) if word.start < end and start < word.end]
    inside = {at for word in words for at in range(word.start, word.end)}
    if any(char.isalnum() and at not in inside for at, char in enumerate(passage.page_content[start:end], start)):
        return []
    boxes: list[Box] = []
    line = -1
    for word in words:
        above, (left, top, right, bottom) = line, word.box
        line = passage.page_content.count("\n", 0, word.start)
        if line == above:
            x, y, to, base = boxes[-1]
            if max(bottom, base) - min(top, y) <= _LEVEL * (bottom - top):
                boxes[-1] = min(left, x), min(top, y), max(right, to), max(bottom, base)
                continue
        boxes.append(word.box)
    return boxes


def _found(part: str, page: str, *, begins: bool = False, ends: bool = False) -> int:
    """Return where a page has a part, else -1: a long part's only place, or the edge at which the passage was cut.

    Args:
        part: Letters of the part.
        page: Letters of the page.
        begins: Whether the passage begins on the page before, so that its part begins this page.
        ends: Whether the passage ends on the page after.
    """
    at = page.find(part)
    if at >= 0 and len(part) >= min(_MIN_LETTERS, len(page)) and page.find(part, at + 1) < 0:
        return at
    if begins and page.startswith(part):
        return 0
    return len(page) - len(part) if ends and page.endswith(part) else -1


def _lines(boxes: Sequence[Box]) -> list[Box]:
    """Join the boxes of characters, in reading order, to one for each line, which may run down the page."""
    down = [_turned(box) for box in _joined(map(_turned, boxes))]
    return min(_joined(boxes), down, key=len)


def _turned(box: Box) -> Box:
    return box[1], box[0], box[3], box[2]


def _joined(boxes: Iterable[Box]) -> list[Box]:
    lines: list[Box] = []
    for left, top, right, bottom in boxes:
        if lines:
            low, high, to, base = lines[-1]
            height = min(bottom - top, base - high)
            apart = max(left - to, low - right)  # a line may run to the left, too
            if min(base, bottom) - max(high, top) >= 0.5 * height and apart <= 3 * (base - high):
                lines[-1] = min(low, left), min(high, top), max(to, right), max(base, bottom)
                continue
        lines.append((left, top, right, bottom))
    return lines


def page_picture(data: bytes, mark: Mark, *, whole: bool = False) -> bytes:
    """Return the page of a mark as PNG, cropped to the lines around its boxes.

    Args:
        data: The PDF.
        mark: Without boxes, the whole page is shown.
        whole: Show the whole page.
    """
    scale = min(_DPI / 72, LONGEST_SIDE / max(*mark.size, 1))
    with opened(data) as document:
        pixels = document[mark.page - 1].render(scale=scale, rev_byteorder=True).to_numpy()[:, :, :3].copy()
    marked = np.zeros(pixels.shape[:2], bool)
    for left, top, right, bottom in mark.boxes:
        low, high = max(round(scale * top) - 2, 0), max(round(scale * left) - 2, 0)
        marked[low : round(scale * bottom) + 2, high : round(scale * right) + 2] = True
    pixels[marked] = pixels[marked].astype(np.uint16) * _YELLOW // 255
    if mark.boxes and not whole:
        top, bottom = min(box[1] for box in mark.boxes), max(box[3] for box in mark.boxes)
        first = min(max(round(scale * (top - _AROUND)), 0), len(pixels) - 1)
        pixels = pixels[first : max(round(scale * (bottom + _AROUND)), first + 1)]
    return _png(pixels)


def _png(pixels: Any) -> bytes:
    """Return pixels (height x width x 3) as PNG, with 16 shades of each colour: print needs no more."""
    height, width, _ = pixels.shape
    shades = (pixels >> 4) * np.uint8(17)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), shades.reshape(height, -1)], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
