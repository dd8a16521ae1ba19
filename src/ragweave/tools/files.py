"""Files that are written atomically, and the folder for what ragweave keeps between commands."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8, all or nothing, with the permissions of the one that it replaces.

    A link is followed; a device or pipe is written to directly.

    Raises:
        OSError: The file cannot be written; the old content stands.
    """
    data = content.encode() if isinstance(content, str) else content
    place = path.resolve()
    if place.exists() and not place.is_file():
        place.write_bytes(data)
        return
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}.new")
    try:
        with draft.open("xb") as file:
            if place.exists():
                draft.chmod(place.stat().st_mode & 0o7777)  # nobody else may read it meanwhile
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)


def state_folder() -> Path | None:
    """Return ragweave's folder in XDG's state folder, or Windows' local data; None for a user without a home."""
    named = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", "")
    try:
        return (Path(named) if named else Path.home() / ".local" / "state") / "ragweave"
    except RuntimeError:  # in many containers
        return None
