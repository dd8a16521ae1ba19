"""SQLite files that several processes of a run share."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Any


def shared_database(path: Path, tables: str, **settings: Any) -> sqlite3.Connection:
    """Open a database that readers use while one writes, and make its tables if there are none.

    Args:
        path: The file.
        tables: SQL that makes them.
        settings: As for `sqlite3.connect`.

    Raises:
        sqlite3.Error: It is something else, or cannot be written; no connection stays open.
    """
    database: sqlite3.Connection = sqlite3.connect(path, timeout=30, **settings)
    with ExitStack() as failing:
        failing.callback(database.close)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(tables)
        failing.pop_all()
    return database
