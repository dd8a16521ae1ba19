"""Reading `results.jsonl`: the last word on each question, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ragweave.evaluation.runs.outcome import Record
from ragweave.tools.journal import read_lines

NAME = "results.jsonl"


def lines_of(path: Path) -> Iterator[Record]:
    """Yield the records of a file in the order of writing, retried questions several times.

    Raises:
        UsageError: A line is damaged; the text names it.
    """
    for line in read_lines(path):
        yield _of_today(line.record)


def _of_today(record: Record) -> Record:
    """Return a record with `truncated` where an earlier version wrote `stopped`."""
    if "stopped" in record:
        record["truncated"] = bool(record.pop("stopped"))
    return record


def records_of(paths: Sequence[Path]) -> Iterator[Record]:
    """Yield the last record of each question and system.

    Only failed questions are written more than once (a retry follows a failure), so it is enough
    to remember how many lines of failed ones are still to come.
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


class Done:
    """Which questions a run has finished: a byte for each question and system."""

    def __init__(self, labels: Sequence[str], questions: int) -> None:
        """Make room for `questions` questions by as many systems."""
        self._labels = {label: at for at, label in enumerate(labels)}
        self._marks = bytearray(len(labels) * questions)

    def mark(self, at: int, label: str, *, ok: bool) -> None:
        """Note that a question is finished: answered, or recorded as failed."""
        self._marks[self._place(at, label)] = 1 if ok else 2

    def has(self, at: int, label: str, *, retry_failed: bool) -> bool:
        """Say whether there is nothing left to do for a question."""
        mark = self._marks[self._place(at, label)]
        return mark == 1 or (mark == 2 and not retry_failed)

    def count(self) -> tuple[int, int]:
        """Return how many are answered and how many failed."""
        return self._marks.count(1), self._marks.count(2)

    def _place(self, at: int, label: str) -> int:
        return at * len(self._labels) + self._labels[label]
