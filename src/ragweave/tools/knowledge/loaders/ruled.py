"""Tables of a PDF's page whose cells are ruled: which characters stand in which cell.

Lines that cross are a lattice. It is a table if most of its cells have text, no line runs through a word, and the first
row or column has names. Drawings, plots, frames around code and turned tables are left as they are. PDFium is not thread-safe: the caller
holds its lock, by `pdf.opened`.
"""

import ctypes
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

_NEAR = 2.0
"""Points by which the ends of lines that cross may miss each other; a path that is no wider is a line."""
_MIN_WIDTH, _MIN_HEIGHT = 10.0, 6.0
"""Shortest line of a table, in points, across and down."""
_MAX_OBJECTS, _MAX_CROSSINGS, _MAX_CHARS = 5_000, 40_000, 20_000
"""What a page may have to be searched for tables."""
_FILLED = 0.7
"""Least share of a table's cells with text."""


class _Line(NamedTuple):
    """A line across or down."""

    at: float
    low: float
    high: float


class _Lattice(NamedTuple):
    ys: list[float]
    """Edges of the rows, from the top."""
    columns: list[list[float]]
    """Edges of the cells of each row, from the left."""


def in_order(page: Any, chars: Any) -> tuple[list[str], list[int]] | None:
    """Return the text of a page with tables, character by character, and the offset of each in the page's own order.

    A row of a table is a line, `| cell | cell |`; what stands around the cells has the offset -1. None: no tables.
    """
    from pypdfium2.raw import FPDFText_GetCharAngle

    lattices = [*_lattices(*_lines(page))] if chars.count_chars() <= _MAX_CHARS else []
    if not lattices:
        return None
    text = chars_of(chars)
    boxes = [chars.get_charbox(at) for at in range(len(text))]
    tables: dict[int, dict[tuple[int, int], list[int]]] = {}
    inside: set[int] = set()
    for lattice in lattices:
        cells = _cells(lattice, text, boxes)
        own = {at for cell in cells.values() for at in cell}
        if (
            own.isdisjoint(inside)
            and _is_table(cells, lattice, text)
            and abs(FPDFText_GetCharAngle(chars, min(own))) < 1
        ):
            tables[min(own)] = cells
            inside |= own
    order: list[tuple[str, int]] = []
    for at, char in enumerate(text):
        order += _rows(tables[at], text) if at in tables else [(char, at)] * (at not in inside)
    return ([char for char, _ in order], [at for _, at in order]) if tables else None


def chars_of(chars: Any) -> list[str]:
    """Return the characters of a page's text; the second half of one beyond U+FFFF is empty."""
    from pypdfium2 import raw

    text = [chr(raw.FPDFText_GetUnicode(chars, at)) for at in range(chars.count_chars())]
    for at in range(len(text) - 1):  # PDFium gives the two halves of UTF-16
        if "\ud800" <= text[at] <= "\udbff":
            pair = text[at] + text[at + 1]
            text[at], text[at + 1] = pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), ""
    return text


def _rows(cells: dict[tuple[int, int], list[int]], text: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the characters of a table row by row."""
    yield "\n", -1
    for row in sorted({row for row, _ in cells}):
        for column in range(1 + max(column for number, column in cells if number == row)):
            yield "| ", -1
            gap = ""
            for at in cells.get((row, column), ()):
                if text[at].isspace():
                    gap = " "
                elif text[at] != "\ufffe":  # PDFium's mark of a hyphen that ends a line
                    yield gap + "\\" * (text[at] == "|"), -1
                    yield text[at], at
                    gap = ""
            yield " ", -1
        yield "|\n", -1


def _is_table(cells: dict[tuple[int, int], list[int]], lattice: _Lattice, text: Sequence[str]) -> bool:
    """Return whether two rows have two cells with text, most cells have some, and a first row or column has words."""
    words = {place: "".join(text[at] for at in cell).strip() for place, cell in cells.items()}
    filled = [place for place, word in words.items() if word]
    wide = [row for row in {row for row, _ in filled} if sum(number == row for number, _ in filled) > 1]
    if len(wide) < 2 or len(filled) < _FILLED * sum(len(edges) - 1 for edges in lattice.columns):
        return False
    heads = [[words[place] for place in filled if place[part] == 0] for part in (0, 1)]
    return any(len(names) > 1 and all(sum(map(str.isalpha, name)) > 1 for name in names) for names in heads)


def _cells(lattice: _Lattice, text: Sequence[str], boxes: Sequence[Any]) -> dict[tuple[int, int], list[int]]:
    """Return the characters of each cell, by row and column; none if a line runs through a word."""
    cells: dict[tuple[int, int], list[int]] = defaultdict(list)
    place = None
    for at, (left, bottom, right, top) in enumerate(boxes):
        if not text[at].isspace():
            before, place = place, _place(lattice, (left + right) / 2, (bottom + top) / 2)
            is_inside_word = at and text[at].isalnum() and text[at - 1].isalnum()
            if is_inside_word and before and place and before != place:
                return {}
        if place:
            cells[place].append(at)
    return cells


def _place(lattice: _Lattice, x: float, y: float) -> tuple[int, int] | None:
    row = sum(edge > y for edge in lattice.ys) - 1
    if not 0 <= row < len(lattice.columns):
        return None
    edges = lattice.columns[row]
    column = sum(edge < x for edge in edges) - 1
    return (row, column) if 0 <= column < len(edges) - 1 else None


def _lattices(across: list[_Line], down: list[_Line]) -> Iterator[_Lattice]:
    """Yield the lattices of two rows and two columns or more."""
    if len(across) * len(down) > _MAX_CROSSINGS:
        return
    groups: list[tuple[set[_Line], set[_Line]]] = []
    for line in down:
        crossed = {
            other
            for other in across
            if other.low - _NEAR <= line.at <= other.high + _NEAR and line.low - _NEAR <= other.at <= line.high + _NEAR
        }
        joined = [group for group in groups if not group[0].isdisjoint(crossed)]
        groups = [group for group in groups if group[0].isdisjoint(crossed)]
        groups.append((crossed.union(*(group[0] for group in joined)), {line}.union(*(group[1] for group in joined))))
    for rows, columns in groups:
        ys, xs = (_edges(lines) for lines in (rows, columns))
        if len(ys) > 2 and len(xs) > 2:
            middles = [(low + high) / 2 for low, high in pairwise(ys)]
            yield _Lattice(
                ys[::-1],
                [_edges(line for line in columns if line.low - _NEAR <= y <= line.high + _NEAR) for y in middles[::-1]],
            )


def _edges(lines: Any) -> list[float]:
    """Return where lines stand, ascending; those side by side once."""
    edges: list[float] = []
    for at in sorted(line.at for line in lines):
        if not edges or at - edges[-1] > _NEAR:
            edges.append(at)
    return edges


def _lines(page: Any) -> tuple[list[_Line], list[_Line]]:
    """Return the lines of a page across and down: thin paths, and the sides of rectangles that are drawn."""
    from pypdfium2 import raw

    across: list[_Line] = []
    down: list[_Line] = []
    edges, stroked = [ctypes.c_float() for _ in range(4)], ctypes.c_int()
    count = raw.FPDFPage_CountObjects(page)
    objects = (raw.FPDFPage_GetObject(page, at) for at in range(count if count <= _MAX_OBJECTS else 0))
    for path in (item for item in objects if raw.FPDFPageObj_GetType(item) == raw.FPDF_PAGEOBJ_PATH):
        raw.FPDFPageObj_GetBounds(path, *edges)
        raw.FPDFPath_GetDrawMode(path, ctypes.c_int(), stroked)
        x, y, right, top = (edge.value for edge in edges)
        is_thin = min(right - x, top - y) <= _NEAR
        if not is_thin and not (stroked.value and raw.FPDFPath_CountSegments(path) in (4, 5)):
            continue
        if right - x >= _MIN_WIDTH:
            across += [_Line((y + top) / 2, x, right)] if is_thin else [_Line(y, x, right), _Line(top, x, right)]
        if top - y >= _MIN_HEIGHT:
            down += [_Line((x + right) / 2, y, top)] if is_thin else [_Line(x, y, top), _Line(right, y, top)]
    return across, down
