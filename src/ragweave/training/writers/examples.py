"""What a part that writes text learns from, as text and as tokens, and how it is measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ragweave.tools.text.normalize import normalize_answer
from ragweave.trained.card import PartRole
from ragweave.trained.forms import (
    KNOWN,
    LEADS,
    UNKNOWN,
    PartInput,
    documents,
    filter_input,
    filter_target,
    generator_input,
    judge_input,
    kept_passages,
    truncate_input,
    truncate_target,
    verdict,
)
from ragweave.trained.writers import TextWriter, input_limit, without_end
from ragweave.training.job import Settings
from ragweave.training.measures import auc
from ragweave.training.rows import JudgeRow, RewriteRow, SilverRow, TrainingRow, by_passage
from ragweave.training.trainer.arguments import any_process, gathered, share


class Example(NamedTuple):
    """A row as texts."""

    given: PartInput
    target: str
    accepted: Sequence[str]
    """Outputs that count as right when measuring; the target first."""


class Tokens(NamedTuple):
    """A row as token ids; the target ends in the end token."""

    given: list[int]
    target: list[int]


def example(role: PartRole, row: TrainingRow) -> Example:
    """Return what a part of this role reads and must write for a row."""
    if role == "judge":
        judged = cast("JudgeRow", row)
        target = verdict(judged["known"])
        return Example(judge_input(judged["question"], judged["draft"]), target, [target])
    if role == "rewriter":
        rewritten = cast("RewriteRow", row)
        target = rewritten["target"]
        return Example(judge_input(rewritten["question"], rewritten["draft"]), target, [target])
    silver = cast("SilverRow", row)
    passages = documents(silver["passages"])
    if role == "filter":
        target = filter_target(silver["spans"])
        return Example(filter_input(silver["question"], passages), target, [target])
    kept = kept_passages(passages, silver["spans"], may_be_none=by_passage(silver))
    answers = silver["answers"]
    return Example(generator_input(silver["question"], kept), answers[0], answers)


@dataclass
class Encoder:
    """Turns examples into tokens, within the limits, and counts what it had to cut."""

    tokenizer: Any
    role: PartRole
    causal: bool
    max_input: int
    max_output: int
    counts: Counter[str] = field(default_factory=Counter)
    """`inputs_cut`, `targets_cut`, `targets_empty`, `targets_with_unknown_tokens`."""

    def tokens(self, row: TrainingRow) -> Tokens:
        """Return a row's tokens.

        Raises:
            UsageError: The question alone is too long.
        """
        one = example(self.role, row)
        given = one.given
        if self.causal:
            given = given._replace(tail=given.tail + LEADS[self.role])
        fitted = truncate_input(self.tokenizer, given, self.max_input)
        target = truncate_target(self.tokenizer, one.target, self.max_output)
        end = self.tokenizer.eos_token_id
        self.counts["inputs_cut"] += fitted.cut
        self.counts["targets_cut"] += target.cut
        self.counts["targets_empty"] += not one.target
        self.counts["targets_with_unknown_tokens"] += self.tokenizer.unk_token_id in target.tokens
        read = without_end(fitted.tokens, end if self.causal else None)
        return Tokens(read, [*target.tokens, end])

    def features(self, row: TrainingRow) -> dict[str, list[int]]:
        """Return a row for the trainer; only the target's tokens have labels (the rest -100)."""
        given, target = self.tokens(row)
        if not self.causal:
            return {"input_ids": given, "labels": target}
        return {"input_ids": given + target, "labels": [-100] * len(given) + target}


class EncodedRows(Sequence[dict[str, list[int]]]):
    """Rows for a trainer, kept as 4-byte numbers: lists of Python's own take nine times as much."""

    def __init__(self, encode: Encoder, rows: Iterable[TrainingRow]) -> None:
        """Encode all rows."""
        self._rows = [
            {name: np.asarray(ids, np.int32) for name, ids in encode.features(row).items()}
            for row in rows
        ]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        """Return a row as the trainer's collator takes it."""
        return {name: ids.tolist() for name, ids in self._rows[place].items()}

    def columns(self) -> dict[str, list[NDArray[np.int32]]]:
        """Return all rows by column."""
        return {name: [row[name] for row in self._rows] for name in self._rows[0]}


def encoder(tokenizer: Any, config: Any, role: PartRole, settings: Settings) -> Encoder:
    """Return the encoder for a model's tokenizer and configuration."""
    limit = input_limit(config, settings.max_input, settings.max_output)
    causal = not config.is_encoder_decoder
    return Encoder(tokenizer, role, causal, limit, settings.max_output)


def shown(encode: Encoder, rows: Iterable[TrainingRow]) -> Iterator[tuple[str, str]]:
    """Yield input and target of each row as the model sees them, special tokens and all."""
    for row in rows:
        given, target = encode.tokens(row)
        yield encode.tokenizer.decode(given), encode.tokenizer.decode(target)


MARKS = "<>"
"""Marks of verdicts and claims, which T5's vocabulary lacks."""


def add_marks(tokenizer: Any) -> int:
    """Teach a tokenizer the marks that it would read as unknown; return how many."""
    from tokenizers import AddedToken

    unknown = tokenizer.unk_token_id
    lacking = [
        mark
        for mark in MARKS
        if unknown in tokenizer(mark, add_special_tokens=False, verbose=False)["input_ids"]
    ]
    return int(tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in lacking]))


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
    targets = [truncate_target(writer.tokenizer, one.target, writer.max_output) for one in examples]
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
        text: len(truncate_target(writer.tokenizer, text, room).tokens) + 1
        for text in (KNOWN, UNKNOWN)
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
