"""The finished file: rows in source order, whole or not at all, and the report beside it."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.datasets.files import file_hash
from ragweave.tools.files import replacing
from ragweave.training.errors import TrainingStoppedError
from ragweave.training.labels.maker import Labeler, Mark
from ragweave.training.labels.partial import LabelJournal, difference


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


def finished(out: Path, settings: Mapping[str, Any], *, skip_bad: bool) -> Labelled | None:
    """Return what stands there already from the same command; None where there is work to do.

    Raises:
        UsageError: Another file stands there, or one made with other settings.
    """
    if not out.exists() or out.with_name(f"{out.name}.partial").exists():
        return None
    refused = f"{out}: stands there already{{}}; name another --out, or delete it"
    try:
        report = json.loads(report_path(out).read_text("utf-8"))
        theirs, digest = report["settings"], report["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            refused.format(", and no report beside it says how it was made")
        ) from error
    message = difference(theirs, json.loads(json.dumps(dict(settings))))
    if message:
        raise UsageError(refused.format(f", made with other settings: {message}"))
    if digest != file_hash(out):
        raise UsageError(refused.format(", and has been changed since it was made"))
    if report["bad"] and not skip_bad:
        return None
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
    """Write the file and its report, then forget what was kept for going on.

    Raises:
        UsageError: No question gave a row.
        TrainingStoppedError: The files cannot be written.
    """
    made = sorted((at, one) for at, one in journal.entries.items() if one.kind == "made")
    surplus = labeler.surplus([Mark(at, one.data, one.known) for at, one in made])
    counts: dict[str, Counter[str]] = {}
    dropped: Counter[str] = Counter()
    for data, reason, number in _lost(journal, bad, surplus):
        counts.setdefault(data, Counter())["dropped"] += number
        dropped[reason] += number
    if len(made) == len(surplus):
        reasons = ", ".join(f"{number} {reason}" for reason, number in dropped.most_common())
        if not journal.paid:
            journal.remove()
        raise UsageError(f"no question gave a row: {reasons}")

    def lines() -> Iterator[bytes]:
        for at, entry in made:
            if at in surplus:
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
            "rows": len(made) - len(surplus),
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


def _lost(
    journal: LabelJournal, bad: Mapping[tuple[str, str], int], surplus: Mapping[int, str]
) -> Iterator[tuple[str, str, int]]:
    """Yield data set, reason and number of the questions that give no row."""
    for (data, reason), number in bad.items():
        yield data, reason, number
    for at, entry in journal.entries.items():
        if at in surplus:
            yield entry.data, surplus[at], 1
        elif entry.kind != "made":
            yield entry.data, entry.message if entry.kind == "dropped" else "model call failed", 1


def _write(path: Path, pieces: Iterator[bytes]) -> str:
    """Write a file whole or not at all; return its SHA-256, in hex."""
    with replacing(path) as draft:
        with draft.open("wb") as stream:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
                    packed.writelines(pieces)
            else:
                stream.writelines(pieces)
        return file_hash(draft)
