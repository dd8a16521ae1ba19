"""Passages and their sources in SQLite, each row with the generations that can see it.

Generation g sees a row if `added <= g < removed`. A writer gives its rows the next generation,
which no reader uses before the manifest names it (see `draft`).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document

from ragweave.errors import KnowledgeBaseError

NAME = "passages.sqlite"
NEVER = 2**62
_MOST_VALUES = 10_000

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS sources (
    row INTEGER PRIMARY KEY, key TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL,
    size INTEGER, mtime INTEGER, hash TEXT, skips TEXT NOT NULL DEFAULT '[]',
    added INTEGER NOT NULL, removed INTEGER NOT NULL DEFAULT {NEVER});
CREATE TABLE IF NOT EXISTS passages (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, content TEXT NOT NULL, document TEXT,
    source TEXT NOT NULL, place INTEGER NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL,
    added INTEGER NOT NULL, removed INTEGER NOT NULL DEFAULT {NEVER});
CREATE INDEX IF NOT EXISTS source_key ON sources (key);
CREATE INDEX IF NOT EXISTS passage_id ON passages (id);
CREATE INDEX IF NOT EXISTS passage_content ON passages (content);
CREATE INDEX IF NOT EXISTS passage_document ON passages (document);
CREATE INDEX IF NOT EXISTS passage_source ON passages (source, place);
"""


class _Open(NamedTuple):
    """A connection, and the file that it reads."""

    database: sqlite3.Connection
    file: tuple[int, int] | None
    """Device and inode; None where the connection does not see later changes of the file."""


class Store:
    """Connections to one passage database, each used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of the knowledge base; nothing is opened yet."""
        self.path = folder / NAME
        self._idle: list[_Open] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._idle)  # a knowledge base need not be closed

    def make(self) -> None:
        """Make the tables where there are none."""
        self.path.touch()
        with self.writing() as database:
            database.executescript(_SCHEMA)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection for changes; each statement commits unless in BEGIN … COMMIT.

        Raises:
            KnowledgeBaseError: The database is missing.
        """
        if not self.path.exists():  # SQLite would make an empty one
            raise KnowledgeBaseError(
                f"{self.path.parent} is damaged (no {NAME}); delete the folder and index again"
            )
        database = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            yield database
        finally:
            database.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that sees every change made so far.

        Raises:
            KnowledgeBaseError: The database is missing or damaged.
        """
        try:
            lent = self._lend()
            try:
                yield lent.database
            finally:
                self._take_back(lent)
        except sqlite3.Error as error:
            raise KnowledgeBaseError(
                f"{self.path} cannot be read ({error}); delete the knowledge base and index again"
            ) from error

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            _close(self._idle)

    def by_rows(self, rows: Sequence[int]) -> dict[int, Document]:
        """Return the passages of these rows; rows that are gone are left out."""
        found: dict[int, Document] = {}
        with self.reading() as database:
            for part in parts(rows):
                query = (
                    "SELECT row, id, text, metadata, place FROM passages "  # noqa: S608 - only question marks
                    f"WHERE row IN ({marks(part)})"
                )
                for row, *fields in database.execute(query, part):
                    found[row] = _document(*fields)
        return found

    def by_contents(self, contents: Sequence[str], generation: int) -> list[tuple[str, Document]]:
        """Return what `generation` sees of these contents, each with it, in passage order."""
        found: list[tuple[tuple[str, int], str, Document]] = []
        with self.reading() as database:
            for part in parts(contents):
                query = (
                    "SELECT source, content, id, text, metadata, place FROM passages "  # noqa: S608
                    f"WHERE content IN ({marks(part)}) AND added <= ? AND removed > ?"
                )
                for source, content, *fields in database.execute(
                    query, (*part, generation, generation)
                ):
                    found.append(((source, fields[-1]), content, _document(*fields)))
        return [one[1:] for one in sorted(found, key=lambda one: one[0])]

    def contents(self, generation: int) -> list[str]:
        """Return the contents that `generation` sees, each once."""
        query = "SELECT DISTINCT content FROM passages WHERE added <= ? AND removed > ?"
        with self.reading() as database:
            return [one for (one,) in database.execute(query, (generation, generation))]

    def indexed_folder(self, generation: int) -> str:
        """Return the deepest folder that holds all files that `generation` sees; "" without any.

        Of texts in order the first and the last have in common what all have.
        """
        query = (
            "SELECT MIN(key), MAX(key) FROM sources "
            "WHERE kind = 'file' AND added <= ? AND removed > ?"
        )
        with self.reading() as database:
            first, last = database.execute(query, (generation, generation)).fetchone()
        if first is None:
            return ""
        try:
            return os.path.commonpath([Path(first).parent, Path(last).parent])
        except ValueError:  # on Windows: files of two drives
            return ""

    def _lend(self) -> _Open:
        """Return an idle connection to the file that is there now, or a new one."""
        with self._lock:
            file = self._file()  # while a connection holds a deleted file, no other gets its inode
            while self._idle:
                idle = self._idle.pop()
                if idle.file == file:
                    return idle
                idle.database.close()
            return self._connect(file)

    def _take_back(self, lent: _Open) -> None:
        if lent.file is None:
            lent.database.close()
            return
        with self._lock:
            self._idle.append(lent)

    def _file(self) -> tuple[int, int] | None:
        try:
            stat = self.path.stat()
        except OSError:
            return None  # SQLite says what is wrong
        return stat.st_dev, stat.st_ino

    def _connect(self, file: tuple[int, int] | None) -> _Open:
        # Without the right to write there is no shared memory file for WAL: read the file as it is.
        shared = os.access(self.path.parent, os.W_OK)
        mode = "mode=ro" if shared else "mode=ro&immutable=1"
        address = f"{self.path.absolute().as_uri()}?{mode}"
        database = sqlite3.connect(address, uri=True, timeout=30, check_same_thread=False)
        return _Open(database, file if shared else None)


def _close(connections: list[_Open]) -> None:
    while connections:
        connections.pop().database.close()


def _document(key: str, text: str, metadata: str, place: int) -> Document:
    """Return a passage; its place within the source is `metadata["position"]`."""
    return Document(id=key, page_content=text, metadata={"position": place, **json.loads(metadata)})


def parts(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Give values in lists that one statement takes."""
    for first in range(0, len(values), _MOST_VALUES):
        yield list(values[first : first + _MOST_VALUES])


def marks(values: Sequence[Any]) -> str:
    """Return as many question marks."""
    return ",".join("?" * len(values))
