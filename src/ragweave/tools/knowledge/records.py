"""What a server has, noted in SQLite or PostgreSQL: sources, passages and settings of a collection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from ragweave.tools.knowledge.settings import Settings
from ragweave.tools.knowledge.store import Source

_TABLES = (
    "collections (collection TEXT PRIMARY KEY, settings TEXT)",
    "sources (collection TEXT, key TEXT, kind TEXT, value TEXT, PRIMARY KEY (collection, key))",
    "passages (collection TEXT, source TEXT, document TEXT, id TEXT, name TEXT, "
    "PRIMARY KEY (collection, source, document, id))",
)


class Records:
    """The notes about one collection."""

    def __init__(self, collection: str, db: Any, mark: str = "?") -> None:
        """Take a connection (DB-API 2.0), and how its database marks parameters."""
        self._collection, self._db, self._mark = collection, db, mark
        for table in _TABLES:
            self._do(f"CREATE TABLE IF NOT EXISTS ragweave_{table}")

    def _do(self, sql: str, *rows: Sequence[Any]) -> list[Any]:
        """Run a statement, for each row of values if there are several."""
        cursor = self._db.cursor()
        sql = sql.replace("?", self._mark)
        cursor.executemany(sql, rows) if len(rows) > 1 else cursor.execute(sql, *rows)
        found = cursor.fetchall() if cursor.description else []
        self._db.commit()
        return found

    def settings(self) -> Settings | None:
        """Return the settings, if they are noted."""
        found = self._do("SELECT settings FROM ragweave_collections WHERE collection = ?", (self._collection,))
        return Settings(**json.loads(found[0][0])) if found else None

    def note_settings(self, settings: Settings) -> None:
        """Note the settings."""
        self._do("INSERT INTO ragweave_collections VALUES (?, ?)", (self._collection, json.dumps(asdict(settings))))

    def forget(self) -> None:
        """Forget all about the collection."""
        for table in ("collections", "sources", "passages"):
            self._do(f"DELETE FROM ragweave_{table} WHERE collection = ?", (self._collection,))  # noqa: S608

    @property
    def index(self) -> str:
        """The name of the current state: a hash of the ids of all passages."""
        ids = sorted(one for one, _, _ in self.passages())
        return hashlib.sha256(" ".join(ids).encode()).hexdigest()[:16]

    def count(self) -> int:
        """Return the number of passages."""
        sql = "SELECT count(*) FROM ragweave_passages WHERE collection = ?"
        return int(self._do(sql, (self._collection,))[0][0])

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key, in alphabetical order."""
        sql = "SELECT key, kind, value FROM ragweave_sources WHERE collection = ? ORDER BY key"
        rows = self._do(sql, (self._collection,))
        return {key: Source(**json.loads(value)) for key, own, value in rows if kind in (None, own)}

    def note_source(self, source: Source) -> None:
        """Note a source, instead of what is noted of it."""
        sql = (
            "INSERT INTO ragweave_sources VALUES (?, ?, ?, ?) ON CONFLICT (collection, key) "
            "DO UPDATE SET kind = excluded.kind, value = excluded.value"
        )
        self._do(sql, (self._collection, source.key, source.kind, json.dumps(asdict(source))))

    def forget_source(self, key: str) -> None:
        """Forget a source."""
        self._do("DELETE FROM ragweave_sources WHERE collection = ? AND key = ?", (self._collection, key))

    def passages(self, source: str | None = None, document: str | None = None) -> list[tuple[str, str, str]]:
        """Return id, name and document of all passages, or those of a source, or of one document of it."""
        given = {"collection": self._collection, "source": source, "document": document}
        chosen = {name: value for name, value in given.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in chosen)
        return self._do(f"SELECT id, name, document FROM ragweave_passages WHERE {where}", [*chosen.values()])  # noqa: S608

    def note_passages(self, rows: Iterable[tuple[str, str, str, str]]) -> None:
        """Note passages: source, document, id and name."""
        sql = "INSERT INTO ragweave_passages VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        self._do(sql, *[(self._collection, *row) for row in rows])

    def forget_passages(self, ids: Iterable[str]) -> None:
        """Forget passages by id."""
        sql = "DELETE FROM ragweave_passages WHERE collection = ? AND id = ?"
        self._do(sql, *[(self._collection, one) for one in ids])

    def close(self) -> None:
        """Close the connection."""
        self._db.close()
