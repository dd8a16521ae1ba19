"""What is labelled so far: `OUT.partial`, JSON lines, each durable before anyone is told.

The first line holds the settings. A line with a question's position says what became of it (a
row, a reason why there is none, an error), or keeps a model's reply of a question under way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragweave.errors import LockedError, UsageError
from ragweave.tools.journal import DamagedLineError, Journal, line_of
from ragweave.training.errors import TrainingStoppedError

FORMAT = 1
_ADVICE = "delete the file to begin anew"
_SYNC = 0.25
"""Seconds between two calls of fsync. What is flushed survives a killed process; what a loss of
power may cost is a quarter of a second's work."""

Kind = Literal["made", "dropped", "failed"]
_KINDS: tuple[Kind, ...] = ("made", "dropped", "failed")


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of a question."""

    kind: Kind
    offset: int
    """Where its line begins."""
    data: str
    known: bool | None = None
    message: str = ""
    """The reason or error, where there is no row."""


class LabelJournal:
    """The file of a labelling under way; a context manager that holds the right to write it."""

    def __init__(self, out: Path, settings: Mapping[str, Any]) -> None:
        """Name the file that is being made and the settings that it is made with."""
        self.path = out.with_name(f"{out.name}.partial")
        self.entries: dict[int, Entry] = {}
        """By position; of a question that was tried again the last."""
        self.replies: dict[int, dict[str, dict[str, Any]]] = {}
        """Replies of questions under way, by position and name."""
        self.paid = False
        """Whether it holds, or held, a model's reply."""
        self._settings = json.loads(json.dumps(settings))
        self._journal = Journal(self.path, sync_every=_SYNC)

    def __enter__(self) -> LabelJournal:
        """Open the file, new or begun.

        Raises:
            UsageError: It was begun with other settings, is damaged, or another process writes it.
            TrainingStoppedError: It cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._journal.open(alone=True)
        except LockedError:
            raise UsageError(f"{self.path}: another process is at work on it") from None
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written ({error.strerror})") from error
        try:
            self._read()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._journal.close()

    def add(self, at: int, data: str, kind: Kind, value: Any) -> None:
        """Take down what became of a question: its row, or why there is none."""
        offset = self._append({"at": at, "data": data, kind: value})
        self.entries[at] = _entry(kind, offset, data, value)
        if kind != "failed":
            self.replies.pop(at, None)

    def keep(self, at: int, name: str, reply: dict[str, Any]) -> None:
        """Keep a model's reply, so that it is not paid for twice."""
        self._append({"at": at, "reply": name, "value": reply})
        self.paid = True
        self.replies.setdefault(at, {})[name] = reply

    def row(self, entry: Entry) -> dict[str, Any]:
        """Return a made row."""
        made: dict[str, Any] = self._journal.record_at(entry.offset)["made"]
        return made

    def remove(self) -> None:
        """Delete the file: what it holds stands in the finished one."""
        self._journal.remove()

    def _read(self) -> None:
        """Read what is done; the first line holds the settings."""
        message, begun = "", False
        try:
            for number, offset, record in self._journal.lines():
                if number == 1:
                    message, begun = self._other(record), True
                else:
                    self._take(record, offset, number)
        except DamagedLineError as error:
            raise UsageError(f"{error}; {_ADVICE}") from error
        if message and (self.entries or self.paid):
            raise UsageError(
                f"{self.path}: was begun with other settings: {message}; name another --out, or "
                "delete it to begin anew"
            )
        if message:
            self._journal.clear()
        if message or not begun:
            self._append({"ragweave_labels": FORMAT, "settings": self._settings})
        for at in [at for at, one in self.entries.items() if one.kind != "failed"]:
            self.replies.pop(at, None)

    def _damaged(self, number: int, why: str) -> UsageError:
        return DamagedLineError(self.path, number, why)

    def _take(self, line: Any, offset: int, number: int) -> None:
        record = line if isinstance(line, dict) else {}
        at, name = record.get("at"), record.get("reply")
        if not isinstance(at, int):
            raise self._damaged(number, "no question's position in 'at'")
        if isinstance(name, str) and isinstance(record.get("value"), dict):
            self.paid = True
            self.replies.setdefault(at, {})[name] = record["value"]
            return
        kind = next((one for one in _KINDS if one in record), None)
        data = record.get("data")
        if kind is None or not isinstance(data, str):
            raise self._damaged(number, "neither a reply nor what became of a question")
        if kind == "made" and not isinstance(record[kind], dict):
            raise self._damaged(number, "no row in 'made'")
        self.entries[at] = _entry(kind, offset, data, record[kind])

    def _other(self, line: Any) -> str:
        """Return in what the settings of the first line differ; "" where they are the same."""
        head = line if isinstance(line, dict) else {}
        if head.get("ragweave_labels") != FORMAT or not isinstance(head.get("settings"), dict):
            raise UsageError(f"{self.path}: is no labelling of format {FORMAT}; delete it")
        return difference(head["settings"], self._settings)

    def _append(self, record: Mapping[str, Any]) -> int:
        """Write a line; return where it begins."""
        try:
            return self._journal.append(line_of(record))
        except OSError as error:
            raise TrainingStoppedError(
                f"{self.path}: cannot be written ({error.strerror}); what it holds is kept, and "
                "the same command goes on with it"
            ) from error


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Return in what settings differ, in a few words; "" where they are the same."""
    for name in {**theirs, **ours}:
        if theirs.get(name) != ours.get(name):
            was, now = (
                json.dumps(one.get(name), ensure_ascii=False)[:80] for one in (theirs, ours)
            )
            return f"{name} was {was}, now {now}"
    return ""


def _entry(kind: Kind, offset: int, data: str, value: Any) -> Entry:
    if kind != "made":
        return Entry(kind, offset, data, message=str(value))
    known = value.get("known")
    return Entry(kind, offset, data, known=known if isinstance(known, bool) else None)
