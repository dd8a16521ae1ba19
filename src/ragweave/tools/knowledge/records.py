"""What is noted of a collection of a server, in SQLite or PostgreSQL: its settings, sources and passages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ragweave.tools.knowledge.store import Source


class Records:
    """Notes about one collection: JSON values by kind (`settings`, `source`, `passage`) and key."""

    def __init__(self, collection: str, db: Any, mark: str = "?") -> None:
        """Take a connection (DB-API 2.0), and how its database marks parameters."""
        self._collection, self._db, self._mark = collection, db, mark
        db.cursor().execute(
            "CREATE TABLE IF NOT EXISTS ragweave_records (collection TEXT, kind TEXT, key TEXT, value TEXT, "
            "PRIMARY KEY (collection, kind, key))"
        )
        db.commit()

    def noted(self, kind: str) -> dict[str, Any]:
        """Return what is noted of a kind, by key in alphabetical order."""
        cursor = self._db.cursor()
        sql = "SELECT key, value FROM ragweave_records WHERE collection = ? AND kind = ? ORDER BY key"
        cursor.execute(sql.replace("?", self._mark), (self._collection, kind))
        rows = cursor.fetchall()
        self._db.commit()
        return {key: json.loads(value) for key, value in rows}

    def note(self, kind: str, values: Mapping[str, Any]) -> None:
        """Note values, instead of those of the same keys."""
        rows = [(self._collection, kind, key, json.dumps(value)) for key, value in values.items()]
        self._write(
            "INSERT INTO ragweave_records VALUES (?, ?, ?, ?) ON CONFLICT (collection, kind, key) "
            "DO UPDATE SET value = excluded.value",
            rows,
        )

    def forget(self, kind: str, keys: Iterable[str]) -> None:
        """Forget what is noted under some keys."""
        rows = [(self._collection, kind, key) for key in keys]
        self._write("DELETE FROM ragweave_records WHERE collection = ? AND kind = ? AND key = ?", rows)

    def _write(self, sql: str, rows: list[Any]) -> None:
        self._db.cursor().executemany(sql.replace("?", self._mark), rows)
        self._db.commit()

    def count(self) -> int:
        """Return the number of passages."""
        return len(self.noted("passage"))

    @property
    def index(self) -> str:
        """The name of the current state: a hash of the ids of all passages."""
        return hashlib.sha256(" ".join(self.noted("passage")).encode()).hexdigest()[:16]

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key."""
        found = {key: Source(**value) for key, value in self.noted("source").items()}
        return {key: one for key, one in found.items() if kind in (None, one.kind)}

    def close(self) -> None:
        """Close the connection."""
        self._db.close()
