"""A write to a folder: what is staged is committed in one transaction, which builds the next state's index."""

import json
import os
import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path

from ragweave.tools.knowledge.filter_index import add_values
from ragweave.tools.knowledge.graph import add_names
from ragweave.tools.knowledge.index import FolderIndex, hashes_of
from ragweave.tools.knowledge.search import Embedder
from ragweave.tools.knowledge.staging import COLUMNS, Change, Writer
from ragweave.tools.knowledge.store import INDEX, Snapshot

_BATCH = 20_000
"""Passages whose names and values are added at once."""
_STAGED = f"{COLUMNS} FROM staged WHERE rowid >= ? AND rowid < ? ORDER BY rowid"
_OF_SOURCE = "source = (SELECT id FROM sources WHERE key = ?1)"
_OF_DOCUMENT = f"document = ?2 AND +{_OF_SOURCE}"
_WITH_ID = f"(document = ?2 OR name = ?2) AND +{_OF_SOURCE}"
"""SQL: passages of a source; + since it may have many more, so that the index of sources is not the one to use."""


class FolderWriter(Writer):
    """A write that is being prepared, on the connection of `Store.writing`."""

    def __init__(self, db: sqlite3.Connection, index: FolderIndex, embedder: Embedder) -> None:
        """Begin an empty write; `index` builds the next state's."""
        super().__init__(db, lambda: nullcontext(Snapshot(db)), self._replaced, embedder)
        self._index = index
        db.execute("CREATE TEMP TABLE gone (id INTEGER PRIMARY KEY, source INTEGER, content TEXT)")
        db.execute(
            "CREATE TEMP TRIGGER note_gone AFTER DELETE ON passages BEGIN "
            "INSERT INTO gone VALUES (old.id, old.source, old.content); END"
        )

    def rebuild(self) -> None:
        """Make names, values and index again from the passages, embed what has no vector, and commit."""
        lost = f"SELECT {COLUMNS} FROM passages WHERE ? AND content NOT IN (SELECT content FROM vectors)"  # noqa: S608
        self._db.execute(f"INSERT INTO staged {lost}", (self._embedder.name is not None,))
        self._embed()
        self._replaced(self._changes, rebuilds=True)

    def _replaced(self, changes: Sequence[Change], *, rebuilds: bool = False) -> None:
        """Make changes the current state, all or nothing, except of documents whose passages are the same."""
        changes = [change for change in changes if not self._is_stored(change)]
        if not (changes or rebuilds):
            return
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        with db:
            last = db.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()[0]
            for change in changes:
                self._apply(change)
            for what in ("names", "mentions", "fields", "field_values", "meta WHERE key = 'index'") * rebuilds:
                db.execute(f"DELETE FROM {what}")  # noqa: S608
            if rebuilds or not all(change.stays for change in changes):
                self._build(last)
            db.execute("INSERT OR REPLACE INTO meta VALUES ('state', ?)", (secrets.token_hex(8),))
        with suppress(sqlite3.Error):  # a reader may still read the log: another time
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _is_stored(self, change: Change) -> bool:
        if change.part is None or not change.rows:
            return False
        sql = f"SELECT {COLUMNS} FROM passages WHERE {_OF_DOCUMENT} ORDER BY id"  # noqa: S608
        stored = self._db.execute(sql, (change.key, change.part)).fetchall()
        return stored == self._db.execute(f"SELECT {_STAGED}", (change.rows.start, change.rows.stop)).fetchall()

    def _apply(self, change: Change) -> None:
        """Change the rows of a source."""
        db, key, source = self._db, change.key, change.source
        if change.part is not None:
            of = _OF_DOCUMENT if change.rows else _WITH_ID
            db.execute(f"DELETE FROM passages WHERE {of}", (key, change.part))  # noqa: S608
        elif not change.stays:
            db.execute(f"DELETE FROM passages WHERE {_OF_SOURCE}", (key,))  # noqa: S608
            db.execute("DELETE FROM sources WHERE key = ?", (key,))
        if source is not None:
            sql = (
                "INSERT INTO sources (key, kind, value) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET value = ?3"
            )
            db.execute(sql, (key, source.kind, json.dumps(vars(source))))
            sql = f"INSERT INTO passages (source, {COLUMNS}) SELECT (SELECT id FROM sources WHERE key = ?), {_STAGED}"  # noqa: S608
            db.execute(sql, (key, change.rows.start, change.rows.stop))

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
        texts = now.texts(first)
        while batch := list(islice(texts, _BATCH)):
            add_names(db, batch)
            add_values(db, batch)
        folder = self._index.store.folder / f"{INDEX}{secrets.token_hex(8)}"
        folder.mkdir()
        names = self._index.build(now, folder, [row for (row,) in db.execute("SELECT id FROM gone")])
        _sync(folder)
        stay = {name: digest for name, digest in json.loads(now.hashes).items() if name.split("/")[0] in names}
        files = (f"{folder.name}/{path.name}" for path in sorted(folder.iterdir()))
        hashes = json.dumps(stay | hashes_of(folder.parent, files))
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", [("hashes", hashes), ("index", " ".join(names))])


def _sync(folder: Path) -> None:
    """Bring the files of a folder to the disk, before the commit that names it."""
    for path in (*folder.iterdir(), folder, folder.parent):
        with suppress(PermissionError):  # Windows opens no folder
            number = os.open(path, os.O_RDONLY)
            os.fsync(number)
            os.close(number)
