"""Loaders of rows: CSV, TSV and JSON lines, packed by gzip or not."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragweave.tools.knowledge.loaded import Loaded, UnreadableError, open_bytes
from ragweave.tools.knowledge.report import Skip
from ragweave.tools.knowledge.settings import Settings

_RESERVED = {"source", "title", "start", "end", "page", "line", "rank", "score", "query"}
_LONGEST_FIELD = 2**30


def load_json_lines(path: Path, settings: Settings) -> Iterator[Loaded | Skip]:
    """Load one text a line; a line that is no such row is a `Skip`. Blank lines are passed over."""
    with open_bytes(path) as file:
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
    """Load one text a row of a file with a header line.

    Raises:
        UnreadableError: There is no such text column, or the file is not UTF-8 CSV.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    delimiter = "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","
    with open_bytes(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        try:
            columns = next(reader, [])
            if settings.text_field not in columns:
                named = ", ".join(columns)[:200]
                raise UnreadableError(f"no column {settings.text_field!r} (columns: {named})")
            for row in filter(None, reader):
                yield _csv_row(path, columns, row, reader.line_num, settings)
        except UnicodeDecodeError as error:
            raise UnreadableError(f"not UTF-8 text (after line {reader.line_num})") from error
        except csv.Error as error:
            raise UnreadableError(f"not CSV (line {reader.line_num}: {error})") from error


def _csv_row(
    path: Path, columns: Sequence[str], row: Sequence[str], line: int, settings: Settings
) -> Loaded | Skip:
    """Read a row by its own length: a DictReader fills every column in each short row."""
    if len(row) > len(columns):
        return Skip(str(path), "more fields than the header has", line)
    fields = dict(zip(columns, row, strict=False))
    return _row(path, {key: value for key, value in fields.items() if value}, line, settings)


def _row(path: Path, row: object, line: int, settings: Settings) -> Loaded | Skip:
    if not isinstance(row, dict):
        return Skip(str(path), "not a JSON object", line)
    text, given = row.get(settings.text_field), row.get(settings.id_field)
    if not isinstance(text, str) or not text.strip():
        return Skip(str(path), f"no text in field {settings.text_field!r}", line)
    if given is not None and (isinstance(given, bool) or not isinstance(given, str | int)):
        return Skip(str(path), f"the id in field {settings.id_field!r} is no text", line)
    title = row.get(settings.title_field)
    named = {settings.text_field, settings.id_field, settings.title_field} | _RESERVED
    rest = {key: value for key, value in row.items() if key not in named}
    return Loaded(
        text,
        title if isinstance(title, str) else "",
        id=str(given) if given not in (None, "") else None,
        metadata={**rest, "line": line},
    )
