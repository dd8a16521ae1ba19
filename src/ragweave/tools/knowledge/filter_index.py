"""The index of filters in a folder: two SQLite tables, so that a document's values cost what the document has.

A condition becomes an array of flags, one a passage, by a range of the index for each of its tests.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweave.tools.knowledge.filters import (
    INTERNAL,
    Condition,
    Count,
    Every,
    Has,
    Kind,
    Not,
    Some,
    shown,
    stored_values,
)

TABLES = """
CREATE TABLE fields (id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, UNIQUE (name, kind));
CREATE TABLE field_values (field INTEGER NOT NULL, value, passage INTEGER NOT NULL,
    PRIMARY KEY (field, value, passage)) WITHOUT ROWID;
CREATE INDEX field_values_by_passage ON field_values (passage);
CREATE TRIGGER forget_values AFTER DELETE ON passages BEGIN
    DELETE FROM field_values WHERE passage = old.id;
END;
"""
"""The values of passages by field and kind, except `source` and `folder`, which sources have."""
Flags = NDArray[np.bool_]
_TEST = "SELECT group_concat(v.passage) FROM fields f JOIN field_values v ON v.field = f.id WHERE f.name = ?"
_OF_SOURCES = "SELECT group_concat(p.id) FROM sources s JOIN passages p ON p.source = s.id WHERE "
# One text of numbers is read by numpy in a third of the time that a row each would take.


def add_values(db: sqlite3.Connection, passages: Iterable[tuple[int, str, Mapping[str, Any]]]) -> None:
    """Add the values of passages: row, text and metadata; the rows must be new."""
    fields = {(name, kind): field for field, name, kind in db.execute("SELECT id, name, kind FROM fields")}
    values: set[tuple[int, Any, int]] = set()
    for row, _, meta in passages:
        for name, kinds in stored_values({k: v for k, v in meta.items() if k not in INTERNAL}).items():
            for kind, items in kinds.items():
                field = fields.setdefault((name, kind), len(fields) + 1)
                values.update((field, item, row) for item in items)
    rows = ((field, name, kind) for (name, kind), field in fields.items())
    db.executemany("INSERT OR IGNORE INTO fields VALUES (?, ?, ?)", rows)
    db.executemany("INSERT INTO field_values VALUES (?, ?, ?)", sorted(values))


def passing(db: sqlite3.Connection, condition: Condition, rows: NDArray[np.int64]) -> Flags:
    """Return which of all passages pass a condition; `rows` are their row ids, ascending."""
    if isinstance(condition, Every | Some):
        join, start = (np.logical_and, True) if isinstance(condition, Every) else (np.logical_or, False)
        flags = np.full(len(rows), start)
        for part in condition.of:
            join(flags, passing(db, part, rows), out=flags)
        return flags
    if isinstance(condition, Not):
        return ~passing(db, condition.of, rows)
    there = np.zeros(int(rows[-1]) + 1 if len(rows) else 0, bool)
    for numbers in _tested(db, condition):
        there[np.fromstring(numbers, np.int64, sep=",")] = True
    return there[rows]


def _tested(db: sqlite3.Connection, test: Has) -> list[str]:
    """Return the row ids that pass a test, as texts of numbers with commas between them."""
    queries: list[tuple[str, tuple[Any, ...]]]
    if test.op == "?" and test.name == "folder":
        queries = [(f"{_OF_SOURCES} instr(replace(ltrim(s.key, '/\\'), '\\', '/'), '/')", ())]
    elif test.op == "?" and test.keys:
        queries = [(f"{_TEST} AND f.kind = ?", (test.name, kind)) for kind, _ in test.keys]
    elif test.op == "?":
        queries = [(f"{_OF_SOURCES} true", ()) if test.name == "source" else (_TEST, (test.name,))]
    elif test.name == "source":
        queries = [(f"{_OF_SOURCES} s.key = ?", (value,)) for _, value in test.keys]
    elif test.name == "folder":
        within = f"{_OF_SOURCES} s.key > ? AND s.key < ?"
        paths = [str(value) for _, value in test.keys if not str(value).endswith(("/", "\\"))]
        queries = [(within, (path + mark, path + chr(ord(mark) + 1))) for path in paths for mark in "/\\"]
    else:
        queries = [(f"{_TEST} AND f.kind = ? AND v.value {test.op} ?", (test.name, *key)) for key in test.keys]
    return [numbers for query in queries for (numbers,) in db.execute(*query) if numbers]


_SEEN = "(:seen IS NULL OR v.passage IN (SELECT value FROM json_each(:seen)))"
_VALUES = f"FROM fields f JOIN field_values v ON v.field = f.id WHERE {_SEEN} AND f.name = coalesce(nullif(:name, ''), f.name)"


def kinds_of(db: sqlite3.Connection, name: str, seen: str | None) -> dict[Kind, Any]:
    """Return the kinds of the values that passages have in a field, each with a value; `seen`: rows as JSON, None for all."""
    sql = f"SELECT f.kind, (SELECT v.value FROM field_values v WHERE v.field = f.id AND {_SEEN} LIMIT 1) FROM fields f WHERE name = :name"  # noqa: S608
    rows = db.execute(sql, {"name": name, "seen": seen})
    return {kind: shown((kind, value)) for kind, value in rows if value is not None}


def counted_of(db: sqlite3.Connection, name: str, seen: str | None) -> Iterator[Count]:
    """Yield the values that passages have; those of one field, unless the name is ""."""
    for value, count in (("v.value", "count(*)"), ("NULL", "count(DISTINCT v.passage)")):
        query = f"SELECT f.name, f.kind, {value}, {count} {_VALUES} GROUP BY f.id, 3"
        yield from db.execute(query, {"name": name, "seen": seen})
