"""From silver rows to what a span encoder learns from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, cast

from ragweave.tools.parts.spans.reading import Read, Reader, Sheet, Text, Window
from ragweave.training.rows import SilverRow, TrainingRow
from ragweave.training.small.sentences import LabelledSpan, sentences_of

_LONGEST = 16
"""Most tokens of an answer that is looked for: longer ones are sentences themselves."""
_LOOSE = ("strinc",)
"""Measures that keep what holds the answer's words, whether or not it says so."""


class Example(NamedTuple):
    """A row, read; its sentences are numbered through, over all of its passages."""

    read: Read
    gold: list[int]
    """Numbers of the sentences to keep, at least one, and not all."""
    sizes: list[int]
    """Words of each sentence."""
    every: bool
    """Whether each of them is right by itself, or only one of them need be."""
    answers: list[list[bool]]
    """Which tokens of each window are an answer's, in a sentence to keep."""


class Sorted(NamedTuple):
    """The rows that teach something, and how many teach nothing."""

    examples: list[Example]
    empty: int
    """Rows that keep no sentence: a softmax over sentences has no place for none."""
    whole: int
    """Rows that keep every sentence."""


def examples_of(rows: Sequence[TrainingRow], reader: Reader) -> Sorted:
    """Read rows; all passages of a row are one example, so those that hold nothing teach too."""
    made, empty, whole = [], 0, 0
    for row in rows:
        found = sentences_of(cast("SilverRow", row))
        kept = sum(one.keep for one in found)
        if not kept:
            empty += 1
        elif kept == len(found):
            whole += 1
        else:
            made.append(_example(cast("SilverRow", row), found, reader))
    return Sorted(made, empty, whole)


def sheet_of(row: SilverRow, found: Sequence[LabelledSpan]) -> Sheet:
    """Return the sheet that a filter in use reads of such passages."""
    titles = {one["id"]: one["title"] for one in row["passages"]}
    groups = groupby(found, key=lambda one: one.span["passage_id"])
    texts = [Text(titles[name], [one.span["text"] for one in group]) for name, group in groups]
    return Sheet(row["question"], texts)


def _example(row: SilverRow, found: Sequence[LabelledSpan], reader: Reader) -> Example:
    read = reader.read(sheet_of(row, found))
    gold = [at for at, one in enumerate(found) if one.keep]
    wanted = [ids for ids in reader.tokens(row["answers"]) if 0 < len(ids) <= _LONGEST]
    measure = (row.get("source") or {}).get("measure")
    return Example(
        read,
        gold,
        [len(one.span["text"].split()) for one in found],
        measure not in _LOOSE,
        [answer_tokens(window, wanted, set(gold)) for window in read.windows],
    )


def answer_tokens(
    window: Window, wanted: Sequence[Sequence[int]], gold: Collection[int]
) -> list[bool]:
    """Mark the tokens of `gold` sentences that stand in one of the sequences `wanted`."""
    marks = [False] * len(window.ids)
    for first, size in _places(window, wanted):
        owners = window.owners[first : first + size]
        if owners[0] in gold and owners[0] == owners[-1]:
            marks[first : first + size] = [True] * size
    return marks


def _places(window: Window, wanted: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    for ids in map(list, wanted):
        for at, one in enumerate(window.ids):
            if one == ids[0] and window.ids[at : at + len(ids)] == ids:
                yield at, len(ids)
