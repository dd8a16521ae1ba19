"""The journal of a labelling (`OUT.partial`), and the finished file with its report.

The journal is JSON lines, each durable before it is reported. The first line holds the settings. A
line with a question's index says what became of it (a row, a reason why there is none, an error),
or keeps a model's reply of a question under way. The finished file has the rows in source order,
whole or not at all.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragweave.datasets.rows import file_hash
from ragweave.errors import LockedError, UsageError
from ragweave.tools.files import parse_json, replacing
from ragweave.tools.journal import DamagedLineError, Journal, line_of
from ragweave.training.job import TrainingStoppedError
from ragweave.training.labels.labeler import Labeler, RowLabel
from ragweave.training.labels.models import OBJECT

FORMAT = 1
_ADVICE = "delete the file to start again"
_SYNC = 0.25
"""Seconds between two calls of fsync. What is flushed survives a killed process; what a loss of
power may cost is a quarter of a second's work."""

_ANY_MODEL = "a model"
"""What earlier versions wrote down of a model that was given as an object."""
_FAILED = "model call failed"
"""Why a failed question has no row."""

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
            raise UsageError(f"{self.path}: another process is working on it") from None
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

    def add(self, index: int, data: str, kind: Kind, value: Any) -> None:
        """Take down what became of a question: its row, or why there is none."""
        offset = self._append({"at": index, "data": data, kind: value})
        self.entries[index] = _entry(kind, offset, data, value)
        if kind != "failed":
            self.replies.pop(index, None)

    def keep(self, index: int, name: str, reply: dict[str, Any]) -> None:
        """Keep a model's reply, so that it is not paid for twice."""
        self._append({"at": index, "reply": name, "value": reply})
        self.paid = True
        self.replies.setdefault(index, {})[name] = reply

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
                f"{self.path}: was started with other settings: {message}; name another --out, or "
                "delete it to start again"
            )
        if message:
            self._journal.clear()
        if message or not begun:
            self._append({"ragweave_labels": FORMAT, "settings": self._settings})
        for index in [index for index, one in self.entries.items() if one.kind != "failed"]:
            self.replies.pop(index, None)

    def _damaged(self, number: int, why: str) -> UsageError:
        return DamagedLineError(self.path, number, why)

    def _take(self, line: Any, offset: int, number: int) -> None:
        record = line if isinstance(line, dict) else {}
        index, name = record.get("at"), record.get("reply")
        if not isinstance(index, int):
            raise self._damaged(number, "no question's index in 'at'")
        if isinstance(name, str) and isinstance(record.get("value"), dict):
            self.paid = True
            self.replies.setdefault(index, {})[name] = record["value"]
            return
        kind = next((one for one in _KINDS if one in record), None)
        data = record.get("data")
        if kind is None or not isinstance(data, str):
            raise self._damaged(number, "neither a reply nor what became of a question")
        if kind == "made" and not isinstance(record[kind], dict):
            raise self._damaged(number, "no row in 'made'")
        self.entries[index] = _entry(kind, offset, data, record[kind])

    def _other(self, line: Any) -> str:
        """Return in what the settings of the first line differ; "" where they are the same."""
        head = line if isinstance(line, dict) else {}
        if head.get("ragweave_labels") != FORMAT or not isinstance(head.get("settings"), dict):
            raise UsageError(f"{self.path}: is not a labelling of format {FORMAT}; delete it")
        return difference(head["settings"], self._settings)

    def _append(self, record: Mapping[str, Any]) -> int:
        """Write a line; return where it begins."""
        try:
            return self._journal.append(line_of(record))
        except OSError as error:
            raise TrainingStoppedError(
                f"{self.path}: cannot be written ({error.strerror}); what it holds is kept, and "
                "the same command resumes it"
            ) from error


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Return in what settings differ, in a few words; "" where they are the same.

    Files of earlier versions do not say which object a model was.
    """
    for name in {**theirs, **ours}:
        if theirs.get(name) == _ANY_MODEL and str(ours.get(name)).startswith(OBJECT):
            continue
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


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """What a labelling gave."""

    path: Path
    rows: int
    counts: Mapping[str, Mapping[str, int]]
    """By data set: `rows`, what the kind counts (known and unknown, …), and `dropped`."""
    dropped: Mapping[str, int]
    """Questions without a row, by reason."""
    before: bool = False
    """Whether the file had been finished before."""

    @property
    def report(self) -> Path:
        """The report's file."""
        return report_path(self.path)

    def total(self, name: str) -> int:
        """Return a count over all data sets."""
        return sum(one.get(name, 0) for one in self.counts.values())


def report_path(out: Path) -> Path:
    """Return where the report of a file of labels stands."""
    return out.with_name(f"{out.name}.report.json")


def finished(
    out: Path, settings: Mapping[str, Any], *, skip_bad: bool, retry_failed: bool = False
) -> Labelled | None:
    """Return what stands there already from the same command; None where there is work to do.

    Raises:
        UsageError: Another file stands there, or one made with other settings, or one that was
            finished without the failed rows that are to be tried again.
    """
    if not out.exists() or out.with_name(f"{out.name}.partial").exists():
        return None
    refused = f"{out}: already exists{{}}; name another --out, or delete it"
    try:
        report = parse_json(report_path(out).read_text("utf-8"))
        theirs, digest = report["settings"], report["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(refused.format(", and has no report that says how it was made")) from error
    message = difference(theirs, json.loads(json.dumps(dict(settings))))
    if message:
        raise UsageError(refused.format(f", made with other settings: {message}"))
    if digest != file_hash(out):
        raise UsageError(refused.format(", and has been changed since it was made"))
    if report["bad"] and not skip_bad:
        return None
    left_out = report["dropped"].get(_FAILED)
    if retry_failed and left_out:
        raise UsageError(
            refused.format(
                f", finished by --drop-failed without the rows whose model call failed ({left_out}): "
                "--retry-failed has nothing to go on from"
            )
        )
    return Labelled(
        path=out,
        rows=report["rows"],
        counts=report["counts"],
        dropped=report["dropped"],
        before=True,
    )


def write_out(
    out: Path,
    settings: Mapping[str, Any],
    labeler: Labeler,
    journal: LabelJournal,
    bad: Mapping[tuple[str, str], int],
    total: int,
) -> Labelled:
    """Write the file and its report, then remove the journal.

    Raises:
        UsageError: No question gave a row.
        TrainingStoppedError: The files cannot be written.
    """
    made = sorted((index, one) for index, one in journal.entries.items() if one.kind == "made")
    left_out = labeler.rows_to_drop([RowLabel(index, one.data, one.known) for index, one in made])
    counts: dict[str, Counter[str]] = {}
    dropped: Counter[str] = Counter()
    for data, reason, number in _without_row(journal, bad, left_out):
        counts.setdefault(data, Counter())["dropped"] += number
        dropped[reason] += number
    if len(made) == len(left_out):
        reasons = ", ".join(f"{number} {reason}" for reason, number in dropped.most_common())
        if not journal.paid:
            journal.remove()
        raise UsageError(f"no question gave a row: {reasons}")

    def lines() -> Iterator[bytes]:
        for index, entry in made:
            if index in left_out:
                continue
            row = journal.row(entry)
            here = counts.setdefault(entry.data, Counter())
            here["rows"] += 1
            here.update(labeler.count(row))
            yield (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "replace")

    try:
        digest = _write(out, lines())
        report: dict[str, Any] = {
            "settings": dict(settings),
            "questions": total,
            "rows": len(made) - len(left_out),
            "counts": {data: dict(sorted(one.items())) for data, one in sorted(counts.items())},
            "dropped": dict(sorted(dropped.items())),
            "bad": sum(bad.values()),
            "sha256": digest,
        }
        text = json.dumps(report, ensure_ascii=False, indent=2) + "\n"
        _write(report_path(out), iter([text.encode("utf-8", "replace")]))
    except OSError as error:
        raise TrainingStoppedError(
            f"{out}: cannot be written ({error.strerror}); all is kept in {journal.path}, and the "
            "same command finishes it"
        ) from error
    journal.remove()
    return Labelled(
        path=out, rows=report["rows"], counts=report["counts"], dropped=report["dropped"]
    )


def _without_row(
    journal: LabelJournal, bad: Mapping[tuple[str, str], int], left_out: Mapping[int, str]
) -> Iterator[tuple[str, str, int]]:
    """Yield data set, reason and number of the questions that give no row."""
    for (data, reason), number in bad.items():
        yield data, reason, number
    for index, entry in journal.entries.items():
        if index in left_out:
            yield entry.data, left_out[index], 1
        elif entry.kind != "made":
            yield entry.data, entry.message if entry.kind == "dropped" else _FAILED, 1


def _write(path: Path, pieces: Iterator[bytes]) -> str:
    """Write a file whole or not at all, the journal held; return its SHA-256, in hex."""
    with replacing(path, alone=True) as draft:
        with draft.open("wb") as stream:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
                    packed.writelines(pieces)
            else:
                stream.writelines(pieces)
        return file_hash(draft)
