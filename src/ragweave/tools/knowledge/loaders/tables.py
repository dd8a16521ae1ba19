"""Rows: CSV and TSV, JSON and JSON lines, and the sheets of a workbook. Each row is a text."""

import csv
import io
import itertools
import json
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TextIO

from ragweave.state.passages import encodable
from ragweave.tools.knowledge.chunking import MAX_FIELD, TABLE, Loaded, Table
from ragweave.tools.knowledge.loaders.docling import load_docling
from ragweave.tools.knowledge.loaders.formats import as_shown
from ragweave.tools.knowledge.loaders.office import changed, open_package
from ragweave.tools.knowledge.loaders.text import dated, own_fields
from ragweave.tools.knowledge.settings import IndexSettings

_SAMPLE = 50
"""Records from which the separator and header are detected."""
_HEAD = 100_000
"""Characters from which the separator and quoting are detected."""
_NUMBER = r"[-+(]?\s*[€$£¥]?\s*\d[\d.,'\s]*\s*(?:%|[€$£¥])?\)?"
_DATE = r"\d{4}-\d\d?-\d\d?(?:[T ][\d:.]+)?|\d{1,2}([./-])\d{1,2}\1\d{2,4}|\d{1,2}:\d\d(?::\d\d)?"
_MERGED = re.compile(rb'<mergeCell ref="([A-Z]+\d+:[A-Z]+\d+)"')
_GROUPED = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")
_UNSAVED = re.compile(rb"</f>\s*(?:(?:<v\s*/>|<v></v>)\s*)?</c>")
"""A formula without a saved value."""
_MAX_MERGED = 100_000
"""Cells of a sheet that are filled with the text of their merged areas; areas beyond them show it once."""
_MAX_CELLS = 1_000_000
"""Cells of a sheet, empty ones included, that are read; or as many as its XML has bytes, which holds all that have a value."""
_MAX_GAPS = 100
"""Empty columns that may divide tables; a block with more is one table."""


class _Row(NamedTuple):
    line: int
    cells: Sequence[str]
    wide: bool = False
    """Whether cells of it are merged across columns."""
    left: int = 0
    """Number of its first column in a sheet, from 1."""

    def place(self, last: "_Row | None" = None) -> dict[str, Any]:
        """Return the line and, in a sheet, the cells of a row, or of the rows down to the `last` one."""
        if not self.left:
            return {"line": self.line}
        from openpyxl.utils import get_column_letter

        first = next((at for at, cell in enumerate(self.cells) if cell), 0)
        right = self.left + max(len(row.cells) for row in (self, last or self)) - 1
        below = (last or self).line
        return {
            "line": self.line,
            "cells": f"{get_column_letter(self.left + first)}{self.line}:{get_column_letter(right)}{below}",
        }


def load_csv(name: str, file: TextIO, settings: IndexSettings, separator: str = "") -> Iterator[Loaded | str]:
    """Load one text per row of a file with a header, and one of the lines above the header."""
    head = file.read(_HEAD)
    file.seek(0)
    named = re.match(r'"?sep=(.)"?\r?\n', head, re.IGNORECASE)
    csv.field_size_limit(2**30)
    escape = "\\" if re.search(r'\\"[^,;\t|\r\n]', head) else None
    separator = named[1] if named else separator or _separator(head, escape)
    rows = _records(file, separator, escape)
    yield from _table(name, itertools.islice(rows, int(bool(named)), None), settings)


def _separator(head: str, escape: str | None) -> str:
    """Return the separator that divides most of the first records into equally many fields."""

    def worth(separator: str) -> tuple[float, int]:
        records = list(itertools.islice(_records(io.StringIO(head, newline=""), separator, escape), _SAMPLE))
        widths = Counter(len(row.cells) for row in records if len(row.cells) > 1)
        width, often = widths.most_common(1)[0] if widths else (0, 0)
        return often / max(len(records), 1), width

    return max(",;\t|", key=worth)


def _records(file: TextIO, separator: str, escape: str | None) -> Iterator[_Row]:
    r"""Yield the records that are not blank; quotes may be escaped as `""` or, by `escape`, as `\"`."""
    reader = csv.reader(file, delimiter=separator, escapechar=escape)
    line = 1
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield _Row(line, [cell.strip() for cell in cells])
        line = reader.line_num + 1


def _table(name: str, rows: Iterator[_Row], settings: IndexSettings, *, sheet: bool = False) -> Iterator[Loaded | str]:
    """Yield the rows of a table, after one text of the lines above its header; a form of a sheet is one text."""
    first = list(itertools.islice(rows, _SAMPLE))
    at = _header(first)
    width = _width(first)
    if sheet and (width == 1 or len(first) == at + 1):  # notes, or a total
        at = len(first)
    above = "\n".join(" ".join(dict.fromkeys(filter(None, row.cells))) for row in first[:at])
    if above:
        yield Loaded(above, name, metadata=first[0].place(first[at - 1]))
    if not first[at:]:
        return
    headed = not _is_data(first[at], first[at + 1 :])
    if sheet and _is_form(first[at:], settings, headed=headed):
        form = [*first[at:], *rows]
        texts = ([cell for cell in row.cells if cell] for row in form)
        text = "\n".join(": ".join([cells[0].rstrip(":"), *cells[1:]]) for cells in texts)
        yield Loaded(text, name, metadata=form[0].place(form[-1]), tables=(Table(0, 0, len(text)),))
        return
    body = itertools.chain(first[at + headed :], rows)
    header = list(first[at].cells) if headed else []
    if headed and first[at].wide and (below := next(body, None)):
        pairs = itertools.zip_longest(header, below.cells, fillvalue="")
        header = [" ".join(dict.fromkeys(filter(None, pair))) for pair in pairs]
    yield from _rows(header, body, settings)


def _width(rows: Sequence[_Row]) -> int:
    """Return the usual number of cells of a row."""
    return Counter(len(row.cells) for row in rows).most_common(1)[0][0] if rows else 0


def _header(rows: Sequence[_Row]) -> int:
    """Return the first row with texts, not all equal, in more than half of the usual number of cells."""
    width = _width(rows)
    texts = [[*filter(None, row.cells)] for row in rows]
    full = (at for at, row in enumerate(texts) if 2 * len(row) > width and (width == 1 or len({*row}) > 1))
    return next(full, 0)


def _kind(cell: str) -> str:
    """Return whether a cell is a `year`, another `number`, a `date` or time, or `text`."""
    kinds = (("year", r"(?:19|20)\d\d"), ("number", _NUMBER), ("date", _DATE)) if len(cell) < 50 else ()
    return next((kind for kind, pattern in kinds if re.fullmatch(pattern, cell)), "text")


def _is_data(row: _Row, below: Sequence[_Row]) -> bool:
    """Return whether a row is not a header: it has a number or date where most rows below have one, too.

    Numbers that count (2024, 2025 or 1, 2, 3) are names of columns.
    """
    kinds = [_kind(cell) for cell in row.cells]
    counted = [int(cell) for cell in row.cells if re.fullmatch("[0-9]{1,9}", cell)]
    if len(counted) > 2 - ("year" in kinds) and all(
        after - before == 1 for before, after in itertools.pairwise(counted)
    ):
        return False
    for column, kind in enumerate(kinds):
        others = [_kind(cell) for other in below for cell in other.cells[column : column + 1] if cell]
        if kind != "text" and 2 * others.count(kind) > len(others):
            return True
    return False


def _is_form(rows: Sequence[_Row], settings: IndexSettings, *, headed: bool) -> bool:
    """Return whether the rows of a sheet are pairs of a name and its value.

    They have no header, the first value is a number or date, most names end with a colon, or the values are numbers,
    dates and texts, or only two of these and at least half of them texts.
    """
    names = [row.cells[0] for row in rows]
    fields = {*settings.text_field.split(","), settings.id_field or "id", settings.title_field}
    if any(len(row.cells) > 2 for row in rows) or len({*names}) < len(names) or not all(names):
        return False
    if headed and not fields.isdisjoint(rows[0].cells):
        return False
    first, *kinds = [_kind(row.cells[1]) for row in rows if row.cells[1:]] or ["text"]
    colons, texts = sum(name.endswith(":") for name in names), kinds.count("text")
    mixed = len({*kinds} - {"year"}) > 2 or 0 < texts < len(kinds) <= 2 * texts
    return not headed or 2 * colons > len(names) or first in ("number", "date") or (mixed and len(rows) < _SAMPLE)


def _rows(header: list[str], rows: Iterable[_Row], settings: IndexSettings) -> Iterator[Loaded | str]:
    """Yield the rows below a header; fields beyond the header keep their number as a name."""
    names: list[str] = []
    known: set[str] = set()
    for number, name in enumerate(header, 1):
        name = name or f"column {number}"
        names.append(name if name not in known else f"{name} {number}")
        known.add(names[-1])

    def fields(cells: Sequence[str]) -> dict[str, str]:
        more = (f"column {number}" for number in itertools.count(len(names) + 1))
        return {name: cell for cell, name in zip(cells, itertools.chain(names, more), strict=False) if cell}

    yield from _objects(((row.place(), fields(row.cells)) for row in rows), settings)


def load_json(name: str, file: TextIO, settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load the objects of a JSON list, or of JSON lines, as rows, and what Docling writes; any other JSON as text."""
    text = file.read()
    value = _parsed(text)
    if isinstance(value, dict) and value.get("schema_name") == "DoclingDocument":
        yield load_docling(name, value)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        yield from _objects(_items(text), settings)
    elif value is None and "\n{" in text.strip():
        yield from load_json_lines(name, io.StringIO(text), settings)
    else:
        yield Loaded(text if value is None else json.dumps(value, indent=1, ensure_ascii=False), name)


def _items(text: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the objects of a JSON list, each with the line on which it begins."""
    decoder, line, before = json.JSONDecoder(), 1, 0
    while (start := text.find("{", before)) >= 0:
        line += text.count("\n", before, start)
        item, before = decoder.raw_decode(text, start)
        yield {"line": line}, item
        line += text.count("\n", start, before)


def load_json_lines(_name: str, file: TextIO, settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load the object of each line as a row."""
    rows = (({"line": at}, _parsed(line)) for at, line in enumerate(file, 1) if line.strip())
    yield from _objects(rows, settings)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _objects(rows: Iterable[tuple[dict[str, Any], Any]], settings: IndexSettings) -> Iterator[Loaded | str]:
    """Yield the texts of rows: place and object; those without the text field are named together."""
    wanted = {field.strip() for field in settings.text_field.split(",")}
    either = settings.text_field == IndexSettings.text_field
    bad: list[int] = []
    names: Iterable[str] = ()
    for place, row in rows:
        if isinstance(row, dict) and (either or not wanted.isdisjoint(row)):
            yield from _object(row, place, settings)
        else:
            bad.append(place["line"])
            names = row if isinstance(row, dict) else names
    if bad:
        lines = ", ".join(map(str, bad[:5])) + ", …" * (len(bad) > 5)
        known = ", ".join(names)[:200]
        lack = (
            f"have no field {settings.text_field!r}; --text-field may be one of: {known}"
            if known
            else "are not objects"
        )
        yield f"{len(bad)} lines {lack} (lines {lines})"


def _object(row: dict[str, Any], place: dict[str, Any], settings: IndexSettings) -> Iterator[Loaded]:
    """Yield the text of a row: its text field, or else one line per field."""
    text, title = row.get(settings.text_field), row.get(settings.title_field)
    given = row.get(settings.id_field or ("id" if isinstance(text, str) else ""))
    tables: tuple[Table, ...] = ()
    own = [settings.title_field] if isinstance(title, str) else []
    if isinstance(text, str):
        own.append(settings.text_field)
    else:
        wanted = [field.strip() for field in settings.text_field.split(",")]
        shown = {name: value for name, value in row.items() if name in wanted} or row
        text = "\n".join(f"{name}: {_value(value)}" for name, value in shown.items() if value not in (None, ""))
        tables = (Table(0, 0, len(text)),)  # a long row is cut between its lines
    if text.strip():
        title = title if isinstance(title, str) else ""
        name = encodable(str(given)) if isinstance(given, (str, int)) and str(given) else None
        fields = {
            name: value[:MAX_FIELD] if isinstance(value, str) else value
            for name, value in row.items()
            if name not in own
        }
        yield Loaded(text, title, name, {TABLE: 1, **place, **own_fields(fields)}, tables=tables)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def load_workbook(name: str, data: bytes, settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load the tables of each visible sheet, cells as the sheet shows them.

    A blank row ends a table. A header whose cells are merged across columns includes the row below it.
    """
    import openpyxl

    package = open_package(data)
    date = changed(package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like, which are not read
        # Only read-only mode is fast where a file claims far more cells than it has.
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        if hidden := [sheet.title for sheet in book.worksheets if sheet.sheet_state != "visible"]:
            yield f"hidden sheets are left out: {', '.join(hidden)}"
        for sheet in book.worksheets:
            if sheet.sheet_state == "visible":
                try:
                    for loaded in _sheet(name, package, sheet, settings):
                        yield loaded if isinstance(loaded, str) else dated(loaded, properties=date)
                except (KeyError, ValueError, TypeError, SyntaxError, zipfile.BadZipFile) as error:
                    yield f"sheet {sheet.title!r} is damaged ({str(error)[:100]})"


def _sheet(name: str, package: zipfile.ZipFile, sheet: Any, settings: IndexSettings) -> Iterator[Loaded | str]:
    part = str(getattr(sheet, "_worksheet_path", "")).lstrip("/")
    source = package.read(part) if part in package.NameToInfo else b""
    if unsaved := len(_UNSAVED.findall(source)):
        yield f"{unsaved} formulas of sheet {sheet.title!r} have no saved value"
    unread: list[str] = []
    number = 0
    rows = _filled(sheet, _MERGED.findall(source), max(_MAX_CELLS, len(source)), unread)
    for filled, block in itertools.groupby(rows, key=lambda row: bool(row.cells)):
        for table in _side_by_side(block) if filled else ():
            number += 1
            for loaded in _table(name, iter(table), settings, sheet=True):
                if isinstance(loaded, str):
                    yield loaded
                else:
                    fields = {label: _ungrouped(value) for label, value in loaded.metadata.items()}
                    place = {TABLE: number} if TABLE in fields else {}
                    yield replace(loaded, metadata={**fields, **place, "heading_path": [sheet.title]})
    yield from unread


def _ungrouped(value: Any) -> Any:
    """Return a cell without the commas between thousands, so that filters read all numbers of a column."""
    return value.replace(",", "") if isinstance(value, str) and _GROUPED.fullmatch(value) else value


def _side_by_side(block: Iterator[_Row]) -> Iterator[Iterable[_Row]]:
    """Yield the tables of a block of rows, which empty columns may divide."""
    first = list(itertools.islice(block, _SAMPLE))
    if not 0 < len(_gaps(first)) <= _MAX_GAPS:
        yield itertools.chain(first, block)
        return
    rows = [*first, *block]
    gaps = [*_gaps(rows)[:_MAX_GAPS], max(len(row.cells) for row in rows)]
    edges = [-1, *(gap for gap, end in itertools.pairwise(gaps) if _is_divided(rows, gap, end)), gaps[-1]]
    for before, after in itertools.pairwise(edges):
        parts = (row._replace(cells=row.cells[before + 1 : after], left=row.left + before + 1) for row in rows)
        yield [part for part in parts if any(part.cells)]


def _gaps(rows: Sequence[_Row]) -> list[int]:
    """Return the empty columns between others."""
    filled = {at for row in rows for at, cell in enumerate(row.cells) if cell}
    return [at for at in range(min(filled, default=0), max(filled, default=0)) if at not in filled]


def _is_divided(rows: Sequence[_Row], gap: int, end: int) -> bool:
    """Return whether an empty column stands between two tables, and not within one.

    Both have two columns or more, and the right one, which ends before `end`, has names of its own: a first
    column of texts, all different.
    """
    sides = [[cells for row in rows if any(cells := row.cells[part])] for part in (slice(gap), slice(gap + 1, end))]
    if any(max(sum(map(bool, cells)) for cells in side) < 2 for side in sides if side):
        return False
    names = [cells[0] for cells in sides[1]]
    return all(_kind(name) == "text" and name for name in names) and len({*names}) == len(names) > 1


def _filled(sheet: Any, merged: list[bytes], max_cells: int, unread: list[str]) -> Iterator[_Row]:
    """Yield the rows of a sheet up to a number of cells; merged cells all show their text.

    A line about the other rows is added to `unread`.
    """
    origin, wide = _areas(merged)
    shown: dict[tuple[int, int], str] = {}
    sheet.reset_dimensions()
    for line, row in enumerate(sheet.iter_rows(), 1):
        max_cells -= max(len(row), wide.get(line, 0), 1)
        if max_cells < 0:
            unread.append(f"sheet {sheet.title!r} is not read from row {line} on: it has too many empty cells")
            return
        texts = [*map(_cell, row), *[""] * (wide.get(line, 0) - len(row))]
        for at, text in enumerate(texts):
            if first := origin.get((line, at + 1)):
                texts[at] = shown.setdefault(first, text)
        while texts and not texts[-1]:
            texts.pop()
        yield _Row(line, texts, line in wide, left=1)


def _areas(merged: list[bytes]) -> tuple[dict[tuple[int, int], tuple[int, int]], dict[int, int]]:
    """Return the first cell of each merged cell, and the last column of areas that begin in a row."""
    from openpyxl.utils import range_boundaries

    origin: dict[tuple[int, int], tuple[int, int]] = {}
    wide: dict[int, int] = {}
    for area in merged:
        left, top, right, bottom = range_boundaries(area.decode())
        if (bottom - top + 1) * (right - left + 1) <= _MAX_MERGED - len(origin):
            cells = itertools.product(range(top, bottom + 1), range(left, right + 1))
            origin.update(dict.fromkeys(cells, (top, left)))
        if right > left:
            wide[top] = max(right, wide.get(top, 0))
    return origin, wide


def _cell(cell: Any) -> str:
    """Return a cell as the sheet shows it."""
    return "" if cell.value is None else as_shown(cell.value, getattr(cell, "number_format", None) or "General")
