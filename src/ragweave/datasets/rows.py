"""Reading a file of records row by row: JSON lines, a JSON array or object, CSV, TSV; gzip too.

Each row knows its place in the file, so that an error names file and line.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from ragweave.errors import UsageError
from ragweave.tools.files import parse_json
from ragweave.tools.packed import open_packed
from ragweave.tools.quoting import quoted_header, quoted_properly, quoting_in_use

NO_GOLD = "the gold answer is missing"
"""How an error about a row without gold answers begins."""


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a file."""

    fields: Mapping[str, Any]
    where: str
    """`file:line`, or `file, record n` where the file is one JSON value."""
    number: int
    """The row's number in the file, from 1."""
    cells: bool = False
    """Whether the fields are cells of a CSV or TSV, which are all text."""

    def error(self, message: str) -> UsageError:
        """Return an error about this row; its text names file and line."""
        return UsageError(f"{self.where}: {message}")

    def field(self, *names: str) -> str:
        """Return which of these fields is the first that the row has; if none, the first name."""
        return next((name for name in names if self.fields.get(name) is not None), names[0])

    def text(self, *names: str, optional: bool = False) -> str:
        """Return the text of the first of these fields that the row has.

        Args:
            *names: The fields' names.
            optional: Whether there may be none, which is an empty text.

        Raises:
            UsageError: The value is not text; or is blank, or the row has none of the fields, if not
                optional.
        """
        name = self.field(*names)
        if optional and self.fields.get(name) is None:
            return ""
        value = self.value(*names)
        if _is_number(value):
            return str(value)
        if not isinstance(value, str):
            raise self.error(f"{name!r} must be a string, not {type(value).__name__}")
        if not value.strip() and not optional:
            raise self.error(f"{name!r} is empty")
        return value.strip()

    def value(self, *names: str) -> Any:
        """Return the first of these fields that the row has.

        Raises:
            UsageError: The row has none of them.
        """
        value = self.fields.get(self.field(*names))
        if value is not None:
            return value
        wanted = " or ".join(map(repr, names))
        found = ", ".join(map(str, self.fields)) or "no fields"
        raise self.error(f"the field {wanted} is missing; found: {found}")

    def texts(self, *names: str, optional: bool = False) -> tuple[str, ...]:
        """Return the texts of a field that holds one or a list, without blanks and duplicates.

        Numbers in the list are texts too; nulls are left out.

        Args:
            *names: The field's names; the first that the row has.
            optional: Whether there may be none.

        Raises:
            UsageError: The field holds anything else; or is missing or has no text, if not optional.
        """
        name = self.field(*names)
        value = self.value(*names) if self._has(*names) or not optional else ()
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list | tuple):
            raise self.error(f"{name!r} must be a list of strings, not {type(value).__name__}")
        given = [one for one in listed if one is not None]
        if odd := [one for one in given if not isinstance(one, str) and not _is_number(one)]:
            found = type(odd[0]).__name__
            raise self.error(f"{name!r} must hold strings or numbers alone, not a {found}")
        kept = tuple(dict.fromkeys(text for one in given if (text := str(one).strip())))
        if not kept and not optional:
            raise self.error(f"{NO_GOLD}: {name!r} is empty")
        return kept

    def listed(self, *names: str, optional: bool = False) -> list[Any]:
        """Return a list field as it stands.

        Args:
            *names: The field's names; the first that the row has.
            optional: Whether the field may be missing or empty, which is an empty list.

        Raises:
            UsageError: The field is no list; or is missing, if not optional.
        """
        value = self.value(*names) if self._has(*names) or not optional else []
        if not isinstance(value, list):
            raise self.error(f"{self.field(*names)!r} must be a list, not {type(value).__name__}")
        return value

    def item(self, *names: str, optional: bool = False) -> Row:
        """Return the object of a field as a row.

        Args:
            *names: The field's names; the first that the row has.
            optional: Whether the field may be missing or empty, which is an empty object.

        Raises:
            UsageError: The field is no object; or is missing, if not optional.
        """
        value = self.value(*names) if self._has(*names) or not optional else {}
        if not isinstance(value, Mapping):
            raise self.error(
                f"{self.field(*names)!r} must be an object, not {type(value).__name__}"
            )
        return Row(value, self.where, self.number)

    def items(self, *names: str, optional: bool = False) -> list[Row]:
        """Return the objects of a list field as rows that know their place in the file.

        Args:
            *names: The field's names; the first that the row has.
            optional: Whether the field may be missing or empty, which is an empty list.

        Raises:
            UsageError: The field is not a list of objects; or is missing, if not optional.
        """
        value = self.value(*names) if self._has(*names) or not optional else []
        if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
            raise self.error(f"{self.field(*names)!r} must be a list of objects")
        return [
            Row(one, f"{self.where}, {names[0]} {number}", number)
            for number, one in enumerate(value, start=1)
        ]

    def _has(self, *names: str) -> bool:
        return any(self.fields.get(name) for name in names)

    def id(self, *names: str) -> str:
        """Return the row's id, or its number where the file gives none."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str | int) and str(value).strip():
                return str(value).strip()
        return str(self.number)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def pick(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return those of the named fields that have a value, for `Question.about`."""
    return {name: fields[name] for name in names if fields.get(name) is not None}


Rows = Iterator[Row]


_CHUNK = 1 << 20
_SPACE = " \t\r\n"
_BETWEEN = (re.compile(f"[{_SPACE}]*+"), re.compile(f"[{_SPACE},]*+"))
"""What stands before the first record, and before any other."""


def open_text(path: Path) -> TextIO:
    """Open a UTF-8 file, through gzip where it ends in `.gz`."""
    return io.TextIOWrapper(open_packed(path), encoding="utf-8-sig", newline="")


def rows_of(path: Path) -> Rows:
    """Yield the rows of a file, with one of them (or one chunk) in memory.

    JSON lines give one row a line, a JSON array one an element; a file that is a single JSON
    object gives that object.

    Raises:
        UsageError: The file cannot be read, or a row is not a JSON object.
    """
    try:
        with open_text(path) as stream:
            if _kind(path) in (".csv", ".tsv"):
                yield from _table(stream, path)
            else:
                yield from _json(stream, path)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder with their names, in hex."""
    digest = hashlib.sha256()
    for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if one.is_file():
            if path.is_dir():
                digest.update(f"{one.relative_to(path).as_posix()}\n".encode())
            with one.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
    return digest.hexdigest()


def _kind(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _table(stream: TextIO, path: Path) -> Rows:
    delimiter = "\t" if _kind(path) == ".tsv" else ","
    quoted = delimiter == "," or _is_quoted(path)
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = csv.DictReader(stream, delimiter=delimiter, quoting=quoting)
    try:
        for number, fields in enumerate(reader, start=1):
            where = f"{path}:{reader.line_num}"
            if None in fields or None in fields.values():
                raise UsageError(
                    f"{where}: does not have the {len(reader.fieldnames or ())} columns of the header"
                )
            yield Row(fields, where, number, cells=True)
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: {error}") from error


def _is_quoted(path: Path) -> bool:
    """Return whether quotes of a tab-separated file are CSV's, and none of the text."""
    with open_text(path) as lines:
        if quoted_properly(lines):
            return True
    with open_text(path) as lines:
        return quoted_header(next(lines, "")) or quoting_in_use(lines)


def _json(stream: TextIO, path: Path) -> Rows:
    head = stream.read(1)
    while head and head in _SPACE:
        head = stream.read(1)
    if head == "[":
        return _array(stream, path)
    if head == "{":
        return _objects(_Joined("{", stream), path)
    found = f"{head!r}" if head else "nothing"
    raise UsageError(f"{path}: expected JSON lines, a JSON array or object, found {found}")


def _array(stream: TextIO, path: Path) -> Rows:
    decoder = json.JSONDecoder()
    text, at, number = "", 0, 0
    while True:
        at = _BETWEEN[number > 0].match(text, at).end()  # type: ignore[union-attr]
        if text.startswith("]", at):
            return
        where = f"{path}, record {number + 1}"
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError as error:
            raise UsageError(f"{where}: is not valid JSON: nested too deeply") from error
        except json.JSONDecodeError as error:
            text, at = text[at:], 0
            more = stream.read(max(_CHUNK, len(text)))  # a long record is not parsed too often
            if not more:
                raise UsageError(f"{where}: is not valid JSON: {error.msg}") from error
            text += more
            continue
        number += 1
        yield Row(_object(value, where), where, number)


def _objects(stream: _Joined, path: Path) -> Rows:
    """Yield JSON lines, or the single object that spans several lines."""
    number = 0
    for line_number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        where = f"{path}:{line_number}"
        try:
            value = parse_json(line)
        except json.JSONDecodeError as error:
            if number:
                raise UsageError(f"{where}: is not valid JSON: {error.msg}") from error
            yield _one_object(line, stream, path, where)
            return
        number += 1
        yield Row(_object(value, where), where, number)


def _one_object(line: str, stream: _Joined, path: Path, where: str) -> Row:
    try:
        value = parse_json(line + stream.rest())
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: is not valid JSON: {error.msg}") from error
    return Row(_object(value, str(path)), str(path), 1)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise UsageError(f"{where}: expected a JSON object, found {type(value).__name__}")


class _Joined:
    """A stream whose first characters have been read already."""

    def __init__(self, head: str, stream: TextIO) -> None:
        self._head = io.StringIO(head + stream.readline())
        self._stream = stream

    def __iter__(self) -> Iterator[str]:
        yield from self._head
        yield from self._stream

    def rest(self) -> str:
        """Return everything that is left."""
        return self._stream.read()
