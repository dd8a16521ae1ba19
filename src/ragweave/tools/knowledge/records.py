"""LangChain's record manager in SQLite or PostgreSQL: which passages a server has, and of what."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.indexing import RecordManager

_TABLE = "ragweave_records"
_MOST = 500
"""Most values in a statement."""


class Records(RecordManager):
    """What was indexed under a namespace, and the settings that it was indexed with."""

    def __init__(self, namespace: str, connect: Callable[[], Any], mark: str = "?") -> None:
        """Take a function that connects (DB-API 2.0), and how the database marks parameters."""
        super().__init__(namespace)
        self._db, self._mark = connect(), mark

    def _do(self, sql: str, values: Sequence[Any] = (), *, many: bool = False) -> list[Any]:
        cursor = self._db.cursor()
        sql = sql.replace("?", self._mark)
        cursor.executemany(sql, values) if many else cursor.execute(sql, values)
        rows = cursor.fetchall() if cursor.description else []
        self._db.commit()
        return rows

    def create_schema(self) -> None:
        """Create the tables if they do not exist."""
        self._do(
            f"CREATE TABLE IF NOT EXISTS {_TABLE} (namespace TEXT, key TEXT, source TEXT, "
            "updated DOUBLE PRECISION, PRIMARY KEY (namespace, key))"
        )
        self._do("CREATE TABLE IF NOT EXISTS ragweave_settings (namespace TEXT PRIMARY KEY, value TEXT)")

    def settings(self) -> str | None:
        """Return the noted settings, or None."""
        sql = "SELECT value FROM ragweave_settings WHERE namespace = ?"
        rows = self._do(sql, (self.namespace,))
        return str(rows[0][0]) if rows else None

    def note_settings(self, value: str) -> None:
        """Note the settings."""
        self._do("INSERT INTO ragweave_settings VALUES (?, ?)", (self.namespace, value))

    def forget(self) -> None:
        """Forget all of the namespace."""
        for table in (_TABLE, "ragweave_settings"):
            self._do(f"DELETE FROM {table} WHERE namespace = ?", (self.namespace,))  # noqa: S608

    def get_time(self) -> float:
        """Return the time, in seconds."""
        return time.time()

    def update(
        self,
        keys: Sequence[str],
        *,
        group_ids: Sequence[str | None] | None = None,
        time_at_least: float | None = None,
    ) -> None:
        """Note keys with their sources."""
        now = max(self.get_time(), time_at_least or 0)
        sources = group_ids or [None] * len(keys)
        rows = [(self.namespace, key, one, now) for key, one in zip(keys, sources, strict=True)]
        sql = (
            f"INSERT INTO {_TABLE} VALUES (?, ?, ?, ?) ON CONFLICT (namespace, key) "  # noqa: S608
            "DO UPDATE SET source = excluded.source, updated = excluded.updated"
        )
        self._do(sql, rows, many=True)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Return which keys are noted."""
        noted = set(self._where("key", keys))
        return [key in noted for key in keys]

    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys within some times, of some sources."""
        times = [before or float("inf"), after or float("-inf")]
        return self._where("source", group_ids, times)[:limit]

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Forget keys."""
        rows = [(self.namespace, key) for key in keys]
        sql = f"DELETE FROM {_TABLE} WHERE namespace = ? AND key = ?"  # noqa: S608
        self._do(sql, rows, many=True)

    def sources(self) -> list[str]:
        """Return the sources of all keys."""
        sql = f"SELECT DISTINCT source FROM {_TABLE} WHERE namespace = ? ORDER BY source"  # noqa: S608
        return [row[0] for row in self._do(sql, (self.namespace,))]

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _where(
        self, column: str, wanted: Sequence[str] | None, times: Sequence[float] = (float("inf"), float("-inf"))
    ) -> list[str]:
        sql = f"SELECT key FROM {_TABLE} WHERE namespace = ? AND updated < ? AND updated > ?"  # noqa: S608
        if wanted is None:
            return [row[0] for row in self._do(sql, (self.namespace, *times))]
        found: list[str] = []
        for first in range(0, len(wanted), _MOST):
            some = wanted[first : first + _MOST]
            chosen = f"{sql} AND {column} IN ({', '.join('?' * len(some))})"
            found += [row[0] for row in self._do(chosen, (self.namespace, *times, *some))]
        return found

    # `index()` calls none of the asynchronous methods, which are abstract.
    aget_time = aupdate = aexists = alist_keys = adelete_keys = None  # type: ignore[assignment]
    acreate_schema = None  # type: ignore[assignment]
