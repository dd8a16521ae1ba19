"""The store: one SQLite file with everything, and a folder with the index derived from it.

    knowledge.sqlite3   meta       settings, and the name of the index that belongs to this state
                        sources    a row a file, page or name under which documents were added
                        passages   a row a passage: text, place in the source, metadata (JSON)
                        vectors    content hash to float32 vector
                        names, mentions    which passage has which names (see `graph.py`)
                        fields, field_values    which passage has which metadata (see `filter_index.py`)
    index-<name>/       BM25 arrays and vectors in passage order: derived, never changed once named; a large one, and
                        a small one with what came later
    writer.lock         locked by the one writer
    room                a megabyte, given free to delete passages on a full disk

**Reading** is one SQLite transaction: the tables and `meta.index` belong together, whatever a writer
commits meanwhile. **Writing** goes in three steps. New passages are staged in a temporary table,
which locks nothing. Missing vectors are committed batch by batch, so that a kill loses one batch of a
slow or paid model. Then one transaction replaces rows, writes a new index folder and names it in
`meta`. Each writer deletes the folders that `meta` does not name (of the state before, or of a killed
writer). A reader that was about to open such a folder takes the next state.
"""

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from langchain_core.documents import Document
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.files import ClosingConnection
from ragweave.tools.knowledge import filter_index
from ragweave.tools.knowledge.chunking import content_hash
from ragweave.tools.knowledge.filters import ALL, Condition, Count, Kind
from ragweave.tools.knowledge.graph import TABLES
from ragweave.tools.knowledge.settings import IndexSettings
from ragweave.tools.knowledge.view import NamePassages, Scores, Source, SourceReader

FILE = "knowledge.sqlite3"
_LOCK = "writer.lock"
_KEPT, _ROOM = "room", 1 << 20
INDEX = "index-"
"""How the names of folders with an index begin."""
_UNFINISHED = f"{INDEX}unfinished-"
"""How the names of folders begin in which a store is being made. What a kill leaves, the next write deletes."""
_VERSION = "4"
_BUSY = 60.0
"""Seconds to wait for another connection's commit."""
_ADVICE = (
    "; this process may not write the folder: while a process on another machine writes it, read a copy, made there by "
    "`ragweave doctor --kb {} --backup FOLDER`"
)
VECTORS = "CREATE TABLE vectors (id INTEGER PRIMARY KEY, content TEXT UNIQUE NOT NULL, vector BLOB NOT NULL);"
_SCHEMA = (
    """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE sources (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source INTEGER NOT NULL, name TEXT NOT NULL,
    document TEXT, content TEXT NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL);
CREATE INDEX passages_by_source ON passages (source);
CREATE INDEX passages_by_name ON passages (name);
CREATE INDEX passages_by_content ON passages (content);
CREATE INDEX passages_by_document ON passages (document) WHERE document IS NOT NULL;
"""
    + VECTORS
    + TABLES
    + filter_index.TABLES
)
# Row ids of passages are never used again: an index tells by them which passages are new.


class Snapshot(SourceReader):
    """The state of the store in one transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.index = self.meta("index") or ""
        """Names of the folders of the index, with a blank between them; "" where nothing was written yet."""
        self.hashes = self.meta("hashes") or "{}"
        """Hash of each file of the index, as JSON."""

    def meta(self, key: str) -> str | None:
        """Return a value of `meta`, or None."""
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def state(self) -> str:
        return self.meta("state") or ""

    def count(self) -> int:
        return int(self.db.execute("SELECT count(*) FROM passages").fetchone()[0])

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key, in the order in which they were added."""
        rows = self.db.execute("SELECT key, value FROM sources WHERE kind = coalesce(?, kind) ORDER BY id", (kind,))
        return {key: Source(**json.loads(value)) for key, value in rows}

    def source(self, key: str) -> Source | None:
        row = self.db.execute("SELECT value FROM sources WHERE key = ?", (key,)).fetchone()
        return Source(**json.loads(row[0])) if row else None

    def documents(self, rowids: Sequence[int]) -> dict[int, Document]:
        """Return passages by row id, in the given order.

        Their metadata has `source`, and `position`: a number that grows within a source.

        Raises:
            KnowledgeBaseError: The text of one is not the one that was stored.
        """
        rows = self.db.execute(
            "SELECT p.id, p.name, p.content, p.text, p.metadata, s.key FROM passages p "
            "JOIN sources s ON s.id = p.source WHERE p.id IN (SELECT value FROM json_each(?))",
            (json.dumps(rowids),),
        )
        docs: dict[int, Document] = {}
        for row, name, content, text, stored, source in rows:
            meta = json.loads(stored)
            if content != content_hash(text, meta):
                raise KnowledgeBaseError(
                    f"passage {name} of {source} is damaged: run ragweave doctor --repair, then index its source again"
                )
            docs[row] = Document(id=name, page_content=text, metadata={"position": row, **meta, "source": source})
        return {row: docs[row] for row in rowids}

    def rows(self, chosen: Condition = ALL) -> NDArray[np.int64]:
        """Return the row ids of the passages that pass a filter, ascending, which is the order of the index."""
        rows = self.rows_after(0)
        return rows if chosen == ALL else rows[filter_index.passing(self.db, chosen, rows)]

    def rows_after(self, last: int) -> NDArray[np.int64]:
        """Return the row ids of the passages above `last`, ascending."""
        rows = self.db.execute("SELECT id FROM passages WHERE id > ? ORDER BY id", (last,))
        return np.fromiter((row for (row,) in rows), np.int64)

    def texts(self, after: int = 0) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield row id, text and metadata of the passages with row ids above `after`, in order."""
        sql = "SELECT id, text, metadata FROM passages WHERE id > ? ORDER BY id"
        return ((row, text, json.loads(meta)) for row, text, meta in self.db.execute(sql, (after,)))

    def damaged(self) -> Iterator[tuple[str, str]]:
        """Yield id and source of the passages whose text is not the one that was stored."""
        sql = "SELECT p.name, s.key, p.content, p.text, p.metadata FROM passages p JOIN sources s ON s.id = p.source"
        for name, source, content, text, meta in self.db.execute(sql):
            try:
                intact = content == content_hash(text, json.loads(meta))
            except ValueError:  # what should be JSON
                intact = False
            if not intact:
                yield name, source

    def holders(self, name: str) -> list[str]:
        sql = (
            "SELECT DISTINCT s.key FROM passages p JOIN sources s ON s.id = p.source WHERE p.name = ? OR p.document = ?"
        )
        return [key for (key,) in self.db.execute(sql, (name, name))]

    def vectors(self, contents: Collection[str]) -> dict[str, Scores]:
        sql = "SELECT content, vector FROM vectors WHERE content IN (SELECT value FROM json_each(?))"
        rows = self.db.execute(sql, (json.dumps([*contents]),))
        return {content: np.frombuffer(vector, np.float32) for content, vector in rows}

    def vectors_after(self, last: int) -> Iterator[bytes]:
        """Yield the vectors of the passages with row ids above `last`, in order."""
        sql = "SELECT v.vector FROM passages p JOIN vectors v ON v.content = p.content WHERE p.id > ? ORDER BY p.id"
        return (vector for (vector,) in self.db.execute(sql, (last,)))

    def dimensions(self) -> int:
        row = self.db.execute("SELECT length(vector) / 4 FROM vectors LIMIT 1").fetchone()
        return int(row[0]) if row else 0

    def copies(self, name: str) -> list[int]:
        return [row for (row,) in self.db.execute("SELECT id FROM passages WHERE name = ? ORDER BY id", (name,))]

    def neighbours(self, row: int, sides: int) -> list[int]:
        rows = self.db.execute(
            "SELECT other.id FROM passages own JOIN passages other ON other.id BETWEEN own.id - :sides AND own.id + :sides "
            "AND other.source = own.source AND other.document IS own.document "
            "AND json_extract(other.metadata, '$.title') IS json_extract(own.metadata, '$.title') "
            "WHERE own.id = :row ORDER BY other.id",
            {"sides": sides, "row": row},
        )
        return [other for (other,) in rows]

    def sources_of(self, chosen: Condition) -> list[Source]:
        sql = "SELECT key, kind FROM sources WHERE id IN (SELECT source FROM passages WHERE id IN (SELECT value FROM json_each(?)))"
        rows = json.dumps(self.rows(chosen).tolist())
        return [Source(*source) for source in self.db.execute(f"{sql} ORDER BY id", (rows,))]

    def counted(self, chosen: Condition, name: str = "") -> Iterator[Count]:
        return filter_index.counted_of(self.db, name, self._seen(chosen))

    def kinds(self, name: str, chosen: Condition) -> dict[Kind, Any]:
        return filter_index.kinds_of(self.db, name, self._seen(chosen))

    def _seen(self, chosen: Condition) -> str | None:
        return None if chosen == ALL else json.dumps(self.rows(chosen).tolist())

    def named(self, names: Collection[str], most: int) -> dict[str, NamePassages]:
        sql = "SELECT text, id, passages FROM names WHERE text IN (SELECT value FROM json_each(?))"
        known = {number: (text, count) for text, number, count in self.db.execute(sql, (json.dumps(sorted(names)),))}
        rows: dict[int, tuple[list[int], list[int]]] = {number: ([], []) for number in known}
        rare = sorted(number for number, (_, count) in known.items() if count <= most)
        sql = "SELECT name, about, passage FROM mentions WHERE name IN (SELECT value FROM json_each(?))"
        for number, about, row in self.db.execute(sql, (json.dumps(rare),)):
            rows[number][not about].append(row)
        return {text: NamePassages(count, *rows[number]) for number, (text, count) in known.items()}


class Store:
    """The SQLite file of a folder; safe to use from threads and processes."""

    def __init__(self, folder: Path) -> None:
        """Open the store of a folder.

        Raises:
            KnowledgeBaseError: There is no store, it is damaged, or of another version.
        """
        self.folder = folder
        self._idle: list[sqlite3.Connection] = []
        """Open connections that read the log, for the next snapshots."""
        self._process = os.getpid()
        if not (folder / FILE).exists():
            raise KnowledgeBaseError(
                f"no knowledge base at {folder}: make one with `ragweave index FILES --kb {folder}`"
            )
        with self.snapshot() as now:
            version, text = now.meta("version"), now.meta("settings")
        if version != _VERSION:
            raise KnowledgeBaseError(f"{folder} is of format {version}; this version of ragweave reads {_VERSION}")
        self.settings = IndexSettings(**json.loads(text or "{}"))

    @classmethod
    def create(cls, folder: Path, settings: IndexSettings, wait: float) -> None:
        """Make an empty store, in a temporary folder first: a kill leaves no unfinished store.

        Raises:
            KnowledgeBaseError: The folder is not empty, or cannot be written.
        """
        others = (path for path in folder.glob("*") if not path.name.startswith((_UNFINISHED, _LOCK)))
        if not (folder / FILE).exists() and any(others):
            raise KnowledgeBaseError(f"{folder} is not empty: a knowledge base needs a folder of its own")
        with _locked(folder, wait):
            if (folder / FILE).exists():
                raise KnowledgeBaseError(f"{folder} is already a knowledge base: open it")
            with TemporaryDirectory(prefix=_UNFINISHED, dir=folder) as unfinished:
                path = Path(unfinished, FILE)
                with closing(sqlite3.connect(path, isolation_level=None)) as db:  # closing ends the write-ahead log
                    if db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                        raise KnowledgeBaseError(f"{folder}: SQLite's WAL does not work on this file system")
                    db.executescript(f"BEGIN; {_SCHEMA}")
                    rows = {"version": _VERSION, "settings": json.dumps(asdict(settings))}
                    db.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
                    db.execute("COMMIT")
                path.replace(folder / FILE)

    def _connect(self, mode: str) -> sqlite3.Connection:
        """Return a new connection; transactions begin and end where the code says so."""
        db = sqlite3.connect(
            f"{(self.folder / FILE).resolve().as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY,
            isolation_level=None,
            check_same_thread=False,
            factory=ClosingConnection,
        )
        db.execute("PRAGMA synchronous = FULL")
        return db

    def _has_log(self) -> bool:
        """Return whether SQLite can read the write-ahead log: its two files are there, or can be made."""
        ends = "-wal", "-shm"
        return os.access(self.folder, os.W_OK) or all(Path(f"{self.folder / FILE}{end}").exists() for end in ends)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Yield a snapshot of the current state, in one read transaction.

        Raises:
            KnowledgeBaseError: The file is damaged, or cannot be read.
        """
        db, has_log = None, False
        if self._process != os.getpid():  # SQLite connections must not cross a fork
            self._idle, self._process = [], os.getpid()
        try:
            db, has_log, now = self._begun()
            yield now
        except sqlite3.DatabaseError as error:
            advice = "" if os.access(self.folder, os.W_OK) else _ADVICE.format(self.folder)
            raise KnowledgeBaseError(f"{self.folder / FILE}: {error}{advice}") from error
        finally:
            if db is not None:
                db.rollback()
                if has_log:
                    self._idle.append(db)

    def _begun(self, pauses: Sequence[float] = (0.02, 0.2, 2)) -> tuple[sqlite3.Connection, bool, Snapshot]:
        """Begin a read transaction; without the log on a new connection, as an open one reads the file as it was before."""
        has_log = self._has_log()
        try:
            db = self._unused() if has_log else self._connect("ro&immutable=1")
            db.execute("BEGIN")
            return db, has_log, Snapshot(db)
        except sqlite3.OperationalError:
            if not pauses or os.access(self.folder, os.W_OK):
                raise
            time.sleep(pauses[0])  # a writer is making the log, which this process may not
            return self._begun(pauses[1:])

    def _unused(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect("ro")

    @contextmanager
    def writing(self, wait: float) -> Iterator[sqlite3.Connection]:
        """Lock the store against other writers, and yield a connection for `Writer`.

        Raises:
            KnowledgeBaseError: Another writer is still active after `wait` seconds, or the disk cannot be written.
        """
        # A reader that closes last leaves the write-ahead log to those that may not write the folder.
        with _locked(self.folder, wait), closing(self._connect("ro")) as reader, closing(self._connect("rw")) as db:
            self._sweep(Snapshot(reader).index)
            yield db
            self._sweep(Snapshot(db).index)
            with suppress(OSError):  # a full disk
                if not (self.folder / _KEPT).exists():
                    (self.folder / _KEPT).write_bytes(os.urandom(_ROOM))

    def reset(self, settings: IndexSettings, wait: float) -> None:
        """Change the settings of a store; its sources are to be read again."""
        with self.writing(wait) as db:
            db.execute("UPDATE sources SET value = json_set(value, '$.hash', '')")
            db.execute("UPDATE meta SET value = ? WHERE key = 'settings'", (json.dumps(asdict(settings)),))

    def backup(self, folder: Path, wait: float) -> None:
        """Copy the current state to a new folder; writers wait meanwhile."""
        if folder.exists():
            raise KnowledgeBaseError(f"{folder} exists: a copy needs a new folder")
        with self.writing(wait) as db:
            folder.mkdir(parents=True)
            for index in Snapshot(db).index.split():
                shutil.copytree(self.folder / index, folder / index)
            unfinished = folder / _UNFINISHED
            with closing(sqlite3.connect(unfinished)) as copy:
                db.backup(copy)
            unfinished.replace(folder / FILE)

    def _sweep(self, named: str) -> None:
        """Delete the folders of indexes that no state names."""
        for index in self.folder.glob(f"{INDEX}*"):
            if index.name not in named.split():
                shutil.rmtree(index, ignore_errors=True)  # Windows keeps what a reader has open: another time

    def release(self) -> bool:
        """Give the kept room free; return whether the disk was full."""
        is_full = shutil.disk_usage(self.folder).free < _ROOM
        if is_full:
            (self.folder / _KEPT).unlink(missing_ok=True)
        return is_full

    def close(self) -> None:
        """Close idle connections; a later use opens new ones."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


@contextmanager
def _locked(folder: Path, wait: float) -> Iterator[None]:
    """Lock a folder against other writers; the system frees the lock at a kill.

    SQLite's own lock, BEGIN IMMEDIATE, would forbid the batch commits of vectors.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / _LOCK, timeout=wait):
            yield
    except Timeout:
        raise KnowledgeBaseError(f"{folder}: another process has been writing to it for more than {wait:g} s") from None
    except (OSError, sqlite3.Error) as error:
        raise KnowledgeBaseError(f"{folder} cannot be written ({error})") from error
