"""Where ragweave remembers things between commands: XDG's state folder, or Windows' local data."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path | None:
    """Return ragweave's folder there; None for a user without a home, as in many containers."""
    named = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", "")
    try:
        return (Path(named) if named else Path.home() / ".local" / "state") / "ragweave"
    except RuntimeError:
        return None
