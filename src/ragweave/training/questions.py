"""Which questions a part has learnt from: as marks, so that a folder gives no question away.

A training that begins from another part measures itself on questions that neither has seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ragweave.errors import UsageError
from ragweave.tools.files import write_atomic
from ragweave.training.rows import TrainingRow
from ragweave.training.splits import question_key

QUESTIONS = "questions.json"
_BYTES = 8


def mark_of(row: TrainingRow) -> str:
    """Return the mark of a row's question: 16 hex digits of its normalised text's hash."""
    key = question_key(row).encode("utf-8", "replace")
    return hashlib.blake2b(key, digest_size=_BYTES).hexdigest()


def read_marks(folder: Path) -> frozenset[str]:
    """Return the marks of the questions that a part has learnt from; none where it keeps none.

    Raises:
        UsageError: The file is damaged.
    """
    path = folder / QUESTIONS
    if not path.is_file():
        return frozenset()
    try:
        marks = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__})") from error
    if not isinstance(marks, list) or not all(isinstance(one, str) for one in marks):
        raise UsageError(f"{path}: is no list of marks")
    return frozenset(marks)


def write_marks(folder: Path, rows: Iterable[TrainingRow], before: Collection[str]) -> None:
    """Write the marks of these rows' questions, and of those learnt before."""
    marks = sorted({*map(mark_of, rows), *before})
    write_atomic(folder / QUESTIONS, json.dumps(marks) + "\n")


def check_unseen(held_out: Sequence[TrainingRow], seen: Collection[str], base: str) -> None:
    """Check that the base part has not learnt from held-out questions.

    Raises:
        UsageError: It has; the text names the rows.
    """
    learnt = [row for row in held_out if mark_of(row) in seen]
    if learnt:
        named = "; ".join(f"{row['question']!r} (row {row['id']})" for row in learnt[:5])
        more = f"; and {len(learnt) - 5} more" if len(learnt) > 5 else ""
        raise UsageError(
            f"{base}: has learnt from {len(learnt)} of the held-out questions: {named}{more}"
        )
