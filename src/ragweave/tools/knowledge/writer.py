"""A write: changes are staged first, then committed in one transaction."""

import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ragweave.state.passages import indexed_text
from ragweave.tools.knowledge.chunking import Passage
from ragweave.tools.knowledge.filter_index import add_values
from ragweave.tools.knowledge.graph import add_names
from ragweave.tools.knowledge.index import FolderIndex, hashes_of
from ragweave.tools.knowledge.settings import Progress
from ragweave.tools.knowledge.sources import Source
from ragweave.tools.knowledge.store import AGAIN, INDEX, Snapshot

_BATCH = 256
"""Texts that are embedded, and committed, at once."""
_COLUMNS = "name, document, content, text, metadata"


class Writer:
    """A write that is being prepared, on the connection of `Store.writing`."""

    def __init__(self, db: sqlite3.Connection, index: FolderIndex) -> None:
        """Begin an empty write; `index` embeds its passages and builds the next state's."""
        self._db, self._index = db, index
        db.execute(f"CREATE TEMP TABLE staged (source TEXT, {_COLUMNS})")
        db.execute("CREATE TEMP TABLE gone (id INTEGER PRIMARY KEY, source INTEGER, content TEXT)")
        db.execute(
            "CREATE TEMP TRIGGER note_gone AFTER DELETE ON passages BEGIN "
            "INSERT INTO gone VALUES (old.id, old.source, old.content); END"
        )
        self._rebuilds = False
        self._sources: list[Source] = []
        self._changes: list[tuple[str, tuple[Any, ...]]] = []
        """Statements that change passages."""
        self._updates: list[tuple[Any, ...]] = []
        """Sources whose passages stay: JSON and key."""

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return what is stored before this write, by key."""
        return Snapshot(self._db).sources(kind)

    def put(self, source: Source, passages: Iterable[Passage]) -> int:
        """Stage a source with its passages, instead of what it has now; return their number."""
        self.remove(source.key)
        return self._stage(source, passages)

    def extend(self, source: Source, passages: Sequence[Passage]) -> None:
        """Stage the passages of a document of a source, instead of those that it has now, unless they are the same."""
        document = passages[0].document, source.key
        where = "document = ? AND source = (SELECT id FROM sources WHERE key = ?)"
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM passages WHERE {where} ORDER BY id", document)  # noqa: S608
        if rows.fetchall() != [*map(_columns, passages)]:
            self._change(f"DELETE FROM passages WHERE {where}", document)  # noqa: S608
            self._stage(source, passages)

    def _stage(self, source: Source, passages: Iterable[Passage]) -> int:
        rows = ((source.key, *_columns(passage)) for passage in passages)
        self._db.execute("BEGIN")
        with self._db:
            count = self._db.executemany("INSERT INTO staged VALUES (?, ?, ?, ?, ?, ?)", rows).rowcount
        self._sources.append(source)
        return max(count, 0)

    def remove(self, key: str) -> None:
        """Delete a source and its passages."""
        self._change("DELETE FROM passages WHERE source = (SELECT id FROM sources WHERE key = ?)", (key,))
        self._change("DELETE FROM sources WHERE key = ?", (key,))

    def remove_passages(self, names: Sequence[str]) -> None:
        """Delete the passages with these ids, or of documents with them."""
        where = "name IN (SELECT value FROM json_each(?)) OR document IN (SELECT value FROM json_each(?))"
        values = (json.dumps([*names]),) * 2
        if self._db.execute(f"SELECT 1 FROM passages WHERE {where}", values).fetchone():  # noqa: S608
            unread = f"{AGAIN} WHERE id IN (SELECT source FROM passages WHERE {where})"  # noqa: S608
            self._change(unread, values)
            self._change(f"DELETE FROM passages WHERE {where}", values)  # noqa: S608

    def rebuild(self) -> None:
        """Make names, values and index again from the passages."""
        self._rebuilds = True
        for what in ("names", "mentions", "fields", "field_values", "meta WHERE key = 'index'"):
            self._change(f"DELETE FROM {what}")  # noqa: S608

    def update(self, source: Source) -> None:
        """Give a source another hash, time or notices; its passages stay."""
        self._updates.append((json.dumps(asdict(source)), source.key))

    def _change(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        self._changes.append((sql, values))

    def commit(self, progress: Progress | None = None) -> int:
        """Make the write the current state, all or nothing; return how many passages were embedded."""
        embedded = 0 if self._index.store.settings.embedding is None else self._embed(progress)
        if not (self._changes or self._updates):
            return embedded
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        with db:
            last = db.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()[0]
            db.executemany("UPDATE sources SET value = ? WHERE key = ?", self._updates)
            for change in self._changes:
                db.execute(*change)
            rows = ((source.key, source.kind, json.dumps(asdict(source))) for source in self._sources)
            db.executemany("INSERT OR IGNORE INTO sources (key, kind, value) VALUES (?, ?, ?)", rows)
            db.execute(
                f"INSERT INTO passages (source, {_COLUMNS}) SELECT s.id, {_COLUMNS} "  # noqa: S608
                "FROM staged t CROSS JOIN sources s ON s.key = t.source ORDER BY t.rowid"
            )
            if self._changes:
                self._build(last)
            db.execute("INSERT OR REPLACE INTO meta VALUES ('state', ?)", (secrets.token_hex(8),))
        with suppress(sqlite3.Error):  # a reader may still read the log: another time
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return embedded

    def _embed(self, progress: Progress | None) -> int:
        """Embed what has no vector yet, each batch committed by itself; return their number."""
        db = self._db
        db.execute(
            "CREATE TEMP TABLE missing AS SELECT content, text, metadata FROM (SELECT content, text, metadata FROM staged "
            "UNION ALL SELECT content, text, metadata FROM passages WHERE ?) "
            "WHERE content NOT IN (SELECT content FROM vectors) GROUP BY content",
            (self._rebuilds,),
        )
        total = db.execute("SELECT count(*) FROM missing").fetchone()[0]
        rows = db.execute("SELECT content, text, metadata FROM missing")
        done = 0
        while batch := rows.fetchmany(_BATCH):
            texts = [indexed_text(text, json.loads(meta)) for _, text, meta in batch]
            vectors = self._index.embedder.documents(texts, Snapshot(db).dimensions())
            pairs = zip((row[0] for row in batch), (vector.tobytes() for vector in vectors), strict=True)
            db.execute("BEGIN IMMEDIATE")
            with db:
                db.executemany("INSERT OR REPLACE INTO vectors (content, vector) VALUES (?, ?)", pairs)
            done += len(batch)
            if progress:
                progress("embed", done, total)
        return done

    def _build(self, last: int) -> None:
        """Drop what has no passages, find names and values in those after row `last`, and write the index of the new state."""
        db = self._db
        db.execute(
            "DELETE FROM sources WHERE kind = 'added' AND id IN (SELECT source FROM gone) "
            "AND NOT EXISTS (SELECT 1 FROM passages p WHERE p.source = sources.id)"
        )
        db.execute(  # also what a write that was killed had embedded since the last state
            "DELETE FROM vectors WHERE (content IN (SELECT content FROM gone) OR id > coalesce((SELECT value FROM meta "
            "WHERE key = 'vectors'), 0)) AND NOT EXISTS (SELECT 1 FROM passages p WHERE p.content = vectors.content)"
        )
        db.execute("INSERT OR REPLACE INTO meta SELECT 'vectors', max(id) FROM vectors")
        now = Snapshot(db)
        first = last if now.index else 0
        add_names(db, now.texts(first))
        add_values(db, now.texts(first))
        folder = self._index.store.folder / f"{INDEX}{secrets.token_hex(8)}"
        folder.mkdir()
        names = self._index.build(now, folder, [row for (row,) in db.execute("SELECT id FROM gone")])
        _sync(folder)
        stay = {name: digest for name, digest in json.loads(now.hashes).items() if name.split("/")[0] in names}
        hashes = json.dumps(stay | hashes_of(folder))
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", [("hashes", hashes), ("index", " ".join(names))])


def _columns(passage: Passage) -> tuple[str | None, ...]:
    return *passage[:4], json.dumps(passage.metadata, default=str)


def _sync(folder: Path) -> None:
    """Bring the files of a folder to the disk, before the commit that names it."""
    for path in (*folder.iterdir(), folder, folder.parent):
        with suppress(PermissionError):  # Windows opens no folder
            number = os.open(path, os.O_RDONLY)
            os.fsync(number)
            os.close(number)
