"""Loading files: the files under a path, the loader of each suffix, and those of PDF and rows.

The loaders of text, Markdown and HTML are in `markup`.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ragweave.state.passages import whole
from ragweave.tools.knowledge.manifest import Settings, Skip
from ragweave.tools.knowledge.markup import (
    Loaded,
    UnreadableError,
    load_html,
    load_markdown,
    load_text,
    stem,
)
from ragweave.tools.packed import open_packed


def load_pdf(path: Path) -> Iterator[Loaded]:
    """Load the text of a PDF with the offset at which each page begins.

    Raises:
        UnreadableError: Damaged, encrypted, or without text (scanned pages).
    """
    import pypdf
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.ERROR)
    # What pypdf raises on a file that breaks the format, besides its own errors.
    broken = (
        *(PyPdfError, DependencyError, ValueError, KeyError, IndexError, TypeError),
        *(AttributeError, RecursionError, NotImplementedError, struct.error, zlib.error),
    )
    try:
        with path.open("rb") as file:
            reader = pypdf.PdfReader(file)
            if reader.is_encrypted and not reader.decrypt(""):
                raise UnreadableError("encrypted PDF")
            pages = [page.extract_text() for page in reader.pages]
            title = str(reader.metadata.title or "") if reader.metadata else ""
    except broken as error:
        raise UnreadableError(f"damaged PDF ({' '.join(str(error).split())[:100]})") from error
    yield _joined(pages, " ".join(title.split()) or stem(path))


def _joined(pages: list[str], title: str) -> Loaded:
    if not any(page.strip() for page in pages):
        raise UnreadableError("PDF without text (scanned pages need text recognition first)")
    starts, length = [], 0
    for page in pages:
        starts.append(length)
        length += len(page) + 1
    return Loaded("\n".join(pages), title, pages=tuple(starts))


_RESERVED = {"source", "title", "start", "end", "page", "line", "rank", "score", "query"}
_LONGEST_FIELD = 2**30


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
    """Load one text per row of a file with a header line.

    Raises:
        UnreadableError: There is no such text column, or the file is not UTF-8 CSV.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    delimiter = "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","
    with open_packed(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
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
        return Skip(str(path), f"the id in field {settings.id_field!r} is not a string", line)
    title = row.get(settings.title_field)
    named = {settings.text_field, settings.id_field, settings.title_field} | _RESERVED
    rest = {key: value for key, value in row.items() if key not in named}
    return Loaded(
        text,
        title if isinstance(title, str) else "",
        id=str(given) if given not in (None, "") else None,
        metadata={**rest, "line": line},
    )


_WHOLE: dict[str, Callable[[Path], Iterator[Loaded]]] = {
    "": load_text,
    ".txt": load_text,
    ".text": load_text,
    ".rst": load_text,
    ".md": load_markdown,
    ".markdown": load_markdown,
    ".html": load_html,
    ".htm": load_html,
    ".xhtml": load_html,
    ".pdf": load_pdf,
}
_ROWS: dict[str, Callable[[Path, Settings], Iterator[Loaded | Skip]]] = {
    ".csv": load_csv,
    ".tsv": load_csv,
    ".jsonl": load_json_lines,
    ".ndjson": load_json_lines,
}


def load(path: Path, settings: Settings) -> Iterator[Loaded | Skip]:
    """Yield the texts of a file; rows that cannot be read are `Skip`s.

    Raises:
        UnreadableError: The file cannot be read; texts yielded before are to be discarded.
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableError("not a regular file")
        if suffix in _ROWS:
            yield from _ROWS[suffix](path, settings)
        elif suffix in _WHOLE:
            yield from _full(_WHOLE[suffix](path))
        else:
            known = " ".join(sorted({*_WHOLE, *_ROWS} - {""}))
            raise UnreadableError(f"no loader for {suffix} files (known: {known})")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableError(reason) from error


def _full(texts: Iterator[Loaded]) -> Iterator[Loaded]:
    for one in texts:
        if not one.text.strip():
            raise UnreadableError("empty")
        # A PDF may hold halves of surrogate pairs; each becomes one sign, so offsets stay.
        yield replace(one, text=whole(one.text), title=whole(one.title))


def files_under(path: Path, *, leave_out: Path | None) -> Iterator[Path | Skip]:
    """Return the files of a folder, recursively, sorted; or `path` itself where it is a file.

    Hidden files and folders and the folder `leave_out` are skipped, links to folders are not
    followed. A folder that cannot be listed is a `Skip`.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - never raises, where a Path may
        yield path
        return
    denied: list[OSError] = []
    for folder, names, files in os.walk(path, onerror=denied.append):
        here = Path(folder)
        names[:] = sorted(
            name for name in names if not name.startswith(".") and here / name != leave_out
        )
        yield from (here / name for name in sorted(files) if not name.startswith("."))
    yield from (Skip(str(error.filename), error.strerror or str(error)) for error in denied)
