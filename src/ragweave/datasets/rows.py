"""Files of questions as rows: JSON, JSON lines, CSV, TSV, Parquet, each also as .gz, and the Hugging Face hub.

A row knows where it stands, so that an error names line and field:

    dev.jsonl:12: 'supporting_facts' must be a list of [title, sentence number]
"""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragweave.errors import UsageError, need

RowT = TypeVar("RowT")
csv.field_size_limit(2**30)


@dataclass(frozen=True)
class Row:
    """One object of a file."""

    fields: Mapping[str, Any]
    where: str
    number: int
    """Its number in the file, from 1."""

    def error(self, text: str) -> UsageError:
        """Return an error that says where."""
        return UsageError(f"{self.where}: {text}")

    def has(self, *names: str) -> bool:
        """Say whether all of these fields have a value."""
        return all(self.fields.get(name) is not None for name in names)

    def get(self, *names: str) -> Any:
        """Return the first of these fields that has a value; None if none has."""
        return next((self.fields[one] for one in names if self.fields.get(one) is not None), None)

    def need(self, *names: str) -> Any:
        """Return the first of these fields that has a value.

        Raises:
            UsageError: None has.
        """
        found = self.get(*names)
        if found is None:
            there = ", ".join(map(str, self.fields)) or "nothing"
            raise self.error(f"{either(names)} is missing; there is {there}")
        return found

    def text(self, *names: str) -> str:
        """Return a field as text; a number is taken as it is written.

        Raises:
            UsageError: It is missing, blank, or neither a text nor a number.
        """
        found = self.need(*names)
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            raise self.error(f"{either(names)} must be a text, not {_kind(found)}")
        if not str(found).strip():
            raise self.error(f"{either(names)} is empty")
        return str(found)

    def json(self, *names: str) -> Any:
        """Return a field; a text that looks like JSON, or like a list of Python's, is parsed."""
        found = self.get(*names)
        if isinstance(found, str) and found.lstrip()[:1] in ("[", "{"):
            with suppress(ValueError):
                return json.loads(found)
            with suppress(ValueError, SyntaxError):
                return ast.literal_eval(found.strip())
        return found

    def rows(self, *names: str) -> list[Row]:
        """Return a field that is a list of objects; a missing one is empty.

        The hub stores such a list as one object of lists, which is read as well.
        """
        found = self.json(*names)
        if isinstance(found, Mapping):
            found = self._turned(found, names)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
            raise self.error(f"{either(names)} must be a list of objects, not {_kind(found)}")
        return [Row(one, f"{self.where}, {names[0]} {at}", at) for at, one in enumerate(found, 1)]

    def _turned(self, columns: Mapping[str, Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
        lists = [one for one in columns.values() if isinstance(one, list)]
        if not lists or len(lists) != len(columns) or len({len(one) for one in lists}) > 1:
            raise self.error(f"{either(names)} must be a list of objects, or lists of one length")
        return [dict(zip(columns, one, strict=True)) for one in zip(*lists, strict=True)]


def either(names: tuple[str, ...]) -> str:
    """Return names as an error shows them: `'answers' or 'answer'`."""
    return " or ".join(map(repr, names))


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file.

    Raises:
        UsageError: It cannot be read; the text names the line.
        MissingExtraError: It is a Parquet file, and pyarrow is not installed.
    """
    kinds = [one for one in path.suffixes if one != ".gz"]
    kind = kinds[-1].lower() if kinds else ""
    if kind == ".parquet":
        yield from _parquet(path)
    elif kind in (".csv", ".tsv", ".txt"):
        yield from _table(path, "," if kind == ".csv" else "\t")
    else:
        yield from _json(path)


def rows_of(path: str | Path, kind: TypeAdapter[RowT]) -> list[RowT]:
    """Return the rows of a file by their pydantic type.

    Raises:
        UsageError: The file cannot be read or is empty, or a row is not of that type; the text names the line.
    """
    rows = [_typed(row, kind) for row in read_rows(Path(path))]
    if not rows:
        raise UsageError(f"{path}: has no rows")
    return rows


def _typed(row: Row, kind: TypeAdapter[RowT]) -> RowT:
    try:
        return kind.validate_python(row.fields)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise row.error(": ".join([*map(str, first["loc"]), first["msg"]])) from error


def hub_rows(name: str, config: str | None, split: str) -> Iterator[Row]:
    """Yield the rows of a data set of the Hugging Face hub, or of a local folder of its files, streamed.

    Raises:
        MissingExtraError: The package `datasets` is not installed.
        UsageError: There is no such data set or split, or it cannot be downloaded.
    """
    need("A data set of the Hugging Face hub", "hub", "datasets")
    from datasets import load_dataset

    try:
        rows = load_dataset(name, config, split=split, streaming=True)
        for number, fields in enumerate(rows, 1):
            yield Row(fields, f"hf:{name} {split}, row {number}", number)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"hf:{name}: {' '.join(str(error).split())[:200]}") from error


def langsmith_rows(name: str) -> Iterator[Row]:
    """Yield the examples of a LangSmith data set: inputs and outputs as fields of one row.

    Raises:
        UsageError: There is no such data set, or LangSmith refuses.
    """
    from langsmith import Client
    from langsmith.utils import LangSmithError

    try:
        for number, one in enumerate(Client().list_examples(dataset_name=name), 1):
            fields = {**(one.inputs or {}), **(one.outputs or {}), "id": str(one.id)}
            yield Row(fields, f"langsmith:{name}, example {number}", number)
    except LangSmithError as error:
        raise UsageError(f"langsmith:{name}: {' '.join(str(error).split())}") from error


def open_text(path: Path) -> io.TextIOBase:
    """Open a text file, unpacked.

    Raises:
        UsageError: There is no such file.
    """
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    raw = (gzip.open if path.suffix == ".gz" else open)(path, "rb")
    return io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def _json(path: Path) -> Iterator[Row]:
    with open_text(path) as file:
        try:
            start = file.read(4096).lstrip()[:1]
            file.seek(0)
            if start == "[" or (start == "{" and _is_one_object(file)):
                yield from _document(path, file.read())
            else:
                yield from _lines(path, file)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: is not UTF-8 text (byte {error.start})") from error
        except (OSError, EOFError) as error:
            raise UsageError(f"{path}: cannot be read ({error})") from error


def _is_one_object(file: io.TextIOBase) -> bool:
    """Say whether a file is one object over several lines, and not one object a line."""
    first = next(filter(str.strip, file), "")
    file.seek(0)
    try:
        json.loads(first)
    except ValueError:
        return True
    return False


def _document(path: Path, text: str) -> Iterator[Row]:
    found = _parsed(text, str(path))
    many = isinstance(found, list)
    for number, one in enumerate(found if many else [found], 1):
        where = f"{path}: row {number}" if many else str(path)
        yield Row(_checked(one, where), where, number)


def _lines(path: Path, file: io.TextIOBase) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if line.strip():
            where = f"{path}:{number}"
            yield Row(_checked(_parsed(line, where), where), where, number)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: is not JSON: {error}") from error


def _checked(found: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise UsageError(f"{where}: must be an object, not {_kind(found)}")
    return found


def _table(path: Path, separator: str) -> Iterator[Row]:
    with open_text(path) as file:
        table = csv.DictReader(file, delimiter=separator)
        try:
            for number, fields in enumerate(table, 1):
                where = f"{path}:{table.line_num}"
                if None in fields:
                    raise UsageError(f"{where}: has more cells than the header")
                yield Row({name: text for name, text in fields.items() if text}, where, number)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def _parquet(path: Path) -> Iterator[Row]:
    need("A Parquet file", "hub", "pyarrow")
    from pyarrow.parquet import ParquetFile

    number = 0
    for batch in ParquetFile(path).iter_batches():
        for fields in batch.to_pylist():
            number += 1
            yield Row(fields, f"{path}: row {number}", number)


def _kind(value: Any) -> str:
    names = {str: "a text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), "an object" if isinstance(value, Mapping) else "a list")
