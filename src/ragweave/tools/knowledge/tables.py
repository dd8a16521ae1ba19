"""Tables: the rows and documents of a knowledge base or view, typed, in a database of their own, and one SELECT over them.

A loader keeps the cells of a row in its passage's metadata, so that tables are built from nothing but the passages that a
reader may see. What a model's query could do beyond reading them, it can't do here: the database holds nothing else, and
an authorizer allows a SELECT over its tables with SQLite's plain functions, within limits of steps, seconds and bytes.

A column is INTEGER, REAL, DATE or BOOLEAN if nine in ten of its values are, else TEXT, which is compared without regard
to case. A value of another kind (`on request` among prices) is NULL, and counted: SQLite would sort it above every
number and add it as 0. NULL comes last also where the least value comes first. If three in ten values of a text column
are numbers or dates, a second column has those: `size_number`. A unit that all values share goes into the column's
description. `00123`, amounts in several units, and dates such as 03/04/2024, unless a value of the column tells day and
month apart, stay texts.
"""

import csv
import difflib
import json
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from math import isfinite
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.errors import UsageError
from ragweave.state.passages import encodable
from ragweave.tools.files import ClosingConnection
from ragweave.tools.knowledge.chunking import TABLE
from ragweave.tools.knowledge.loaders.text import RESERVED
from ragweave.tools.retrieval.retrievers import Bm25Retriever, DenseRetriever, fused
from ragweave.tools.text.numbers import CODES, iso_date
from ragweave.tools.text.untrusted import one_line

DOCUMENTS = "documents"
"""The table with a row for each document that is not itself a row: its file, folder, title and metadata."""
MAX_ROWS, MAX_CHARACTERS = 200, 20_000
"""Rows and characters of a result that are returned."""
_MAX_STEPS, _MAX_SECONDS = 20_000_000, 5.0
"""Steps of SQLite's machine, and seconds, that a query may take."""
_MAX_COLUMNS, _DESCRIBED = 200, 40
"""Columns of a table, those that most rows have; and columns that are described with their values."""
_FITS, _FITS_IN_PART = 0.9, 0.3
"""Share of a column's values that must be of its type, and of those that get a second column."""
_SAMPLE = 300
"""Values that tell whether a column may have amounts, or dates."""
_LISTED, _SHOWN = 12, 40
"""Values of a text column that its description lists if there are no more, and characters of each."""
_COMPARED = 1_000
"""Values of a column that are compared with a text that no row has."""
_ABSENT = frozenset(("", "-", "–", "—", "n/a", "n.a.", "na", "nan", "null", "none", "unknown", "tbd", "?", "."))
"""Cells without a value in a column that is not of texts, where NA may be Namibia."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_CHARACTERS,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 5_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_FUNCTIONS = frozenset(
    re.findall(
        r"\w+",
        "abs avg ceil ceiling coalesce count date datetime floor glob group_concat ifnull iif instr julianday length like "
        "lower ltrim max min nullif replace round rtrim sign strftime substr substring sum time total trim typeof unixepoch "
        "upper row_number rank dense_rank percent_rank ntile lag lead first_value last_value cume_dist nth_value",
    )
)


class QueryError(UsageError):
    """A query cannot be run; the text says why, to whoever wrote it."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: str
    unread: int
    """Values that are not of its type."""
    description: str
    """Its line of the table's description."""
    amounts: str = ""
    """For texts of which some are numbers or dates: the column that has these."""


class Table(NamedTuple):
    """A table, as queries name it."""

    name: str
    columns: tuple[Column, ...]
    description: str
    """Its CREATE statement, with what each column holds."""


class Result(NamedTuple):
    """What a query returned, and which rows it was computed from."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_cut: bool
    """Whether there are more rows."""
    table: str
    """The table that it was computed from; "" if the query's form does not tell."""
    numbers: Sequence[int]
    """The numbers of the rows that it was computed from, by which `Tables.passages` returns them."""
    unread: Sequence[str]
    """What is left out, though the query does not say so: values that are not of their column's type."""


# ---- types

_PLAIN = re.compile(r"[+-]?(\d+|\d{1,3}([,' \u00a0\u202f]\d{3})+)(\.\d+)?([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}([. '\u00a0\u202f]\d{3})+)(,\d+)?")
_AMOUNT = re.compile(
    rf"(?P<sign>[-+−]?)(?P<before>[$€£¥₹₽₩]|R\$|kr\.?|Rs\.?|(?:EUR|USD|GBP|JPY|{CODES})\b)?\s*"
    r"(?P<number>[+-]?\d[\d.,' \u00a0\u202f]*(?:[eE][+-]?\d+)?)"
    r"(?P<after>\s+[^\W\d_][^\W\d_./²³-]{0,11}|\s*(?:[%‰€$£¥]|°[CF]?|[kmcµn]?[mgsWVAJlL]|k[mWg]h?|km/h|m/s|m[²³23]|[kKMGT]i?B"
    r"|[kM]?[bB]it|ft|in|lbs?|oz|min|hrs?|h|d|x))?"
)
"""A sign, a currency, a number, and a unit: a word after a space, or a known one. `1xx` and `Wine 9` are names."""
_SLASHED = re.compile(r"(\d{1,2})([/-])(\d{1,2})\2(\d{4})")


def _amount(text: str, *, comma: bool) -> tuple[float | int, str] | None:
    """Return the number and the unit of a cell; None if it is not an amount. `comma`: 1.234 is a thousand."""
    if text.startswith("(") and text.endswith(")") and (inner := _amount(text[1:-1], comma=comma)):
        return -inner[0], inner[1]  # as accounts write it
    if (parts := _AMOUNT.fullmatch(text)) is None:
        return None
    number = parts["number"].strip()
    if not comma and _PLAIN.fullmatch(number):
        number = number.replace(",", "")
    elif _COMMA.fullmatch(number) and (comma or "," in number):
        number = number.replace(".", "").replace(",", ".")
    else:
        return None
    number = re.sub(r"[' \u00a0\u202f]", "", number)
    if re.fullmatch(r"[+-]?(0\d+|\d{16,})", number) or not isfinite(float(number)):
        return None  # 00123, or the number of an account
    value = float(number) if re.search(r"[.eE]", number) else int(number)
    unit = " ".join(filter(None, [parts["before"], (parts["after"] or "").strip()]))
    return (-value if parts["sign"] in ("-", "−") else value), unit


def _amounts(texts: Sequence[str]) -> tuple[dict[str, float | int], str]:
    """Return the numbers of the texts that are amounts in the commonest unit or in none, and that unit."""
    numbers = [parts["number"].strip() for text in texts if (parts := _AMOUNT.fullmatch(text))]
    telling = (number for number in numbers if "," in number or number.count(".") == 2)  # an IP address has three
    comma = any(_COMMA.fullmatch(number) and not _PLAIN.fullmatch(number) for number in telling)
    comma = comma and not any(re.fullmatch(r"[+-]?[\d,]+\.(\d{1,2}|\d{4,})", number) for number in numbers)
    amounts = {text: amount for text in {*texts} if (amount := _amount(text, comma=comma))}
    units = Counter(amounts[text][1] for text in texts if text in amounts and amounts[text][1])
    unit = next((unit for unit, _ in units.most_common(1)), "")
    return {text: value for text, (value, own) in amounts.items() if own in (unit, "")}, unit


def _dates(texts: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the dates of the texts that are dates, as 2024-03-31 or 2024-03-31 12:00:00, and no unit.

    Those with slashes are dates if some tell where the month stands.
    """
    slashed = {text: parts for text in {*texts} if (parts := _SLASHED.fullmatch(text))}
    day_first, month_first = (any(int(parts[at]) > 12 for parts in slashed.values()) for at in (1, 3))
    days = {text: iso_date(text) for text in {*texts} - {*slashed}}
    for text, parts in slashed.items() if day_first != month_first else ():
        year, month, day = (int(parts[at]) for at in ((4, 3, 1) if day_first else (4, 1, 3)))
        with suppress(ValueError):  # 31/02/2024
            days[text] = date(year, month, day).isoformat()
    return {text: day[:19].replace("T", " ") for text, day in days.items() if len(day) >= 10}, ""


def typed(values: Sequence[Any], share: float = _FITS) -> tuple[str, str, int, list[Any]]:
    """Return a column's type, its unit, how many values are not of that type, and its values as SQLite stores them."""
    texts = [_text(value) for value in values]
    known = [text for text in texts if text.lower() not in _ABSENT]
    if known and {text.lower() for text in known} <= {"true", "false"}:
        flags = [None if text.lower() in _ABSENT else int(text.lower() == "true") for text in texts]
        return "BOOLEAN", "", 0, flags
    readers: tuple[Callable[[Sequence[str]], tuple[dict[str, Any], str]], ...] = (_amounts, _dates)
    for reader in readers:
        if reader(known[:: max(len(known) // _SAMPLE, 1)])[0]:  # of a long column of names, few are tried
            read, unit = reader(known)
            fitting = sum(text in read for text in known)
            if fitting >= share * len(known):
                is_whole = all(isinstance(value, int) for value in read.values())
                kind = "DATE" if reader is _dates else "INTEGER" if is_whole else "REAL"
                return kind, unit, len(known) - fitting, [read.get(text) for text in texts]
    return "TEXT", "", 0, [text or None for text in texts]


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "" if value is None else encodable(str(value)).strip()


# ---- which tables there are

_Rows = list[tuple[int, dict[str, Any]]]
"""The rows of a table: the number of each one's passage, and its cells by column."""


def _cells(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the own fields of a passage; those with reserved names have an underscore in its metadata."""
    own = {name: value for name, value in metadata.items() if name not in RESERVED or (name == "title" and value)}
    if TABLE in metadata and metadata.get("date_from", "field") != "field":
        del own["date"]  # that of its file
    return {name[:-1] if name[-1:] == "_" and name[:-1] in RESERVED else name: own[name] for name in own}


def _grouped(passages: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[str, _Rows]]:
    """Yield the tables of passages, given by number and metadata, with their names."""
    parts, documents = dict[PurePath, dict[tuple[str, int], _Rows]](), _Rows()
    for number, metadata in passages:
        path, cells = PurePath(metadata["source"], metadata.get("member") or ""), _cells(metadata)
        if TABLE in metadata:
            table = " ".join(map(str, metadata.get("heading_path") or ())), metadata[TABLE]
            parts.setdefault(path, {}).setdefault(table, []).append((number, cells))
        else:
            documents.append((number, {"file": path.name, "folder": _folder(path), **cells}))
    alike: dict[str, list[_Part]] = {}
    for path, tables in parts.items():
        for (sheet, _), rows in tables.items():
            place = {"folder": _folder(path), "file": path.name, "sheet": sheet}
            name = f"{path.name.partition('.')[0]} {sheet if len(tables) > 1 else ''}".strip()
            stem = re.sub(r"[\W\d_]+", " ", name).strip() or name
            alike.setdefault(stem, []).append(_Part(name, place, rows, frozenset(_labels(rows))))
    for stem, similar in alike.items():
        yield from _joined(stem, similar)
    if documents:
        yield DOCUMENTS, documents


def _folder(path: PurePath) -> str:
    return "/".join(path.parent.parts[-2:])


class _Part(NamedTuple):
    name: str
    place: dict[str, str]
    rows: _Rows
    labels: frozenset[str]


def _joined(stem: str, parts: Sequence[_Part]) -> Iterator[tuple[str, _Rows]]:
    """Yield the tables of parts whose names differ in digits alone, such as those of twelve months.

    Those with the same columns are one table, where columns `folder`, `file` and `sheet` tell them apart.
    """
    while parts:
        labels = parts[0].labels
        same = [part for part in parts if labels <= part.labels or labels >= part.labels]
        several = [label for label in ("folder", "file", "sheet") if len({part.place[label] for part in same}) > 1]
        rows = [(n, {label: part.place[label] for label in several} | row) for part in same for n, row in part.rows]
        yield same[0].name if len(same) == 1 else stem, rows
        parts = [part for part in parts if part not in same]


def _labels(rows: _Rows) -> list[str]:
    """Return the columns of rows; of too many, the most frequent."""
    counts = Counter(label for _, row in rows for label in row)
    frequent = {label for label, _ in counts.most_common(_MAX_COLUMNS)}
    return [label for label in counts if label in frequent]


# ---- the database


class Tables:
    """The tables of one reader at one state of a knowledge base; safe to use from threads."""

    def __init__(self, documents: Iterable[Sequence[Document]]) -> None:
        """Build the tables of documents, given as their passages; the first one stands for all."""
        # Both are in memory, or in files without a name where they grow.
        how: Any = {"isolation_level": None, "check_same_thread": False, "cached_statements": 0}
        self._db, self._passages = (sqlite3.connect("", factory=ClosingConnection, **how) for _ in range(2))
        self._lock = threading.Lock()
        metadata: list[tuple[int, Mapping[str, Any]]] = []
        self._passages.execute("CREATE TABLE passages (number INTEGER PRIMARY KEY, value TEXT)")
        self._passages.execute("BEGIN")
        for number, (first, *_) in enumerate(documents, 1):
            value = json.dumps([first.id, first.page_content, first.metadata], default=str)
            self._passages.execute("INSERT INTO passages VALUES (?, ?)", (number, value))
            metadata.append((number, first.metadata))
        self._passages.execute("COMMIT")
        self._near: DenseRetriever | None = None
        self.tables: list[Table] = []
        for name, rows in _grouped(metadata):
            self.tables.append(self._filled(name, rows))
        for limit, most in _LIMITS.items():
            self._db.setlimit(limit, most)
        self._db.set_authorizer(self._allows)
        self._db.set_progress_handler(lambda: True, _MAX_STEPS)

    def _filled(self, name: str, rows: _Rows) -> Table:
        name = self._identifier(name, [table.name for table in self.tables])
        columns, values = list[Column](), list[list[Any]]()

        def add(label: str, own: str, kind: str, unit: str, unread: int, stored: list[Any]) -> None:
            own = self._identifier(own, [column.name for column in columns])
            columns.append(_column(label, own, kind, unit, unread, stored))
            values.append(stored)

        for label in _labels(rows):
            cells, place = [row.get(label) for _, row in rows], len(columns)
            whole, part = typed(cells), typed(cells, _FITS_IN_PART)
            add(label, label, *whole)
            if whole[0] == "TEXT" != part[0]:
                add(label, f"{label}_{'date' if part[0] == 'DATE' else 'number'}", *part)
                columns[place] = columns[place]._replace(amounts=columns[-1].name)
        declared = (f'"{c.name}" {c.kind}{" COLLATE NOCASE" * (c.kind == "TEXT")}' for c in columns)
        self._db.execute(f'CREATE TABLE "{name}" ({", ".join(declared)})')
        names, marks = ", ".join(f'"{column.name}"' for column in columns), ", ?" * len(columns)
        insert = f'INSERT INTO "{name}" (rowid, {names}) VALUES (?{marks})'  # noqa: S608 - names of letters and digits
        self._db.execute("BEGIN")
        self._db.executemany(insert, zip((number for number, _ in rows), *values, strict=True))
        self._db.execute("COMMIT")
        lines = [column.description for column in columns[:_DESCRIBED]]
        lines += [f"  {column.name} {column.kind}," for column in columns[_DESCRIBED:]]
        return Table(name, tuple(columns), "\n".join([f"CREATE TABLE {name} ( -- {len(rows)} rows", *lines, ");"]))

    def _identifier(self, label: str, taken: Sequence[str]) -> str:
        """Return a name that SQL takes without quotes."""
        name = re.sub(r"\W+", "_", label.strip().lower()).strip("_")[:60] or "column"
        name = f"c_{name}" if name[0].isdigit() or name.startswith("sqlite_") else name
        try:
            (value,) = self._db.execute(f'SELECT {name} FROM (SELECT 1 AS "{name}")').fetchone()  # noqa: S608 - as above
        except sqlite3.Error:  # a keyword
            value = 0
        name = name if value == 1 and name not in ("rowid", "oid") else f"{name}_"
        numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
        return name if name not in taken else next(other for other in numbered if other not in taken)

    def _allows(self, action: int, first: str | None, second: str | None, _db: str | None, _by: str | None) -> int:
        reads = action == sqlite3.SQLITE_READ and first in {table.name for table in self.tables}
        calls = action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FUNCTIONS
        return sqlite3.SQLITE_OK if reads or calls or action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY

    def run(self, sql: str) -> Result:
        """Run a SELECT, and find the rows that its result was computed from.

        Raises:
            QueryError: It is not one SELECT over these tables, has an error, takes too long, or returns too long a value.
        """
        self._check_numbers(sql)
        rows, size = list[tuple[Any, ...]](), 0
        with self._lock:
            with self._query(sql) as cursor:
                columns = tuple(name for name, *_ in cursor.description)
                for row in cursor:
                    rows.append(row)
                    size += sum(len(str(value)) for value in row)
                    if len(rows) > MAX_ROWS or size > MAX_CHARACTERS:
                        break
            is_cut = len(rows) > MAX_ROWS or size > MAX_CHARACTERS
            name, numbers = self._origin(sql)
        words = {*re.findall(r"\w+", sql.lower())}
        table = next((table for table in self.tables if table.name == name), None)
        unread = [c for c in (table.columns if table else ()) if c.unread and c.name in words]
        texts = [f"{column.unread} values of {column.name}" for column in unread]
        return Result(columns, rows[:-1] if is_cut else rows, is_cut, name, numbers, texts)

    @contextmanager
    def _query(self, sql: str) -> Any:
        """Yield the cursor of a query, within the limits."""
        watch = threading.Timer(_MAX_SECONDS, self._db.interrupt)
        watch.start()
        try:
            if not _SELECT.match(sql):
                raise QueryError("Write one SELECT.")
            yield self._db.execute(_ASCENDING.sub(r"\1 NULLS LAST", sql))
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
            reason = "the query takes too long: write a simpler one" if str(error) == "interrupted" else str(error)
            if missing := re.match(r"no such column: (?:\w+\.)?(\w+)$", reason):
                owners = [t.name for t in self.tables if any(c.name == missing[1].lower() for c in t.columns)]
                reason += f"; it is a column of {', '.join(owners)}" if owners else ""
            raise QueryError(reason) from error
        finally:
            watch.cancel()

    def _check_numbers(self, sql: str) -> None:
        """Refuse to add up texts, of which SQLite takes the digits that they begin with, and to compare them as numbers."""
        named = [table for table in self.tables if re.search(rf"\b{table.name}\b", sql, re.I)]
        columns = {column.name: column for table in named for column in table.columns}
        columns |= {column.name: column for table in named for column in table.columns if column.kind != "TEXT"}
        for name, column in columns.items():
            own = rf'(?:\w+\.)?"?{name}\b"?'
            compared = rf"|\b(?:min|max)\s*\(\s*{own}\s*\)|\bORDER\s+BY\s+{own}|(?<!\w){own}\s*(?:[<>]|BETWEEN\b)"
            use = rf"\b(?:sum|avg|total)\s*\(\s*{own}\s*\){compared if column.amounts else ''}"
            if column.kind == "TEXT" and re.search(use, sql, re.I):
                raise QueryError(f"{name} is TEXT{f': use {column.amounts}' if column.amounts else ''}")

    def _origin(self, sql: str) -> tuple[str, list[int]]:
        """Return the first table of a plain SELECT, and the numbers of the rows that its result was computed from.

        The query is run with the number of the row in the place of its aggregates, or beside what it selects. If it
        selects the greatest or the least value, that row comes first.
        """
        selected, rest, tail = _clauses(sql)
        origin = _ORIGIN.match(rest)
        name = origin[1].lower() if origin else ""
        if origin is None or all(table.name != name for table in self.tables):
            return "", []
        number = f'"{origin[2] or name}".rowid'
        aggregates = _AGGREGATE.search(selected) or re.match("GROUP|HAVING", tail, re.I)
        query = f"SELECT {selected}, {number} {rest} {tail}"
        if aggregates:
            extreme = re.search(r"\b(max|min)\s*\(\s*(\w+)\s*\)", selected, re.I)
            order = f"ORDER BY {extreme[2]} {'DESC' if extreme[1].lower() == 'max' else 'ASC'}" if extreme else ""
            query = f"SELECT DISTINCT {number} {rest} {order}"
        try:
            with self._query(query) as cursor:
                return name, [*dict.fromkeys(row[-1] for row in cursor)]
        except QueryError:
            return "", []

    def nearest(self, question: str, embeddings: Embeddings | None) -> list[Table]:
        """Return all tables, nearest to a question first: by the words of their descriptions, and by vectors if there are any."""
        texts = [Document(table.description.replace("_", " "), id=str(at)) for at, table in enumerate(self.tables)]
        rankings = [Bm25Retriever.from_documents(texts).find(question, len(texts))]
        if embeddings is not None:
            self._near = self._near or DenseRetriever.from_documents(texts, embeddings)
            rankings.append(self._near.find(question, len(texts)))
        places = [int(str(doc.id)) for doc in fused(rankings, len(texts))]
        return [self.tables[at] for at in dict.fromkeys([*places, *range(len(texts))])]

    def hint(self, sql: str) -> str:
        """Return, for each text that a query compares a column with and no row has, the values nearest to it."""
        hints = []
        for name, text in re.findall(r"(\w+)\"?\s*(?:==?|LIKE)\s*'((?:[^']|'')*)'", sql, re.I):
            wanted = text.strip("%").replace("''", "'").lower()
            for table in self.tables:
                is_text = any(column.name == name.lower() and column.kind == "TEXT" for column in table.columns)
                if not is_text or not re.search(rf"\b{table.name}\b", sql, re.I):
                    continue
                query = f'SELECT DISTINCT "{name}" FROM "{table.name}" WHERE "{name}" IS NOT NULL'  # noqa: S608
                values = dict[str, str]()
                with suppress(QueryError), self._lock, self._query(query) as cursor:  # there may be too many to read
                    values = {value.lower(): value for (value,) in cursor}
                if values and not any(wanted in value for value in values):
                    near = difflib.get_close_matches(wanted, [*values][:_COMPARED], 5, 0.4) or [*values][:8]
                    shown = ", ".join(one_line(values[value])[:_SHOWN] for value in near)
                    hints.append(f"No {name} is '{wanted}'; there are: {shown}.")
        return " ".join(hints)

    def passages(self, numbers: Sequence[int]) -> list[Document]:
        """Return the passages of rows, in the given order."""
        sql = "SELECT value FROM passages WHERE number = ?"
        with self._lock:
            values = [self._passages.execute(sql, (number,)).fetchone()[0] for number in numbers]
        return [Document(text, id=name, metadata=meta) for name, text, meta in map(json.loads, values)]

    def save(self, sql: str, path: Path) -> int:
        """Write the rows that a query's result was computed from to a CSV file, as their files have them.

        Returns:
            How many rows were written; without a file 0, if there are none or the query's form does not tell them.

        Raises:
            QueryError: The query cannot be run.
        """
        docs = self.passages(self.run(sql).numbers)
        rows = [_cells(doc.metadata) for doc in docs]
        if not rows:
            return 0
        names = [*dict.fromkeys(name for row in rows for name in row)]
        with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
            writer = csv.writer(file)
            writer.writerow([*map(_as_text, names), "source"])
            for row, doc in zip(rows, docs, strict=True):
                writer.writerow([*(_as_text(row.get(name)) for name in names), doc.metadata["source"]])
        return len(rows)


def _as_text(cell: Any) -> Any:
    """Return a cell that Excel does not compute: what begins like a formula, and is not an amount, gets an apostrophe."""
    is_formula = isinstance(cell, str) and _FORMULA.match(cell) and not _AMOUNT.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


_FORMULA = re.compile(r"[=+@\t\r-].", re.S)
_SELECT = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH)\b", re.I | re.S)
_AGGREGATE = re.compile(r"\b(count|sum|avg|total|min|max|group_concat)\s*\(|\bDISTINCT\b", re.I)
_COLUMN = r'(?:\w+\.)?(?:\w+|"[^"]+")'
_ASCENDING = re.compile(
    rf"(\bORDER\s+BY\s+(?:\w+\(\s*{_COLUMN}\s*\)|{_COLUMN}))(?:\s+ASC\b)?(?=\s*(?:[,);]|LIMIT\b|\Z))", re.I
)
"""Order by a column, its least value first: for SQLite, a missing value would be the least."""
_ORIGIN = re.compile(
    r'FROM\s+"?(\w+)"?(?:\s+(?:AS\s+)?(?!(?:WHERE|JOIN|LEFT|INNER|CROSS|NATURAL|ON|AS)\b)"?([^\W\d]\w*)"?)?', re.I
)
_TOKENS = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[();]|\w+", re.S)
_CLAUSES = frozenset(re.findall(r"\w+|;", "SELECT FROM GROUP HAVING ORDER LIMIT WINDOW UNION EXCEPT INTERSECT WITH ;"))


def _clauses(sql: str) -> tuple[str, str, str]:
    """Split a plain SELECT into what it selects, FROM … WHERE …, and the rest; texts without content for another form."""
    depth, places = 0, list[tuple[int, str]]()
    for token in _TOKENS.finditer(sql):
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0 and token[0].upper() in _CLAUSES:
            places.append((token.start(), token[0].upper()))
    words = [word for _, word in places]
    if words[:2] != ["SELECT", "FROM"] or {"SELECT", "UNION", "EXCEPT", "INTERSECT", "WITH"} & {*words[2:]}:
        return "", "", ""
    ends = [*(at for at, _ in places), len(sql)]
    end = next((at for at, word in places if word == ";"), len(sql))
    return sql[ends[0] + 6 : ends[1]].strip(), sql[ends[1] : ends[2]].strip(), sql[ends[2] : end].strip()


def _column(label: str, name: str, kind: str, unit: str, unread: int, values: Sequence[Any]) -> Column:
    """Return a column with its line of the table's description."""
    known = [value for value in values if value is not None]
    if kind == "TEXT" and known:
        counts = Counter(known)
        texts = [f"'{one_line(value[:_SHOWN])}'" for value, _ in counts.most_common(_LISTED + 1)]
        listed = len(counts) <= _LISTED and len(counts) < len(known)
        example = f"one of: {', '.join(texts)}" if listed else f"such as {', '.join(texts[:3])}"
    else:
        example = f"{min(known)} to {max(known)}" if known else "no values"
    others = f", {unread} values are not of this type" if unread else ""
    label = f" {one_line(label)[:_SHOWN]!r}" if name != label else ""
    unit = f" in {one_line(unit)}" if unit else ""
    return Column(name, kind, unread, f"  {name} {kind}, --{label}{unit} {example}{others}")
