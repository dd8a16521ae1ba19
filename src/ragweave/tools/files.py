"""The folder for what ragweave keeps between commands, and files of JSON lines."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragweave.errors import UsageError

RowT = TypeVar("RowT")


def state_folder() -> Path | None:
    """Return ragweave's folder in XDG's state folder, or Windows' local data; None for a user without a home."""
    named = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", "")
    try:
        return (Path(named) if named else Path.home() / ".local" / "state") / "ragweave"
    except RuntimeError:  # in many containers
        return None


def read_jsonl(path: str | Path, kind: TypeAdapter[RowT]) -> list[RowT]:
    """Read a file of JSON lines (`.jsonl`, or gzipped `.jsonl.gz`).

    Raises:
        UsageError: The file is missing, unreadable or empty, or a row is not of that kind; the text names the line.
    """
    opened: Any = gzip.open if Path(path).suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig") as lines:
            rows = [_row(line, kind, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    except (OSError, EOFError, UnicodeError, zlib.error) as error:
        raise UsageError(f"{path}: can't be read ({error})") from error
    if not rows:
        raise UsageError(f"{path}: has no rows")
    return rows


def _row(line: str, kind: TypeAdapter[RowT], where: str) -> RowT:
    try:
        return kind.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        name = "".join(f"{one}: " for one in first["loc"])
        raise UsageError(f"{where}: {name}{first['msg']}") from error
