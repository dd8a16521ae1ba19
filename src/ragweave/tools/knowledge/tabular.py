"""Loaders of rows: JSON lines, CSV and TSV, and the sheets of a workbook. Each row is a text."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TextIO

from ragweave.state.passages import whole
from ragweave.tools.knowledge.decoding import UTF16, read_text
from ragweave.tools.knowledge.manifest import Settings, Skip
from ragweave.tools.knowledge.markdown import own_fields
from ragweave.tools.knowledge.markup import Loaded, UnreadableError
from ragweave.tools.knowledge.office import check_package, damaged, need_extra
from ragweave.tools.packed import open_packed
from ragweave.tools.quoting import quoted_header, quoted_properly, quoting_in_use

_LONGEST_FIELD = 2**30
_MOST_CELLS = 20_000_000
"""Cells of a workbook that are read, empty ones included."""


def load_json_lines(path: Path, settings: Settings) -> Iterator[Loaded | Skip]:
    """Load one text per line; an invalid line is a `Skip`, and blank lines are ignored.

    Raises:
        UnreadableError: The file begins as UTF-16 and is none.
    """
    with _open_as_utf8(path) as file:
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


def _open_as_utf8(path: Path) -> BinaryIO:
    """Open a text to be read as UTF-8; one of UTF-16 is read whole and rewritten for that."""
    with open_packed(path) as file:
        utf16 = file.read(2).startswith(UTF16)
    return io.BytesIO(read_text(path).encode()) if utf16 else open_packed(path)


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
    with _lines_of(path) as lines:
        dialect = _dialect(path, lines)
    with _lines_of(path) as lines:
        deque(islice(lines, dialect.above), maxlen=0)
        try:
            records = _records(path, lines, dialect)
            header = next(records, (0, ()))
            if isinstance(header, Skip):
                raise UnreadableError(f"{header.reason} (line {header.line})")
            yield from _table(path, header[1], records, settings)
        except csv.Error as error:
            raise UnreadableError(f"not CSV (line {lines.number}: {error})") from error


class _Lines:
    """The lines of a file: how many have been read, and whether there are no more."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.number = 0
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._file)
        except StopIteration:
            self.ended = True
            raise
        except UnicodeDecodeError as error:
            raise UnreadableError(f"not UTF-8 text (after line {self.number})") from error
        self.number += 1
        return line


@contextmanager
def _lines_of(path: Path) -> Iterator[_Lines]:
    with _open_as_utf8(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        yield _Lines(file)


class _Dialect(NamedTuple):
    """How a table is written."""

    above: int
    """Lines above the header: blank ones, and Excel's `sep=;`."""
    delimiter: str
    quoting: Literal[0, 3]
    """`csv.QUOTE_MINIMAL` or `csv.QUOTE_NONE`."""


_NAMED_SEPARATOR = re.compile(r'"?sep=([^\w\r\n"\0])"?[\r\n]*', re.IGNORECASE)
_QUOTED_FIELD = re.compile(r'(?:^|(?<=[,;\t|]))"(?:[^"]|"")*+(?:"|$)')


def _dialect(path: Path, lines: Iterator[str]) -> _Dialect:
    """Find out how a table is written.

    A tab-separated one may be written without quoting (`quoting`).

    Raises:
        UnreadableError: It has no header.
    """
    named = ""
    for above, line in enumerate(lines):
        if found := _NAMED_SEPARATOR.fullmatch(line):
            named = found[1]
        elif line.strip():
            delimiter = named or _delimiter(path, line)
            quoted = delimiter != "\t" or quoted_properly(chain([line], lines))
            quoted = quoted or quoted_header(line) or _quoting_in_use(path)
            return _Dialect(above, delimiter, csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
    raise UnreadableError("empty")


def _delimiter(path: Path, header: str) -> str:
    if ".tsv" in (suffix.lower() for suffix in path.suffixes):
        return "\t"
    return max(",;\t|", key=_QUOTED_FIELD.sub("", header).count)


def _quoting_in_use(path: Path) -> bool:
    with _lines_of(path) as lines:
        return quoting_in_use(lines)


_Record = tuple[int, Sequence[str]]
"""The number of a record's last line, and its fields."""


def _records(path: Path, lines: _Lines, dialect: _Dialect) -> Iterator[_Record | Skip]:
    """Yield the records that are not blank; one within whose quotes the file ends is a `Skip`."""
    before = lines.number
    for row in csv.reader(lines, delimiter=dialect.delimiter, quoting=dialect.quoting):
        if lines.ended:  # only an open quote makes the reader ask for more than there is
            told = "a quote that is never closed: nothing is read from here on"
            yield Skip(str(path), told, before + 1)
        elif row:
            yield lines.number, row
        before = lines.number


def _table(
    path: Path,
    columns: Sequence[str],
    rows: Iterable[_Record | Skip],
    settings: Settings,
    **metadata: Any,
) -> Iterator[Loaded | Skip]:
    """Yield the rows of a table, each read by its own length: short rows are not filled up."""
    shown = _shown_columns(columns, settings)
    for one in rows:
        if isinstance(one, Skip):
            yield one
            continue
        line, row = one
        if any(row[len(columns) :]):
            yield Skip(str(path), "more fields than the header has", line)
            continue
        pairs = [(name, value) for name, value in zip(columns, row, strict=False) if value]
        fields = dict(pairs)
        if shown is not None:
            lines = (f"{name}: {value}" for name, value in pairs if name in shown)
            fields = {name: value for name, value in pairs if name in _named(settings)}
            fields[settings.text_field] = "\n".join(lines)
        loaded = _row(path, fields, line, settings, row_of_lines=shown is not None)
        if isinstance(loaded, Loaded):
            loaded.metadata.update(metadata)
        yield loaded


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
    titled = isinstance(title, str | int | float) and not isinstance(title, bool)
    named = {settings.text_field, *_named(settings)}
    rest = {key: value for key, value in row.items() if key not in named}
    return Loaded(
        text,
        str(title) if titled else "",
        id=str(given) if given not in (None, "") else None,
        metadata={**own_fields(rest), "line": line},
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
