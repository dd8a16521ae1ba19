"""Files: users' YAML, the folder for what ragweave remembers between commands, and SQLite databases."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from ragweave.errors import UsageError


class _UniqueNames(yaml.SafeLoader):  # type: ignore[misc]
    """Refuses a name that a mapping has twice, as YAML says; PyYAML would take the last one."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node, names = super().compose_mapping_node(anchor), set()
        for name, _ in node.value:
            if repr(name) in names:  # its type and its text
                raise UsageError(f"line {name.start_mark.line + 1} repeats a name of its mapping")
            names.add(repr(name))
        return node


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds.

    Raises:
        UsageError: The file cannot be read, is not YAML, or has a name twice in a mapping. The text shows no line of
            it: one may hold a key.
    """
    try:
        return yaml.load(path.read_text("utf-8"), _UniqueNames)  # noqa: S506 - a SafeLoader
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, UsageError):
        return str(error)
    at = getattr(error, "problem_mark", None)
    return f"line {at.line + 1} is not YAML" if at else getattr(error, "strerror", None) or "it is not YAML"


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
