"""A run's directory: its settings (`run.json`), its records (`results.jsonl`), and its lock.

Records are read one at a time, so that a run of any size can be read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragweave.errors import LockedError, UsageError
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.references import (
    check_addresses,
    moved_addresses,
    with_absolute_paths,
)
from ragweave.evaluation.runs.settings import FORMAT, RunSettings
from ragweave.tools import files as locks
from ragweave.tools.files import parse_json, remove_leftovers, write_atomic
from ragweave.tools.journal import read_lines, repair

NAME = "results.jsonl"


def lines_of(path: Path) -> Iterator[Record]:
    """Yield the records of a file in the order they were written; retried questions come again.

    Raises:
        UsageError: A line is damaged; the text names it.
    """
    for line in read_lines(path):
        yield _upgraded(line.record)


def _upgraded(record: Record) -> Record:
    """Return a record with `truncated`, for which earlier versions wrote `stopped`."""
    if "stopped" in record:
        record["truncated"] = bool(record.pop("stopped"))
    return record


def records_of(paths: Sequence[Path]) -> Iterator[Record]:
    """Yield the last record of each question and system.

    Only failed questions are written more than once (a retry follows a failure), so it is enough
    to remember how many more lines each failed question has.
    """
    for path in paths:
        later: dict[tuple[int, str], int] = {}
        failed: set[tuple[int, str]] = set()
        for record in lines_of(path):
            key = (record["at"], record["system"])
            if key in failed:
                later[key] = later.get(key, 0) + 1
            if record["error"]:
                failed.add(key)
        for record in lines_of(path):
            key = (record["at"], record["system"])
            if later.get(key, 0):
                later[key] -= 1
            else:
                yield record


class FinishedQuestions:
    """Which questions a run has finished: a byte for each question and system."""

    def __init__(self, labels: Sequence[str], questions: int) -> None:
        """Begin with nothing finished, for `questions` questions and these systems."""
        self._labels = {label: index for index, label in enumerate(labels)}
        self._marks = bytearray(len(labels) * questions)

    def mark(self, index: int, label: str, *, ok: bool) -> None:
        """Note that a question is finished: answered, or recorded as failed."""
        self._marks[self._place(index, label)] = 1 if ok else 2

    def has(self, index: int, label: str, *, retry_failed: bool) -> bool:
        """Return whether there is nothing left to do for a question."""
        mark = self._marks[self._place(index, label)]
        return mark == 1 or (mark == 2 and not retry_failed)

    def count(self) -> tuple[int, int]:
        """Return how many are answered and how many failed."""
        return self._marks.count(1), self._marks.count(2)

    def _place(self, index: int, label: str) -> int:
        return index * len(self._labels) + self._labels[label]


SETTINGS = "run.json"
PATIENCE = 5.0
"""Seconds to wait for a run's lock: workers whose parent was killed take a moment to exit."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A folder that holds one run: `run.json`, `results.jsonl`, `state.sqlite`."""

    path: Path

    @property
    def results(self) -> Path:
        """The file of finished questions."""
        return self.path / NAME

    @property
    def state(self) -> Path:
        """The file of unfinished questions."""
        return self.path / "state.sqlite"

    @property
    def settings(self) -> RunSettings:
        """The settings that the run was made with.

        Raises:
            UsageError: It is not a run, or one of a later format.
        """
        file = self.path / SETTINGS
        try:
            values = parse_json(file.read_text("utf-8"))
        except FileNotFoundError as error:
            raise UsageError(f"{self.path}: is not a run (it has no {SETTINGS})") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"{file}: cannot be read: {error}") from error
        if not isinstance(values, dict) or values.get("format") not in range(1, FORMAT + 1):
            raise UsageError(f"{file}: is not a run of format {FORMAT} or older")
        try:
            return RunSettings.from_plain(values)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            raise UsageError(f"{file}: its settings are damaged: {error}") from error


def claim_directory(path: Path, settings: RunSettings) -> RunDirectory:
    """Return the directory of a run: a new or empty one, or one made with the same settings.

    Settings of a run that has recorded nothing are replaced.

    Raises:
        UsageError: It holds something else, or a run with other settings (the text says which),
            or cannot be written.
    """
    directory = RunDirectory(path)
    if (path / SETTINGS).exists():
        try:
            check_same(directory, settings)
        except UsageError:
            if not _is_untouched(directory):
                raise
            with hold(directory):  # such as after a misspelt model
                _write_settings(path, settings)
        return directory
    try:
        path.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path / SETTINGS)
        if any(path.iterdir()):
            raise UsageError(f"{path}: holds other files; name a new or empty directory")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error
    _write_settings(path, settings)
    return directory


def _write_settings(path: Path, settings: RunSettings) -> None:
    _write_values(path, settings.plain())


def _write_values(path: Path, values: Mapping[str, Any]) -> None:
    text = json.dumps(values, ensure_ascii=False, indent=2)
    try:
        write_atomic(path / SETTINGS, f"{text}\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error


def record_moved_servers(directory: RunDirectory) -> None:
    """Take the servers that the environment names for those that a run began with.

    The run then goes on where the same models have new addresses. The old ones stay recorded, and
    the cache's replies stay theirs.

    Raises:
        UsageError: It is not a run, another process is working on it, or it cannot be written.
    """
    with hold(directory):
        moved = moved_addresses(directory.settings)
        values = parse_json((directory.path / SETTINGS).read_text("utf-8"))
        _write_values(directory.path, values | {"moved": moved})


def _is_untouched(directory: RunDirectory) -> bool:
    """Return whether a run has recorded nothing yet, so that its settings may change."""
    if directory.results.exists() and directory.results.stat().st_size:
        return False
    if not directory.state.exists():
        return True
    try:
        with closing(sqlite3.connect(directory.state)) as state:
            queries = (f"SELECT 1 FROM {table} LIMIT 1" for table in ("checkpoints", "replies"))  # noqa: S608
            return not any(state.execute(query).fetchone() for query in queries)
    except sqlite3.Error:
        return False


_LATER = ("ids_hash",)


def check_same(directory: RunDirectory, settings: RunSettings) -> None:
    """Check that `settings` are those of the run.

    Raises:
        UsageError: They differ; the text says which.
    """
    theirs = json.loads(json.dumps(with_absolute_paths(directory.settings).plain()))
    ours = json.loads(json.dumps(settings.plain()))
    for name in ours:
        if name == "versions":
            _check_versions(directory, theirs[name], ours[name])
        elif name == "moved" or (name in _LATER and not theirs[name]):
            continue  # addresses say it, or earlier versions did not write it down
        elif name == "addresses":
            check_addresses(directory.settings, settings.addresses)
        elif name == "format":
            directory.settings.check_current()
        elif name == "parts" and theirs[name].items() <= ours[name].items():
            continue  # nor all of these
        elif ours[name] != theirs[name]:
            raise UsageError(
                f"{directory.path}: holds a run with other settings: {name} was "
                f"{_short(theirs[name])}, now {_short(ours[name])}; name another directory"
            )


def _check_versions(
    directory: RunDirectory, theirs: Mapping[str, str], ours: Mapping[str, str]
) -> None:
    """Refuse another version of ragweave; other packages may change between sessions of a run."""
    if theirs.get("ragweave") != ours.get("ragweave"):
        raise UsageError(
            f"{directory.path}: was made by ragweave {theirs.get('ragweave')}, this is "
            f"{ours.get('ragweave')}; name another directory"
        )


@contextmanager
def hold(directory: RunDirectory) -> Iterator[int]:
    """Hold the lock of a run, and repair the end of its results.

    Yields:
        The lock's file descriptor. A child process that inherits it holds the lock too, even
        after its parent was killed.

    Raises:
        UsageError: Another process holds it, or the directory cannot be written.
    """
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(locks.hold(directory.path / "lock", wait=PATIENCE))
        except LockedError as error:
            who = f" (process {error.holder})" if error.holder else ""
            raise UsageError(
                f"{directory.path}: another process is working on this run{who}"
            ) from None
        except OSError as error:
            raise UsageError(f"{directory.path}: cannot be written: {error}") from error
        repair(directory.results)
        yield handle


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "…"
