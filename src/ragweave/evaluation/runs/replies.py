"""`--cache replies.sqlite`: model replies kept by model, settings and messages, across runs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ragweave.errors import UsageError

_TABLE = """CREATE TABLE IF NOT EXISTS ragweave_replies (
    key TEXT PRIMARY KEY, model TEXT, message TEXT) WITHOUT ROWID"""


class ReplyCache:
    """Replies in a SQLite file, which several processes may share; a context manager."""

    def __init__(self, path: Path) -> None:
        """Open or make the file.

        Raises:
            UsageError: It is something else, or cannot be written.
        """
        self.path = path
        try:
            self._file = sqlite3.connect(path, isolation_level=None, timeout=30)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = NORMAL")
            self._file.execute(_TABLE)
        except sqlite3.Error as error:
            raise UsageError(f"--cache {path}: cannot be used ({error})") from error

    def __enter__(self) -> ReplyCache:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def get(self, key: str) -> str | None:
        """Return the message kept under `key`, as JSON, or None."""
        row = self._file.execute(
            "SELECT message FROM ragweave_replies WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else row[0]

    def put(self, key: str, model: str, message: str) -> None:
        """Keep a message; the first one kept under a key stays."""
        self._file.execute(
            "INSERT OR IGNORE INTO ragweave_replies VALUES (?, ?, ?)", (key, model, message)
        )

    def __len__(self) -> int:
        """Return how many replies are kept."""
        return int(self._file.execute("SELECT COUNT(*) FROM ragweave_replies").fetchone()[0])
