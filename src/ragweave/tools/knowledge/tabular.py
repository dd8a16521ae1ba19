"""Loaders of rows: JSON lines, CSV and TSV, and the sheets of a workbook. Each row is a text."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from itertools import chain
from pathlib import Path
from typing import Any

from ragweave.state.passages import whole
from ragweave.tools.knowledge.manifest import Settings, Skip
from ragweave.tools.knowledge.markdown import RESERVED
from ragweave.tools.knowledge.markup import Loaded, UnreadableError
from ragweave.tools.knowledge.office import check_package, damaged, need_extra
from ragweave.tools.packed import open_packed

_LONGEST_FIELD = 2**30
_MOST_CELLS = 20_000_000
"""Cells of a workbook that are read, empty ones included."""


def load_json_lines(path: Path, settings: Settings) -> Iterator[Loaded | Skip]:
    """Load one text per line; an invalid line is a `Skip`, and blank lines are ignored."""
    with open_packed(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError:
                yield Skip(str(path), "not UTF-8 text", number)
            except (ValueError, RecursionError) as error:
                yield Skip(str(path), f"not JSON ({str(error).split(':')[0]})", number)
            else:
                # Only an escape can bring a lone surrogate into a line that is UTF-8.
                if rb"\ud" in line.lower() and not _writable(row):
                    yield Skip(str(path), "half a character (a lone surrogate escape)", number)
                else:
                    yield _row(path, row, number, settings)


def _writable(row: object) -> bool:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def load_csv(path: Path, settings: Settings) -> Iterator[Loaded | Skip]:
    """Load one text per row of a file with a header line, separated by comma, semicolon, tab or bar.

    The text is that of the column `settings.text_field`. It may name several, with commas between
    them; then, and where a file lacks the default `text`, a row becomes lines of "column: value".

    Raises:
        UnreadableError: There is no such column, or the file is not UTF-8 CSV.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    with open_packed(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        reader = csv.reader(())
        try:
            first = next(file, "")
            reader = csv.reader(chain([first], file), delimiter=_delimiter(path, first))
            columns = next(reader, [])
            if not columns:
                raise UnreadableError("empty")
            rows = ((reader.line_num, row) for row in filter(None, reader))
            yield from _table(path, columns, rows, settings)
        except UnicodeDecodeError as error:
            raise UnreadableError(f"not UTF-8 text (after line {reader.line_num})") from error
        except csv.Error as error:
            raise UnreadableError(f"not CSV (line {reader.line_num}: {error})") from error


def _delimiter(path: Path, header: str) -> str:
    if ".tsv" in (suffix.lower() for suffix in path.suffixes):
        return "\t"
    return max(",;\t|", key=header.count)


def _table(
    path: Path,
    columns: Sequence[str],
    rows: Iterable[tuple[int, Sequence[str]]],
    settings: Settings,
    **metadata: Any,
) -> Iterator[Loaded | Skip]:
    """Yield the rows of a table, each read by its own length: short rows are not filled up."""
    shown = _shown_columns(columns, settings)
    for line, row in rows:
        if len(row) > len(columns):
            yield Skip(str(path), "more fields than the header has", line)
            continue
        pairs = [(name, value) for name, value in zip(columns, row, strict=False) if value]
        fields = dict(pairs)
        if shown is not None:
            lines = (f"{name}: {value}" for name, value in pairs if name in shown)
            fields = {name: value for name, value in pairs if name in _named(settings)}
            fields[settings.text_field] = "\n".join(lines)
        one = _row(path, fields, line, settings, row_of_lines=shown is not None)
        if isinstance(one, Loaded):
            one.metadata.update(metadata)
        yield one


def _named(settings: Settings) -> tuple[str, str]:
    return settings.id_field, settings.title_field


def _shown_columns(columns: Sequence[str], settings: Settings) -> frozenset[str] | None:
    """Return the columns that a row shows as lines; None where one column alone is the text."""
    if settings.text_field in columns:
        return None
    chosen = [one.strip() for one in settings.text_field.split(",")]
    if all(one in columns for one in chosen):
        return frozenset(chosen)
    if settings.text_field == Settings.text_field:
        return frozenset(columns)
    lacking = next(one for one in chosen if one not in columns)
    raise UnreadableError(f"no column {lacking!r} (columns: {', '.join(columns)[:200]})")


def _row(
    path: Path, row: object, line: int, settings: Settings, *, row_of_lines: bool = False
) -> Loaded | Skip:
    if not isinstance(row, dict):
        return Skip(str(path), "not a JSON object", line)
    text, given = row.get(settings.text_field), row.get(settings.id_field)
    if not isinstance(text, str) or not text.strip():
        return Skip(str(path), f"no text in field {settings.text_field!r}", line)
    if given is not None and (isinstance(given, bool) or not isinstance(given, str | int)):
        return Skip(str(path), f"the id in field {settings.id_field!r} is not a string", line)
    title = row.get(settings.title_field)
    named = {settings.text_field, *_named(settings)} | RESERVED
    rest = {key: value for key, value in row.items() if key not in named}
    return Loaded(
        text,
        title if isinstance(title, str) else "",
        id=str(given) if given not in (None, "") else None,
        metadata={**rest, "line": line},
        row=row_of_lines,
    )


def load_workbook(path: Path, settings: Settings) -> Iterator[Loaded | Skip]:
    """Load the rows of each sheet of an Excel file, as those of a CSV; `line` is the row's number.

    The header is the first row with more than one cell; what stands above it is a text of its own.
    Formulas show the values that were saved with them.

    Raises:
        UnreadableError: openpyxl is not installed; or the file is damaged, encrypted or too large.
    """
    need_extra("openpyxl", path)
    check_package(path)
    import openpyxl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like, which are not read
        try:
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            sheets = [(one.title, list(_cells(one))) for one in book.worksheets]
            book.close()
        except UnreadableError:
            raise
        except Exception as error:
            raise damaged(path, error) from error
    for title, rows in sheets:
        yield from _sheet(path, title, rows, settings)


def _cells(sheet: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield number and cells of each row that has any, those behind the last left out."""
    sheet.reset_dimensions()  # a file may claim more rows and columns than it has
    seen = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        seen += 1 + len(row)
        if seen > _MOST_CELLS:
            raise UnreadableError(f"more than {_MOST_CELLS} cells in sheet {sheet.title!r}")
        cells = [_shown(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells


def _shown(value: object) -> str:
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else whole(str(value)).strip()


def _sheet(
    path: Path, title: str, rows: Sequence[tuple[int, list[str]]], settings: Settings
) -> Iterator[Loaded | Skip]:
    at = next((at for at, (_, cells) in enumerate(rows) if sum(map(bool, cells)) > 1), 0)
    marks = {"heading_path": [title]}
    if at:
        above = "\n".join(" ".join(filter(None, cells)) for _, cells in rows[:at])
        yield Loaded(above, metadata={"line": rows[0][0], **marks}, title="")
    if rows:
        widest = max(len(cells) for _, cells in rows[at:])
        header = [*rows[at][1], *[""] * (widest - len(rows[at][1]))]
        columns = [name or f"column {number}" for number, name in enumerate(header, 1)]
        yield from _table(path, columns, rows[at + 1 :], settings, **marks)
