"""Measures of parts that write text, on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ragweave.tools.parts.card import PartRole
from ragweave.tools.parts.fitting import fit_target
from ragweave.tools.parts.forms import KNOWN, UNKNOWN
from ragweave.tools.parts.writers import TextWriter
from ragweave.tools.text.normalize import normalize_answer
from ragweave.training.large.examples import Example, example
from ragweave.training.measures import auc
from ragweave.training.rows import TrainingRow
from ragweave.training.running.processes import any_process, gathered, share

WRITTEN = 200
"""Most held-out rows that are written out for the exact match: writing is slow, a loss is not."""

_CHUNK = 64


class _Row(NamedTuple):
    """What was measured of one row."""

    logprob: float
    tokens: int
    margin: float | None
    known: bool
    exact: bool | None


def measure(
    writer: TextWriter, rows: Sequence[TrainingRow], stop_wanted: Callable[[], bool]
) -> dict[str, Any] | None:
    """Return the loss a token of the target and, by role, how often the output is right.

    A judge is measured by the margin of its two verdicts (`accuracy`, `auc`), the others by exact
    match of at most `WRITTEN` rows: a generator's normalised answer with any gold answer, other
    outputs word by word with their target.

    Returns:
        The measures, or None: there are no rows, or somebody wanted to stop.
    """
    was_training = writer.model.training
    writer.model.eval()
    measured: list[_Row] = []
    broken_off = False
    written = {row["id"] for row in islice(rows, WRITTEN)}
    mine = share(rows)
    for first in range(0, len(mine), _CHUNK):
        if stop_wanted():
            broken_off = True
            break
        measured += _chunk(writer, mine[first : first + _CHUNK], written)
    writer.model.train(was_training)
    if any_process(broken_off):
        return None
    return _summed(writer.role, gathered(measured))


def _chunk(writer: TextWriter, rows: Sequence[TrainingRow], written: set[str]) -> list[_Row]:
    examples = [example(writer.role, row) for row in rows]
    if writer.role == "judge":
        return _judged(writer, examples)
    targets = [fit_target(writer.tokenizer, one.target, writer.max_output) for one in examples]
    pairs = [(one.given, target.text) for one, target in zip(examples, targets, strict=True)]
    scores = writer.score(pairs)
    shown = [i for i, row in enumerate(rows) if row["id"] in written]
    texts = writer.write([examples[i].given for i in shown])
    exact = {
        i: right(writer.role, text.text, examples[i].accepted)
        for i, text in zip(shown, texts, strict=True)
    }
    return [
        _Row(score, len(target.tokens) + 1, None, False, exact.get(i))
        for i, (score, target) in enumerate(zip(scores, targets, strict=True))
    ]


def _judged(writer: TextWriter, examples: Sequence[Example]) -> list[_Row]:
    pairs = [(one.given, text) for one in examples for text in (KNOWN, UNKNOWN)]
    scores = writer.score(pairs)
    room = writer.max_output
    lengths = {
        text: len(fit_target(writer.tokenizer, text, room).tokens) + 1 for text in (KNOWN, UNKNOWN)
    }
    return [
        _Row(
            logprob=yes if one.target == KNOWN else no,
            tokens=lengths[one.target],
            margin=yes - no,
            known=one.target == KNOWN,
            exact=None,
        )
        for one, yes, no in zip(examples, scores[::2], scores[1::2], strict=True)
    ]


def right(role: PartRole, output: str, accepted: Sequence[str]) -> bool:
    """Tell whether an output is one of those accepted."""
    if role == "generator":
        return normalize_answer(output) in map(normalize_answer, accepted)
    return output.split() in [text.split() for text in accepted]


def _summed(role: PartRole, rows: Sequence[_Row]) -> dict[str, Any] | None:
    if not rows:
        return None
    measures: dict[str, Any] = {
        "loss": -math.fsum(row.logprob for row in rows) / sum(row.tokens for row in rows),
        "rows": len(rows),
    }
    if role == "judge":
        margins = [row.margin or 0.0 for row in rows]
        known = [row.known for row in rows]
        hits = [(margin > 0) == label for margin, label in zip(margins, known, strict=True)]
        measures["accuracy"] = sum(hits) / len(hits)
        if len(set(known)) == 2:
            measures["auc"] = auc(margins, known)
        return measures
    exact = [row.exact for row in rows if row.exact is not None]
    return {**measures, "exact_match": sum(exact) / len(exact), "exact_match_rows": len(exact)}
