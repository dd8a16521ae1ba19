"""The folder for what ragweave keeps between commands."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path | None:
    """Return ragweave's folder in XDG's state folder, or Windows' local data; None for a user without a home."""
    named = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", "")
    try:
        return (Path(named) if named else Path.home() / ".local" / "state") / "ragweave"
    except RuntimeError:  # in many containers
        return None
