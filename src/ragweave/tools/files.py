"""Files of ragweave's own: the folder for what it remembers between commands, and SQLite databases."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path


class ClosingConnection(sqlite3.Connection):
    """A connection that closes when nothing refers to it any more; Python 3.13 warns of others."""

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it was never opened
            self.close()


def state_folder() -> Path | None:
    """Return ragweave's folder in XDG's state folder, or Windows' local data; None for a user without a home."""
    named = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", "")
    try:
        return (Path(named) if named else Path.home() / ".local" / "state") / "ragweave"
    except RuntimeError:  # in many containers
        return None
