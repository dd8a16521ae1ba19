"""From training rows to what a large part reads and writes, in text and in tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ragweave.tools.parts.card import PartRole
from ragweave.tools.parts.fitting import fit_input, fit_target
from ragweave.tools.parts.forms import (
    LEADS,
    PartInput,
    documents,
    filter_input,
    filter_target,
    generator_input,
    judge_input,
    kept_passages,
    verdict,
)
from ragweave.tools.parts.generation import without_end
from ragweave.tools.parts.writers import input_limit
from ragweave.training.rows import JudgeRow, RewriteRow, SilverRow, TrainingRow
from ragweave.training.settings import Settings


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
    kept = kept_passages(passages, silver["spans"])
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
        fitted = fit_input(self.tokenizer, given, self.max_input)
        target = fit_target(self.tokenizer, one.target, self.max_output)
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
