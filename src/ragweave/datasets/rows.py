"""Files of questions as rows: JSON, JSON lines, CSV, TSV, Parquet, each also as .gz, and the Hugging Face hub.

A row knows its place, so that an error names line and field:

    dev.jsonl:12: 'supporting_facts' must be a list of [title, sentence number]
"""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragweave.errors import UsageError, fault_of, need

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
        """Return an error that names the row's place."""
        return UsageError(f"{self.where}: {text}")

    def has(self, *names: str) -> bool:
        """Return whether all of these fields have a value."""
        return all(self.fields.get(name) is not None for name in names)

    def get(self, *names: str) -> Any:
        """Return the first value of these fields; None if they have none."""
        return next((self.fields[name] for name in names if self.fields.get(name) is not None), None)

    def need(self, *names: str) -> Any:
        """Return the first value of these fields.

        Raises:
            UsageError: They have none.
        """
        value = self.get(*names)
        if value is None:
            present = ", ".join(map(str, self.fields)) or "no fields"
            raise self.error(f"{either(names)} is missing; there are {present}")
        return value

    def text(self, *names: str) -> str:
        """Return a field as text, a number as it is written.

        Raises:
            UsageError: The field is missing, blank, or neither a text nor a number.
        """
        value = self.need(*names)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.error(f"{either(names)} must be a text, not {_kind(value)}")
        if not str(value).strip():
            raise self.error(f"{either(names)} is empty")
        return str(value)

    def json(self, *names: str) -> Any:
        """Return a field; a text that is JSON, or a Python literal of a list or object, is parsed."""
        value = self.get(*names)
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            with suppress(ValueError):
                return json_value(value)
            with suppress(ValueError, SyntaxError):
                return ast.literal_eval(value.strip())
        return value

    def rows(self, *names: str) -> list[Row]:
        """Return a field that is a list of objects; a missing field is empty.

        The hub's form of such a list, one object of lists, is read as well.
        """
        items = self.json(*names)
        if isinstance(items, Mapping):
            items = self._turned(items, names)
        if items is None:
            return []
        if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
            raise self.error(f"{either(names)} must be a list of objects, not {_kind(items)}")
        return [Row(item, f"{self.where}, {names[0]} {at}", at) for at, item in enumerate(items, 1)]

    def _turned(self, columns: Mapping[str, Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
        lists = {name: column for name, column in columns.items() if isinstance(column, list)}
        if not lists or len({*map(len, lists.values())}) > 1:
            raise self.error(f"{either(names)} must be a list of objects, or lists of one length")
        return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def either(names: tuple[str, ...]) -> str:
    """Return names as errors show them: `'answers' or 'answer'`."""
    return " or ".join(map(repr, names))


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file.

    Raises:
        UsageError: The file cannot be read; the text names the line.
        MissingExtraError: The file is a Parquet file, and pyarrow is not installed.
    """
    kinds = [suffix for suffix in path.suffixes if suffix != ".gz"]
    kind = kinds[-1].lower() if kinds else ""
    try:
        if kind == ".parquet":
            yield from _parquet(path)
        elif kind in (".csv", ".tsv", ".txt"):
            yield from _table(path, "," if kind == ".csv" else "\t")
        else:
            yield from _json(path)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from error


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
        raise row.error(fault_of(error, "the row")) from error


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
            yield Row(_without_nan(fields), f"hf:{name} {split}, row {number}", number)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"hf:{name}: {' '.join(str(error).split())[:200]}") from error


def langsmith_rows(name: str) -> Iterator[Row]:
    """Yield the examples of a LangSmith data set, with inputs and outputs as fields of one row.

    Raises:
        UsageError: There is no such data set, or LangSmith refuses.
    """
    from langsmith import Client
    from langsmith.utils import LangSmithError

    try:
        for number, example in enumerate(Client().list_examples(dataset_name=name), 1):
            fields = {**(example.inputs or {}), **(example.outputs or {}), "id": str(example.id)}
            yield Row(fields, f"langsmith:{name}, example {number}", number)
    except LangSmithError as error:
        raise UsageError(f"langsmith:{name}: {' '.join(str(error).split())}") from error


def open_text(path: Path) -> io.TextIOBase:
    """Open a text file, which may be compressed.

    Raises:
        UsageError: There is no such file.
    """
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    raw = (gzip.open if path.suffix == ".gz" else open)(path, "rb")
    return io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def _json(path: Path) -> Iterator[Row]:
    with open_text(path) as file:
        start = file.read(4096).lstrip()[:1]
        file.seek(0)
        if start == "[" or (start == "{" and _is_one_object(file)):
            yield from _document(path, file.read())
        else:
            yield from _lines(path, file)


def _is_one_object(file: io.TextIOBase) -> bool:
    """Return whether a file is one object over several lines, not one object per line."""
    first = next(filter(str.strip, file), "")
    file.seek(0)
    try:
        json.loads(first)
    except ValueError:
        return True
    return False


def _document(path: Path, text: str) -> Iterator[Row]:
    value = _parsed(text, str(path))
    many = isinstance(value, list)
    for number, item in enumerate(value if many else [value], 1):
        where = f"{path}: row {number}" if many else str(path)
        yield Row(_checked(item, where), where, number)


def _lines(path: Path, file: io.TextIOBase) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if line.strip():
            where = f"{path}:{number}"
            yield Row(_checked(_parsed(line, where), where), where, number)


def _parsed(text: str, where: str) -> Any:
    try:
        return json_value(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: is not JSON: {error}") from error


def json_value(text: str) -> Any:
    """Return what a JSON text says, with null for NaN and Infinity, which are not JSON."""
    return json.loads(text, parse_constant=lambda _name: None)


def _without_nan(value: Any) -> Any:
    """Return a value with None for each NaN: pandas writes missing texts so."""
    if isinstance(value, Mapping):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list):
        return [*map(_without_nan, value)]
    return None if isinstance(value, float) and math.isnan(value) else value


def _checked(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: must be an object, not {_kind(value)}")
    return value


def _table(path: Path, separator: str) -> Iterator[Row]:
    with open_text(path) as file:
        table = csv.DictReader(file, delimiter=separator)
        for number, fields in enumerate(table, 1):
            where = f"{path}:{table.line_num}"
            if None in fields:
                raise UsageError(f"{where}: has more cells than the header")
            yield Row({name: text for name, text in fields.items() if text}, where, number)


def _parquet(path: Path) -> Iterator[Row]:
    need("A Parquet file", "hub", "pyarrow")
    from pyarrow.parquet import ParquetFile

    number = 0
    for batch in ParquetFile(path).iter_batches():
        for fields in batch.to_pylist():
            number += 1
            yield Row(_without_nan(fields), f"{path}: row {number}", number)


def _kind(value: Any) -> str:
    names = {str: "a text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), "an object" if isinstance(value, Mapping) else "a list")
