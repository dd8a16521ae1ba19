"""A database that several processes open at once."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from ragweave.evaluation.runs.database import shared_database

TABLES = "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY)"


def test_a_new_file_is_opened_by_many_at_once(tmp_path: Path) -> None:
    errors: list[sqlite3.Error] = []

    def work(path: Path, name: str, barrier: threading.Barrier) -> None:
        barrier.wait()
        try:
            database = shared_database(path, TABLES)
            with database:
                database.execute("INSERT INTO kept VALUES (?)", (name,))
            database.close()
        except sqlite3.Error as error:
            errors.append(error)

    for number in range(60):
        path, barrier = tmp_path / f"{number}.sqlite", threading.Barrier(6)
        workers = [threading.Thread(target=work, args=(path, str(n), barrier)) for n in range(6)]
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        assert not errors
        database = shared_database(path, TABLES)
        assert database.execute("SELECT COUNT(*) FROM kept").fetchone() == (6,)
        database.close()
