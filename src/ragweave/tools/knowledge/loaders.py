"""Which loader reads which file, and which files a path stands for.

What a loader gives: texts with titles, or the reason why there is none.

Loaders of plain text and Markdown.

Loader of PDF files.

Loaders of rows: CSV, TSV and JSON lines, packed by gzip or not.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import os
import re
import stat
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from ragweave.errors import RagweaveError
from ragweave.state.passages import whole
from ragweave.tools.knowledge.html import load_html
from ragweave.tools.knowledge.manifest import Settings, Skip

_SAMPLE = 65_536
_MOST_ODD = {"utf-16": 0.05, "utf-8-sig": 0.3}
"""Share of characters without a shape. In random UTF-16 it is about 0.12; a coloured log in UTF-8
has some."""


class UnreadableError(RagweaveError):
    """A file that holds no text we can read; the text is the reason."""


@dataclass(frozen=True)
class Loaded:
    """A text of a file: the whole file, or one row of it."""

    text: str
    title: str
    id: str | None = None
    """The id that the source gives, if it gives one."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """JSON values to keep with every passage."""
    pages: tuple[int, ...] = ()
    """Character offsets at which pages 1, 2, … begin, for a text that has pages."""

    def page_at(self, offset: int) -> int | None:
        """Return the page, from 1, that holds the character at `offset`."""
        return bisect_right(self.pages, offset) if self.pages else None


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, unpacked where its name ends in `.gz`."""
    return cast("BinaryIO", gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb"))


def decode(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 that says so by its byte order mark.

    Raises:
        UnreadableError: The bytes are no text, or in another encoding.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in data:
        raise UnreadableError("binary, not text")
    else:
        encoding = "utf-8-sig"
    try:
        return plausible(data.decode(encoding), encoding)
    except UnicodeDecodeError as error:
        name = "UTF-16" if encoding == "utf-16" else "UTF-8"
        raise UnreadableError(f"not {name} text (byte {error.start})") from error


def plausible(text: str, encoding: str) -> str:
    """Return `text` where it may be one: no NUL, and few characters that cannot be printed.

    Most pairs of bytes are a letter of UTF-16, so a decoder alone does not tell binary data.

    Raises:
        UnreadableError: It is binary.
    """
    sample = text[:_SAMPLE]
    odd = sum(not (one.isprintable() or one.isspace()) for one in sample)
    if "\0" in text or odd > _MOST_ODD[encoding] * len(sample):
        raise UnreadableError("binary, not text")
    return text


_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_HEADING = re.compile(r"^ {0,3}#{1,6}(?=\s)")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)\s*$")


def stem(path: Path) -> str:
    """Return the file name without its suffixes, as a title."""
    name = path.name.removesuffix(".gz")
    return Path(name).stem


def load_text(path: Path) -> Iterator[Loaded]:
    """Load a text file; its title is the file name."""
    yield Loaded(_read(path), stem(path))


def load_markdown(path: Path) -> Iterator[Loaded]:
    """Load a Markdown file; its title is the first heading.

    A heading at the top leaves the text, as passages carry the title anyway: white space takes
    its place, so that offsets still point into the file.
    """
    text = _read(path)
    title = markdown_title(text)
    yield Loaded(_without_top_heading(text) if title else text, title or stem(path))


def markdown_title(text: str) -> str:
    """Return the first heading outside code fences, or an empty text."""
    fenced, before = False, ""
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            if heading := _heading(line):
                return heading
            if before and _UNDERLINE.match(line):
                return before
        before = "" if fenced or line.lstrip().startswith((">", "-", "*", "`")) else line.strip()
    return ""


def _without_top_heading(text: str) -> str:
    top = len(text) - len(text.lstrip())
    first = next(iter(text[top:].splitlines()), "")
    rest = text[top + len(first) :]
    if not _heading(first) or not rest.strip():
        return text
    return " " * (top + len(first)) + rest


def _heading(line: str) -> str:
    """Return the text of a heading without its marks, or nothing for any other line."""
    mark = _HEADING.match(line)
    return line[mark.end() :].strip().rstrip("#").rstrip() if mark else ""


def _read(path: Path) -> str:
    with open_bytes(path) as file:
        return decode(file.read())


def load_pdf(path: Path) -> Iterator[Loaded]:
    """Load the text of a PDF with the place where each page begins.

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
    """Read the texts of a file; rows that cannot be read come as `Skip`.

    Raises:
        UnreadableError: Nothing of the file can be read; what was given before does not count.
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


def files_under(path: Path, *, leave_out: Path) -> Iterator[Path | Skip]:
    """Return the files of a folder, recursively, sorted; or `path` itself where it is a file.

    Hidden files and folders and the folder `leave_out` are passed over, links to folders are not
    followed. A folder that may not be listed comes as a `Skip`.
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
