"""A write: changes are staged first, then committed in one transaction."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ragweave.tools.knowledge.passages import Passage, indexed_text
from ragweave.tools.knowledge.settings import Progress, Settings
from ragweave.tools.knowledge.store import Snapshot, Source
from ragweave.tools.retrieval.graph import TABLES, add_names

_BATCH = 256
"""Texts that are embedded, and committed, at once."""
_COLUMNS = "source, name, document, content, text, metadata"

Embed = Callable[[list[str]], Sequence[bytes]]
"""Texts to float32 vectors of length 1, as bytes."""
BuildIndex = Callable[[Snapshot, Path], None]
"""Writes the files of the index of a state into a new folder."""


class Writer:
    """A write that is being prepared, on the connection of `Store.writing`."""

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        """Begin an empty write."""
        self._folder, self._db = folder, db
        db.executescript(TABLES)
        db.execute("CREATE TEMP TABLE staged AS SELECT * FROM passages WHERE 0")
        self._sources: list[Source] = []
        self._changes: list[tuple[str, tuple[Any, ...]]] = []
        self.changed = False
        """Whether passages change."""

    @property
    def now(self) -> Snapshot:
        """What is stored before this write."""
        return Snapshot(self._db)

    def put(self, source: Source, passages: Iterable[Passage]) -> int:
        """Stage a source with its passages, instead of what it has now; return their number."""
        self.remove(source.key)
        return self.extend(source, passages)

    def extend(self, source: Source, passages: Iterable[Passage], instead: Sequence[str] = ()) -> int:
        """Stage passages that join those of a source, instead of those of the documents named."""
        number = -1 - len(self._sources)
        for document in instead:
            self._change(
                "DELETE FROM passages WHERE document = ? AND source = (SELECT id FROM sources WHERE key = ?)",
                (document, source.key),
            )
        rows = ((number, *p[:4], json.dumps(p.metadata, default=str)) for p in passages)
        self._db.execute("BEGIN")
        try:
            count = self._db.executemany(
                f"INSERT INTO staged ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608
                rows,
            ).rowcount
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        self._sources.append(source)
        self.changed = True
        return max(count, 0)

    def set_notices(self, notices: str) -> None:
        """Set the notices of the source that was staged last."""
        self._sources[-1] = replace(self._sources[-1], notices=notices)

    def remove(self, key: str) -> None:
        """Delete a source and its passages."""
        self._change("DELETE FROM passages WHERE source = (SELECT id FROM sources WHERE key = ?)", (key,))
        self._change("DELETE FROM sources WHERE key = ?", (key,))

    def remove_passages(self, names: Sequence[str]) -> int:
        """Delete the passages with these ids, or of documents with them; return their number."""
        some = "(SELECT value FROM json_each(?))"
        values = (json.dumps([*names]),) * 2
        where = f"WHERE name IN {some} OR document IN {some}"
        sql = f"SELECT count(*) FROM passages {where}"  # noqa: S608
        found = self._db.execute(sql, values).fetchone()[0]
        if found:
            self._change(f"DELETE FROM passages {where}", values)  # noqa: S608
        return int(found)

    def remove_named(self, name: str) -> None:
        """Delete the sources with a key or cited name."""
        for key, one in self.now.sources().items():
            if name in (key, one.name):
                self.remove(key)

    def set_settings(self, settings: Settings) -> None:
        """Change the settings of an empty store, at once."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('settings', ?)", (json.dumps(asdict(settings)),))

    def renew(self) -> None:
        """Make names and index anew from the passages."""
        for what in ("names", "mentions", "meta WHERE key = 'named'"):
            self._change(f"DELETE FROM {what}", ())  # noqa: S608

    def update(self, key: str, source: Source) -> None:
        """Give a source another key, name, time or notices; its passages stay."""
        values = asdict(source)
        names = ", ".join(f"{name} = ?" for name in values)
        self._change(
            f"UPDATE sources SET {names} WHERE key = ?",  # noqa: S608
            (*values.values(), key),
            passages=False,
        )

    def _change(self, sql: str, values: tuple[Any, ...], *, passages: bool = True) -> None:
        self._changes.append((sql, values))
        self.changed = self.changed or passages

    def embed(self, embed: Embed | None, progress: Progress) -> int:
        """Embed what has no vector yet, each batch committed by itself; return their number.

        Raises:
            LookupError: Something has no vector, and `embed` is None.
        """
        db = self._db
        db.execute("DROP TABLE IF EXISTS temp.missing")
        db.execute(
            "CREATE TEMP TABLE missing AS SELECT content, text, metadata FROM staged "
            "WHERE content NOT IN (SELECT content FROM vectors) GROUP BY content "
            "UNION SELECT content, text, metadata FROM passages "
            "WHERE content NOT IN (SELECT content FROM vectors) GROUP BY content"
        )
        total = db.execute("SELECT count(*) FROM missing").fetchone()[0]
        rows = db.execute("SELECT content, text, metadata FROM missing")
        done = 0
        while batch := rows.fetchmany(_BATCH):
            if embed is None:
                raise LookupError
            vectors = embed([indexed_text(text, json.loads(meta)) for _, text, meta in batch])
            db.execute("BEGIN IMMEDIATE")
            pairs = zip((row[0] for row in batch), vectors, strict=True)
            db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", pairs)
            db.execute("COMMIT")
            done += len(batch)
            progress("embed", done, total)
        return done

    def commit(self, build: BuildIndex) -> None:
        """Make the write the current state, all or nothing.

        Args:
            build: Writes the index; called within the transaction where passages changed.
        """
        if not self._changes and not self.changed:
            return
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for change in self._changes:
                db.execute(*change)
            self._insert()
            if self.changed:
                db.execute("DELETE FROM sources WHERE kind = 'added' AND id NOT IN (SELECT source FROM passages)")
                db.execute("DELETE FROM vectors WHERE content NOT IN (SELECT content FROM passages)")
                folder = self._folder / f"index-{secrets.token_hex(8)}"
                folder.mkdir()
                self._name()
                build(Snapshot(db), folder)
                _sync(folder)
                db.execute("INSERT OR REPLACE INTO meta VALUES ('index', ?)", (folder.name,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        with suppress(sqlite3.Error):  # a reader may still read the log: another time
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _insert(self) -> None:
        """Move what is staged into the tables, in the order in which it was staged."""
        db = self._db
        db.execute("CREATE TEMP TABLE numbers (number INTEGER PRIMARY KEY, source INTEGER)")
        for number, source in enumerate(self._sources, 1):
            values = asdict(source)
            db.execute(
                f"INSERT OR IGNORE INTO sources ({', '.join(values)}) "  # noqa: S608
                f"VALUES (?{', ?' * (len(values) - 1)})",
                tuple(values.values()),
            )
            db.execute("INSERT INTO numbers SELECT ?, id FROM sources WHERE key = ?", (-number, source.key))
        columns = "n.source, t.name, t.document, t.content, t.text, t.metadata"
        db.execute(
            f"INSERT INTO passages ({_COLUMNS}) SELECT {columns} FROM staged t "  # noqa: S608
            "CROSS JOIN numbers n ON n.number = t.source ORDER BY t.rowid"
        )

    def _name(self) -> None:
        """Add the names of the passages that have none yet."""
        now = self.now
        add_names(self._db, now.texts(int(now.meta("named") or 0)))
        self._db.execute("INSERT OR REPLACE INTO meta SELECT 'named', coalesce(max(id), 0) FROM passages")


def _sync(folder: Path) -> None:
    """Bring the files of a folder to the disk, before the commit that names it."""
    for path in (*folder.iterdir(), folder, folder.parent):
        if os.name == "nt" and path.is_dir():
            continue
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
