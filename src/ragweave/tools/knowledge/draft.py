"""The next generation of a knowledge base's passages, while it is being written, in SQLite.

A row that only this generation sees is nobody's before the manifest names the generation.
"""

from __future__ import annotations

import json
import os
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ragweave.state.passages import heading_of, whole
from ragweave.tools.knowledge.manifest import Skip
from ragweave.tools.knowledge.markup import UnreadableError
from ragweave.tools.knowledge.store import NEVER


class Passage(NamedTuple):
    """A passage as it goes into the store."""

    id: str
    content: str
    """Key of what is embedded, title and text."""
    document: str | None
    """Id that the source gives to the whole text."""
    place: int
    """Order within the source."""
    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A file, a web page, or a name under which documents were added."""

    key: str
    """Absolute path of a file, address of a page, or `added:` and the name."""
    name: str
    """The source as passages cite it."""
    kind: str
    """`file`, `page` or `added`."""
    size: int = 0
    mtime: int = 0
    """Nanoseconds."""
    hash: str = ""
    skips: tuple[Skip, ...] = ()


class Draft:
    """Rows that only `generation` sees; `changed` tells whether there are any."""

    def __init__(
        self,
        database: sqlite3.Connection,
        generation: int,
        stored: Callable[[Sequence[int]], dict[int, str]] | None = None,
    ) -> None:
        """Undo what an unfinished write left, and begin a transaction.

        Args:
            database: The passages and their sources.
            generation: The one to write.
            stored: Gives the metadata of rows, as JSON, where the database holds their keys alone.
        """
        self._database = database
        self._stored = stored or (lambda _rows: {})
        self.generation = generation
        self.changed = False
        self._do("BEGIN IMMEDIATE")
        for table in ("sources", "passages"):
            self._do(f"DELETE FROM {table} WHERE added >= ?", generation)  # noqa: S608
            self._do(
                f"UPDATE {table} SET removed = {NEVER} WHERE removed >= ? AND removed < {NEVER}",  # noqa: S608
                generation,
            )

    def sources(self, kind: str) -> dict[str, Source]:
        """Return the sources of a kind by key."""
        rows = self._do(
            "SELECT key, name, kind, size, mtime, hash, skips FROM sources "
            "WHERE kind = ? AND removed > ? ORDER BY key",
            *(kind, self.generation),
        )
        return {
            row[0]: Source(
                *(row[0], row[1], row[2], row[3], row[4], row[5]),
                skips=tuple(Skip(*skip) for skip in json.loads(row[6])),
            )
            for row in rows
        }

    def touch(self, source: Source) -> None:
        """Note a new time of change of an unchanged file; no new generation for that."""
        self._do(
            "UPDATE sources SET mtime = ?, size = ? WHERE key = ? AND removed > ?",
            *(source.mtime, source.size, source.key, self.generation),
        )

    def add_source(self, source: Source) -> None:
        """Add a source, replacing an older state of it; its passages stay."""
        self._drop("sources", "key = ?", source.key)
        skips = json.dumps([[skip.path, skip.reason, skip.line] for skip in source.skips])
        self._do(
            "INSERT INTO sources (key, name, kind, size, mtime, hash, skips, added) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(source.key, source.name, source.kind, source.size, source.mtime, source.hash),
            *(skips, self.generation),
        )
        self.changed = True

    def mark_stale(self, key: str) -> None:
        """Mark a source to be read again, though its file looks unchanged."""
        self._do("UPDATE sources SET hash = '', mtime = 0 WHERE key = ?", key)

    def remove_source(self, key: str) -> None:
        """Remove a source and its passages."""
        self._drop("sources", "key = ?", key)
        self._drop("passages", "source = ?", key)

    def add_passages(self, key: str, passages: Iterable[Passage]) -> list[str]:
        """Add passages of a source and return their ids.

        An id that another text already has is distinguished by the content: `id~content`.
        """
        ids = []
        for one in passages:
            ids.append(self._free_id(one))
            self._do(
                "INSERT INTO passages (id, content, document, source, place, text, metadata, added) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                *(ids[-1], one.content, one.document, key, one.place, one.text),
                *(_json(one.metadata), self.generation),
            )
            self.changed = True
        return ids

    def remove_documents(self, ids: Sequence[str], key: str | None = None) -> int:
        """Remove passages by their id or their document's, in one source or in all."""
        where = "(id = ? OR document = ?)" + ("" if key is None else " AND +source = ?")
        extra = () if key is None else (key,)
        named = map(whole, ids)
        return sum(self._drop("passages", where, one, one, *extra) for one in named)

    def next_place(self, key: str) -> int:
        """Return the place after every passage that a source has had."""
        found = self._do("SELECT MAX(place) FROM passages WHERE source = ?", key).fetchone()[0]
        return 0 if found is None else int(found) + 1

    def held(self, key: str, one: Passage) -> str | None:
        """Return the id of the passage of this content and document in a source, if it is there."""
        # The plus signs keep the planner to the index on content: a source may hold millions.
        found = self._do(
            "SELECT id FROM passages "
            "WHERE +source = ? AND content = ? AND +document IS ? AND removed > ? ORDER BY +place",
            *(key, one.content, one.document, self.generation),
        ).fetchone()
        return None if found is None else str(found[0])

    def same_document(
        self, key: str, document: str, passages: Sequence[Passage]
    ) -> list[str] | None:
        """Return the ids of a document's passages in a source, if they are these, in this order."""
        rows = self._do(
            "SELECT row, id, content, metadata FROM passages "
            "WHERE +source = ? AND document = ? AND removed > ? ORDER BY place, row",
            *(key, document, self.generation),
        ).fetchall()
        if [row[2] for row in rows] != [one.content for one in passages]:
            return None
        metadata = {row[0]: row[3] for row in rows}
        metadata |= self._stored(list(metadata))
        given = [_json(one.metadata) for one in passages]
        same = all(map(_same_values, metadata.values(), given))
        return [row[1] for row in rows] if same else None

    def remove_named(self, name: str) -> int:
        """Remove the sources of this name, or path, with their passages; return how many."""
        named, path = whole(name), whole(os.path.abspath(name))  # noqa: PTH100 - links stay
        found = "SELECT key FROM sources WHERE (name = ? OR key = ?) AND removed > ?"
        keys = self._do(found, named, named, self.generation).fetchall()
        keys = keys or self._do(found, path, path, self.generation).fetchall()
        for (key,) in keys:
            self.remove_source(key)
        return len(keys)

    def distinct(self) -> Distinct:
        """Return the distinct passages."""
        return Distinct(self._database, self.generation)

    def contents(self) -> list[str]:
        """Return the distinct contents, in passage order."""
        query = "SELECT content FROM passages WHERE removed > ? ORDER BY source, place"
        return list(dict.fromkeys(row[0] for row in self._do(query, self.generation)))

    def texts(self, contents: Sequence[str]) -> list[str]:
        """Return what is embedded of each content: title and text."""
        query = "SELECT text, metadata FROM passages WHERE content = ? AND removed > ? LIMIT 1"
        return [titled(*self._do(query, one, self.generation).fetchone()) for one in contents]

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Roll back everything done within the block if it raises an UnreadableError."""
        before = self.changed
        self._do("SAVEPOINT attempt")
        try:
            yield
        except UnreadableError:
            self._do("ROLLBACK TO attempt")
            self.changed = before
            raise
        finally:
            self._do("RELEASE attempt")

    def commit(self) -> None:
        """Commit the draft to the database; no reader uses it yet."""
        self._do("COMMIT")

    def _drop(self, table: str, where: str, *values: object) -> int:
        dropped = self._do(
            f"UPDATE {table} SET removed = ? WHERE {where} AND removed > ?",  # noqa: S608
            *(self.generation, *values, self.generation),
        ).rowcount
        self.changed = self.changed or dropped > 0
        return int(dropped)

    def _free_id(self, one: Passage) -> str:
        taken = self._do(
            "SELECT 1 FROM passages WHERE id = ? AND content != ? AND removed > ? LIMIT 1",
            *(one.id, one.content, self.generation),
        ).fetchone()
        return f"{one.id}~{one.content[:8]}" if taken else one.id

    def _do(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._database.execute(statement, values)


def _json(metadata: dict[str, Any]) -> str:
    return whole(json.dumps(metadata, ensure_ascii=False, default=str))


def _same_values(one: str, other: str) -> bool:
    """Return whether two JSON objects hold the same, in whatever order; NaN is NaN."""
    first, second = (json.dumps(json.loads(text), sort_keys=True) for text in (one, other))
    return first == second


class Distinct:
    """The passages of a generation without those whose id came before: what BM25 numbers."""

    def __init__(self, database: sqlite3.Connection, generation: int) -> None:
        """Take a connection; nothing is read yet."""
        self._database = database
        self._seen = "added <= :g AND removed > :g"
        self._values = {"g": generation}
        self.rows = array("q")
        """The rows of what `texts` has given so far."""

    def __len__(self) -> int:
        """Count them."""
        query = f"SELECT COUNT(DISTINCT id) FROM passages WHERE {self._seen}"  # noqa: S608
        return int(self._database.execute(query, self._values).fetchone()[0])

    def texts(self) -> Iterator[str]:
        """Give what is indexed of each, in order of source and place."""
        earlier = (
            f"SELECT 1 FROM passages WHERE id = one.id AND {self._seen} "  # noqa: S608
            "AND (source, place, row) < (one.source, one.place, one.row)"
        )
        query = (
            f"SELECT row, text, metadata FROM passages AS one WHERE {self._seen} "  # noqa: S608
            f"AND NOT EXISTS ({earlier}) ORDER BY source, place, row"
        )
        for row, text, metadata in self._database.execute(query, self._values):
            self.rows.append(row)
            yield titled(text, metadata)


def titled(text: str, metadata: str) -> str:
    """Return what is indexed of a passage: its title and headings, where it has any, and its text."""
    title = heading_of(json.loads(metadata))
    return f"{title}\n{text}" if title else text


def contents_of(database: sqlite3.Connection, rows: Iterable[int]) -> list[str]:
    """Return the contents of rows, in their order; rows that are gone are left out."""
    query = "SELECT content FROM passages WHERE row = ?"
    return [content for row in rows for (content,) in database.execute(query, (row,))]


def purge(database: sqlite3.Connection, generation: int) -> list[str]:
    """Delete rows that neither `generation` nor the one before it sees.

    Returns:
        The contents that no row has any more.
    """
    old = "FROM passages WHERE removed < ?"
    contents = {row[0] for row in database.execute(f"SELECT content {old}", (generation,))}
    database.execute(f"DELETE {old}", (generation,))
    database.execute("DELETE FROM sources WHERE removed < ?", (generation,))
    query = "SELECT 1 FROM passages WHERE content = ? LIMIT 1"
    return sorted(one for one in contents if not database.execute(query, (one,)).fetchone())
