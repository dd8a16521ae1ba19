"""The turns of all conversations, in a SQLite file, and what readers thought of the answers."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

MAX_TURNS = 2_000
"""Turns of a caller; older ones are deleted."""
MAX_SHOWN = 50
"""Turns of a thread that the page shows."""


class History:
    """The turns, each of one caller and one thread, in the file `path`; rated ones are appended to the file `feedback`."""

    def __init__(self, path: Path, feedback: Path) -> None:
        self._path, self._feedback = path, feedback

    @contextmanager
    def _db(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=30)) as db, db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS turns (at INTEGER PRIMARY KEY, id, caller, thread, asked, answer, thumb)"
            )
            db.execute("CREATE INDEX IF NOT EXISTS of_thread ON turns (caller, thread)")
            yield db

    def add(self, caller: str, thread: str, asked: str, answer: dict[str, Any]) -> str:
        """Store a turn and return its id."""
        name = uuid.uuid4().hex
        with self._db() as db:
            row = (name, caller, thread, asked, json.dumps(answer))
            db.execute("INSERT INTO turns (id, caller, thread, asked, answer) VALUES (?, ?, ?, ?, ?)", row)
            old = "SELECT at FROM turns WHERE caller = ? ORDER BY at DESC LIMIT -1 OFFSET ?"
            db.executemany("DELETE FROM turns WHERE at = ?", db.execute(old, (caller, MAX_TURNS)).fetchall())
        return name

    def turns(self, caller: str, thread: str) -> list[dict[str, Any]]:
        """Return a thread's last turns in order: what was asked, its answer, and its thumb."""
        query = "SELECT id, asked, answer, thumb FROM turns WHERE caller = ? AND thread = ? ORDER BY at DESC LIMIT ?"
        with self._db() as db:
            rows = db.execute(query, (caller, thread, MAX_SHOWN)).fetchall()
        return [
            {**json.loads(answer), "turn": at, "asked": asked, "thumb": thumb}
            for at, asked, answer, thumb in rows[::-1]
        ]

    def rate(self, caller: str, turn: str, thumb: str) -> bool:
        """Append a turn and its thumb to the feedback if the thumb is new; return whether the caller has that turn."""
        with self._db() as db:
            row = db.execute("SELECT answer, thumb FROM turns WHERE caller = ? AND id = ?", (caller, turn)).fetchone()
            if row and row[1] is None:
                answer = json.loads(row[0])
                line = {
                    "question": answer["question"],
                    "answer": answer["text"],
                    "passages": answer["passages"],
                    "thumb": thumb,
                }
                with self._feedback.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                db.execute("UPDATE turns SET thumb = ? WHERE id = ?", (thumb, turn))
        return row is not None
