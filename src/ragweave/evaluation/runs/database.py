"""SQLite files that several processes of a run share."""

from __future__ import annotations

import sqlite3
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

_PATIENCE = 30.0
"""Seconds to wait for another process that writes."""
_PAUSE = 0.01


def shared_database(path: Path, tables: str, **settings: Any) -> sqlite3.Connection:
    """Open a database that readers use while one writes, and make its tables if there are none.

    Args:
        path: The file.
        tables: SQL that makes them.
        settings: As for `sqlite3.connect`.

    Raises:
        sqlite3.Error: It is something else, or cannot be written; no connection stays open.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return _opened(path, tables, settings)
        except sqlite3.OperationalError as error:
            # Two that turn a new file to WAL at once: SQLite refuses one of them without waiting.
            if not _is_busy(error) or time.monotonic() > until:
                raise
        time.sleep(_PAUSE)


def _opened(path: Path, tables: str, settings: dict[str, Any]) -> sqlite3.Connection:
    database: sqlite3.Connection = sqlite3.connect(path, timeout=_PATIENCE, **settings)
    with ExitStack() as failing:
        failing.callback(database.close)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(tables)
        failing.pop_all()
    return database


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
