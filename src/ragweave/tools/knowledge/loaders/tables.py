"""Rows: CSV and TSV, JSON and JSON lines, and the sheets of a workbook. Each row is a text."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from ragweave.tools.knowledge.passages import Loaded, UnreadableError
from ragweave.tools.knowledge.settings import Notice, Settings
from ragweave.tools.knowledge.loaders.packages import open_package
from ragweave.tools.knowledge.loaders.text import decode, own_fields

_SAMPLE = 50
"""Records by which the separator and the header are found."""
_MOST_NOTICES = 5
"""Bad rows of a file that are named one by one."""
_MERGED = re.compile(rb'<mergeCell ref="([A-Z]+)(\d+):([A-Z]+)(\d+)"')
_MOST_MERGED = 100_000
"""Cells of a merged area that are filled with its text."""
_MAX_SHEETS = 2**30
"""Bytes of XML that a workbook may unpack to; they are read as a stream."""
_LONGEST_FORMAT = 100
"""Characters of a number format that are looked at."""
_MOST_CELLS = 20_000_000
"""Cells of a sheet that are read, empty ones included."""

Row = Sequence[str]


def load_csv(path: Path, data: bytes, settings: Settings) -> Iterator[Loaded | Notice]:
    """Load one text per row of a file with a header; lines above the header are a text of their own.

    Raises:
        UnreadableError: There are no rows, or no such column.
    """
    text, told = decode(data)
    if told:
        yield Notice(str(path), told, partly=True)
    named = re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE)
    text = text[named.end() :] if named else text
    separator = named[1] if named else _separator(text, path)
    csv.field_size_limit(2**30)
    records = _records(text, separator)
    first = list(itertools.islice(records, _SAMPLE))
    if not first:
        raise UnreadableError("empty")
    at = _header(first)
    above = "\n".join(" ".join(filter(None, row)) for _, row in first[:at])
    if above.strip():
        yield Loaded(above, path.stem, metadata={"line": first[0][0]})
    rows = itertools.chain(first[at + 1 :], records)
    yield from _table(path, first[at][1], rows, settings, {})


def _separator(text: str, path: Path) -> str:
    """Return the separator that parts most of the first records into equally many fields."""
    if ".tsv" in path.suffixes:
        return "\t"

    def worth(separator: str) -> tuple[float, int]:
        head = list(itertools.islice(_records(text, separator), _SAMPLE))
        widths = Counter(len(row) for _, row in head if len(row) > 1)
        if not widths:
            return 0, 0
        width, often = widths.most_common(1)[0]
        return often / len(head), width

    return max(",;\t|", key=worth)


def _records(text: str, separator: str) -> Iterator[tuple[int, Row]]:
    r"""Yield the line number and fields of each record; quotes may be escaped as `""` or `\"`."""
    escaped = '\\"' in text[:100_000] and '""' not in text[:100_000]
    lines = io.StringIO(text, newline="")
    made = csv.reader(
        lines,
        delimiter=separator,
        doublequote=not escaped,
        escapechar="\\" if escaped else None,
        strict=False,
    )
    for row in made:
        if any(one.strip() for one in row):
            yield made.line_num, [one.strip() for one in row]


def _header(records: Sequence[tuple[int, Row]]) -> int:
    """Return which record is the header: the first that is as wide as most are."""
    widths = Counter(len(row) for _, row in records)
    width = max(widths, key=lambda one: (widths[one] * (one > 1), one))
    return next(at for at, (_, row) in enumerate(records) if len(row) == width)


def _table(
    path: Path,
    header: Row,
    rows: Iterable[tuple[int, Row]],
    settings: Settings,
    metadata: dict[str, Any],
) -> Iterator[Loaded | Notice]:
    """Yield the rows of a table; fields beyond the header keep their number as a name."""
    names = [name or f"column {number}" for number, name in enumerate(header, 1)]
    seen: Counter[str] = Counter()
    for at, name in enumerate(names):
        seen[name] += 1
        names[at] = name if seen[name] == 1 else f"{name} {seen[name]}"
    shown = _shown(names, settings)
    for line, row in rows:
        more = (f"column {number}" for number in range(len(names) + 1, len(row) + 1))
        fields = {name: one for name, one in zip([*names, *more], row, strict=False) if one}
        lines = [f"{name}: {one}" for name, one in fields.items() if not shown or name in shown]
        text = fields.get(settings.text_field) if shown is None else "\n".join(lines)
        if not text:
            continue
        kept = {settings.id_field, settings.title_field, settings.text_field}
        rest = {name: one for name, one in fields.items() if shown is None and name not in kept}
        yield Loaded(
            text,
            fields.get(settings.title_field, ""),
            fields.get(settings.id_field),
            {**own_fields(rest), **metadata, "line": line},
        )


def _shown(names: Sequence[str], settings: Settings) -> frozenset[str] | None:
    """Return the columns that a row shows (empty: all); None where one column alone is the text."""
    if settings.text_field in names:
        return None
    wanted = [one.strip() for one in settings.text_field.split(",")]
    lacking = [one for one in wanted if one not in names]
    if lacking and settings.text_field != Settings.text_field:
        raise UnreadableError(f"no column {lacking[0]!r} (columns: {', '.join(names)[:200]})")
    return frozenset() if lacking else frozenset(wanted)


def load_json(path: Path, data: bytes, settings: Settings) -> Iterator[Loaded | Notice]:
    """Load the objects of a JSON list, or of JSON lines, as rows; any other JSON as text."""
    text, told = decode(data)
    if told:
        yield Notice(str(path), told, partly=True)
    if path.suffix.lower() == ".json":
        try:
            held = json.loads(text)
        except (ValueError, RecursionError):
            held = None
        if isinstance(held, list) and held and all(isinstance(one, dict) for one in held):
            for number, one in enumerate(held, 1):
                yield from _object(one, number, settings)
        elif held is None and "\n{" in text.strip():
            yield from _lines(path, text, settings)
        else:
            yield Loaded(text, path.stem)
        return
    yield from _lines(path, text, settings)


def _lines(path: Path, text: str, settings: Settings) -> Iterator[Loaded | Notice]:
    bad: list[int] = []
    for number, line in enumerate(io.StringIO(text), 1):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
        except (ValueError, RecursionError):
            one = None
        if isinstance(one, dict):
            yield from _object(one, number, settings)
        else:
            bad.append(number)
    if bad:
        named = ", ".join(map(str, bad[:_MOST_NOTICES])) + (", …" if bad[_MOST_NOTICES:] else "")
        yield Notice(str(path), f"{len(bad)} lines are no JSON objects ({named})", partly=True)


def _object(row: dict[str, Any], line: int, settings: Settings) -> Iterator[Loaded]:
    """Yield the text of an object: that of the text field, else a line a field."""
    text = row.get(settings.text_field)
    rest: dict[str, Any] = {}
    if not isinstance(text, str):
        wanted = [one.strip() for one in settings.text_field.split(",")]
        shown = {name: one for name, one in row.items() if name in wanted} or row
        lines = (f"{name}: {_value(one)}" for name, one in shown.items() if one not in (None, ""))
        text = "\n".join(lines)
    else:
        kept = (settings.text_field, settings.id_field, settings.title_field)
        rest = {name: one for name, one in row.items() if name not in kept}
    title, given = row.get(settings.title_field), row.get(settings.id_field)
    if text.strip():
        yield Loaded(
            text,
            title if isinstance(title, str) else "",
            str(given) if isinstance(given, (str, int)) and str(given) else None,
            {**own_fields(rest), "line": line},
        )


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def load_workbook(path: Path, data: bytes, settings: Settings) -> Iterator[Loaded | Notice]:
    """Load the tables of each visible sheet, cells as the sheet shows them.

    A blank row ends a table. A header whose cells are merged across columns takes in the row below
    it. Two columns of which the second holds values of several kinds are names and values.

    Raises:
        UnreadableError: openpyxl is not installed, or the file is damaged, encrypted or too large.
    """
    import openpyxl

    open_package(data, max_markup=_MAX_SHEETS).close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like, which are not read
        try:
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
            sheets = [one for one in book.worksheets if one.sheet_state == "visible"]
            hidden = [one.title for one in book.worksheets if one.sheet_state != "visible"]
            with zipfile.ZipFile(io.BytesIO(data)) as package:
                tables = {one.title: list(_blocks(one, _merged(package, one))) for one in sheets}
        except Exception as error:
            raise UnreadableError(
                f"damaged workbook ({' '.join(str(error).split())[:100]})"
            ) from error
    if hidden:
        yield Notice(str(path), f"hidden sheets are left out: {', '.join(hidden)}", partly=True)
    if unsaved := _unsaved_formulas(data):
        yield Notice(str(path), f"{unsaved} formulas have no saved value", partly=True)
    for title, blocks in tables.items():
        for block in blocks:
            yield from _block(path, title, block, settings)


Block = list[tuple[int, list[str], list[type], bool]]
"""Line number, shown cells, types of values, and whether cells are merged across columns."""


def _merged(package: zipfile.ZipFile, sheet: Any) -> list[tuple[int, int, int, int]]:
    """Return first row and column, last row and column of a sheet's merged areas."""
    from openpyxl.utils import column_index_from_string as number

    part = str(getattr(sheet, "_worksheet_path", "")).lstrip("/")
    held = package.read(part) if part in package.NameToInfo else b""
    return [
        (int(row), number(column.decode()), int(last), number(end.decode()))
        for column, row, end, last in _MERGED.findall(held)
    ]


def _blocks(sheet: Any, merged: list[tuple[int, int, int, int]]) -> Iterator[Block]:
    """Yield the runs of rows between blank ones; merged cells all show their text."""
    origin: dict[tuple[int, int], tuple[int, int]] = {}
    for top, left, bottom, right in merged:
        if (bottom - top + 1) * (right - left + 1) <= _MOST_MERGED:
            area = itertools.product(range(top, bottom + 1), range(left, right + 1))
            origin.update(dict.fromkeys(area, (top, left)))
    wide: dict[int, int] = {}
    for top, left, _, right in merged:
        if right > left:
            wide[top] = max(right, wide.get(top, 0))
    block: Block = []
    shown: dict[tuple[int, int], str] = {}
    seen = 0
    sheet.reset_dimensions()  # a file may claim more rows and columns than it has
    for number, row in enumerate(sheet.iter_rows(), 1):
        seen += 1 + len(row)
        if seen > _MOST_CELLS:
            raise UnreadableError(f"more than {_MOST_CELLS} cells in sheet {sheet.title!r}")
        cells, kinds = [], []
        more = [None] * (wide.get(number, 0) - len(row))
        for column, cell in enumerate([*row, *more], 1):
            text = _cell(cell) if cell is not None else ""
            first = origin.get((number, column))
            if first is not None:
                text = shown.setdefault(first, text)
            cells.append(text)
            kinds.append(type(getattr(cell, "value", None)))
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            block.append((number, cells, kinds, number in wide))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _block(path: Path, sheet: str, block: Block, settings: Settings) -> Iterator[Loaded | Notice]:
    place = {"heading_path": [sheet]}
    at = next(
        (at for at, one in enumerate(block) if len(set(filter(None, one[1]))) > 1), len(block)
    )
    if at:
        above = "\n".join(" ".join(dict.fromkeys(filter(None, one[1]))) for one in block[:at])
        yield Loaded(above, path.stem, metadata={"line": block[0][0], **place})
    rows = block[at:]
    if not rows:
        return
    if _are_pairs(rows):
        lines = (f"{one[1][0].rstrip(':')}: {one[1][1]}" for one in rows if len(one[1]) > 1)
        yield Loaded("\n".join(lines), path.stem, metadata={"line": rows[0][0], **place})
        return
    header = rows[0][1]
    if rows[0][3] and len(rows) > 2:
        below = rows[1][1]
        pairs = itertools.zip_longest(header, below, fillvalue="")
        header = [" ".join(dict.fromkeys(filter(None, pair))) for pair in pairs]
        rows = rows[1:]
    yield from _table(path, header, ((one[0], one[1]) for one in rows[1:]), settings, place)


def _are_pairs(rows: Block) -> bool:
    """Say whether a block is names and values: two columns, values of several kinds or `name:`."""
    if any(len(one[1]) > 2 or not one[1][0] for one in rows):
        return False
    kinds = {one[2][1] for one in rows if len(one[1]) > 1}
    first = [one[1][0] for one in rows]
    below = {one[2][1] for one in rows[1:] if len(one[1]) > 1}
    named = all(one.endswith(":") for one in first)
    return len(set(first)) == len(first) and (named or (len(kinds) > 1 and len(below) > 1))


def _cell(cell: Any) -> str:
    """Return a cell as the sheet shows it, for the commonest formats of numbers."""
    value, form = cell.value, getattr(cell, "number_format", None) or "General"
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return " ".join(str(value).split()) if "\n" not in str(value) else str(value).strip()
    form = re.sub(r"\[[^\[\]]*\]|\\", "", form.split(";")[0][:_LONGEST_FORMAT])
    decimals = len(found[1]) if (found := re.search(r"\.([0#?]+)", form)) else 0
    if "%" in form:
        return f"{value * 100:.{decimals}f}%"
    if re.fullmatch(r"0{2,}", form) and float(value).is_integer():
        return f"{int(value):0{len(form)}d}"
    sign = re.search(r'^"?([$€£¥]|[A-Z]{3})"?|"?([$€£¥])"?$', form.replace("_", "").strip(" *()-"))
    if "," in form or sign:
        text = f"{value:,.{decimals}f}" if "," in form else f"{value:.{decimals}f}"
        return f"{sign[1] or ''}{text}{sign[2] or ''}" if sign else text
    if "0.0" in form and "E" not in form:
        return f"{value:.{decimals}f}"
    return str(int(value)) if float(value).is_integer() else f"{value:.12g}"


def _unsaved_formulas(data: bytes) -> int:
    """Return how many formulas have no value saved with them."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        names = [one for one in package.namelist() if one.startswith("xl/worksheets/sheet")]
        return sum(
            len(re.findall(rb"</f>\s*(?:(?:<v\s*/>|<v></v>)\s*)?</c>", package.read(one)))
            for one in names
        )
