"""BM25 over numbered passages: built as a stream, opened memory-mapped, extended without a rebuild.

The index holds each term's score in each passage, except its inverse document frequency, computed once (eager sparse
scoring, as in bm25s). A build writes blocks of postings sorted by term, then merges them, one range of terms at a
time: its memory does not grow with the postings. The vocabulary takes eight bytes a term: a sorted
array of 64-bit hashes, in which a term's number is its index.

Source: Robertson and Zaragoza 2009; Lucene's variant by Kamphuis et al. 2020; eager scoring by Lù
2024 (bm25s).
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial, reduce
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

K1, B = 1.5, 0.75
_BLOCK = 1_000_000
"""Terms, repeats counted, or postings that are in memory at once."""
_RUN = 1024
"""Scores of which the highest is compared first."""
_MAX_COUNT = np.iinfo(np.uint8).max
_TYPES = {
    "terms": np.uint64,
    "starts": np.int64,
    "passages": np.int32,
    "counts": np.uint8,
    "scores": np.float32,
    "lengths": np.int32,
}


def _hash(term: str) -> int:
    return int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "little")


def top_k(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the numbers of the k highest positive scores, best first, ties by number."""
    least = np.float32(0)
    if len(scores) > k * _RUN:
        highest = np.maximum.reduceat(scores, np.arange(0, len(scores), _RUN))
        least = np.partition(highest, len(highest) - k)[len(highest) - k]
    numbers = np.flatnonzero(scores >= least) if least > 0 else np.flatnonzero(scores > 0)
    values = scores[numbers]
    if len(numbers) > k:
        cut = np.partition(values, len(values) - k)[len(values) - k]
        numbers, values = numbers[values >= cut], values[values >= cut]
    return numbers[np.lexsort((numbers, -values))[:k]]


def mapped(path: Path, dtype: Any) -> NDArray[Any]:
    """Return the array in a file, memory-mapped; `OSError` or `ValueError` if it is missing or damaged."""
    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    # A plain array over the mapped memory: numpy's memmap class makes every slice slow.
    return np.asarray(np.memmap(path, dtype, "r"))


@dataclass(frozen=True)
class Postings:
    """Which passages have which terms."""

    terms: NDArray[np.uint64]
    """Hashes of the terms, ascending."""
    starts: NDArray[np.int64]
    """Where each term's postings begin; one more than there are terms."""
    passages: NDArray[np.int32]
    """Passage numbers, ascending within a term."""
    counts: NDArray[np.uint8]
    """How often the passage contains the term."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the files of a folder memory-mapped; `OSError` or `ValueError` if one is missing or damaged."""
        index = cls(*(mapped(_path(folder, field.name), _TYPES[field.name]) for field in fields(cls)))
        sizes = {field.name: len(getattr(index, field.name)) for field in fields(cls)}
        columns = {sizes.get(name, sizes["passages"]) for name in ("passages", "counts", "scores")}
        if sizes["starts"] != sizes["terms"] + 1 or columns != {index.starts[-1]}:
            raise ValueError("the arrays of the BM25 index do not fit each other")
        return index

    def write(self, folder: Path) -> Path:
        """Write the arrays into the files of a folder, and return it."""
        folder.mkdir(exist_ok=True)
        for field in fields(self):
            getattr(self, field.name).tofile(_path(folder, field.name))
        return folder

    def between(self, terms: NDArray[np.uint64]) -> tuple[NDArray[Any], ...]:
        """Return the postings of consecutive terms: each term's number among these, passages and counts."""
        low, high = np.searchsorted(self.terms, terms[0]), np.searchsorted(self.terms, terms[-1], "right")
        span = slice(self.starts[low], self.starts[high])
        numbers = np.repeat(np.searchsorted(terms, self.terms[low:high]), np.diff(self.starts[low : high + 1]))
        return numbers, self.passages[span], self.counts[span]


@dataclass(frozen=True)
class Bm25Index(Postings):
    """The scores of each term by passage: a sparse matrix with a column for each term.

    Inverse document frequency is multiplied when a query is scored: it is that of several indexes together.
    """

    scores: NDArray[np.float32]
    lengths: NDArray[np.int32]
    """Terms of each passage, repeats counted."""

    @classmethod
    def of(cls, passages: Iterable[list[str]]) -> Bm25Index:
        """Index the terms of each passage in memory."""
        with TemporaryDirectory() as folder:
            cls.build(passages, Path(folder))
            return cls(*(np.fromfile(_path(Path(folder), name), dtype) for name, dtype in _TYPES.items()))

    @classmethod
    def build(
        cls,
        passages: Iterable[list[str]],
        folder: Path,
        *,
        before: Bm25Index | None = None,
        keep: NDArray[np.bool_] | None = None,
        average: float | None = None,
    ) -> NDArray[np.int32]:
        """Index the terms of each passage into the files of a folder, and return how many terms each has.

        Memory grows with the vocabulary, and by 25 bytes a passage; until the end temporary files have 5
        bytes for each distinct term of each passage, and 16 for each term of a block.

        Args:
            passages: One list of terms a passage; read once.
            folder: An existing folder.
            before: An index to extend; the new passages get the numbers after its own.
            keep: Which of its passages stay, renumbered in their order; None: all.
            average: Terms of an average passage, if it is not that of these passages.
        """
        base = before or EMPTY
        lengths = array("i", base.lengths.tobytes())
        with TemporaryDirectory(dir=folder) as spill:
            blocks: list[Callable[[], Postings]] = [lambda: base]
            last: Postings = EMPTY  # stays in memory: few passages need no files
            for number, block in enumerate(_counted(passages, lengths)):
                if len(last.terms):
                    # Opened for a moment each time: mapped memory counts as the process's.
                    blocks.append(partial(Postings.open, last.write(Path(spill, str(number)))))
                last = block
            blocks.append(lambda: last)
            stay = np.ones(len(lengths), dtype=bool)
            if keep is not None:
                stay[: len(keep)] = keep
            _merge(blocks, np.array(lengths), stay, folder, average)
            return np.array(lengths)[stay]

    def score(self, terms: list[str], more: Sequence[Bm25Index] = ()) -> NDArray[np.float32]:
        """Return a score for each passage, and for those of more indexes after them; a repeated term counts each time."""
        indexes = [self, *more]
        scores = [np.zeros(len(index.lengths), dtype=np.float32) for index in indexes]
        total = sum(map(len, scores))
        for term, count in Counter(terms).items():
            spans = [index.span(term) for index in indexes]
            frequency = sum(span.stop - span.start for span in spans)
            worth = np.float32(count * math.log(1 + (total - frequency + 0.5) / (frequency + 0.5)))
            for index, own, span in zip(indexes, scores, spans, strict=True):
                np.add.at(own, index.passages[span], index.scores[span] * worth)
        return scores[0] if len(scores) == 1 else np.concatenate(scores)

    def span(self, term: str) -> slice:
        """Return where the postings of a term stand."""
        wanted = np.uint64(_hash(term))
        place = int(np.searchsorted(self.terms, wanted))
        if place < len(self.terms) and self.terms[place] == wanted:
            return slice(int(self.starts[place]), int(self.starts[place + 1]))
        return slice(0, 0)


EMPTY = Bm25Index(*(np.zeros(int(name == "starts"), dtype) for name, dtype in _TYPES.items()))


def _counted(passages: Iterable[list[str]], lengths: array[int]) -> Iterator[Postings]:
    """Count the terms of passages, block by block, and append the passages' lengths to those before."""
    hashed = cache(_hash)
    terms, first = array("Q"), len(lengths)
    for passage in passages:
        terms.extend(map(hashed, passage))
        lengths.append(len(passage))
        if len(terms) >= _BLOCK:
            yield _block(terms, np.array(lengths[first:]), first)
            terms, first = array("Q"), len(lengths)
    if terms:
        yield _block(terms, np.array(lengths[first:]), first)


def _block(terms: array[int], lengths: NDArray[np.int32], first: int) -> Postings:
    hashes, numbers = np.unique(np.frombuffer(terms, np.uint64), return_inverse=True)
    keys = numbers * len(lengths) + np.repeat(np.arange(len(lengths)), lengths)
    distinct, counts = np.unique(keys, return_counts=True)
    numbers, passages = np.divmod(distinct, len(lengths))
    starts = np.searchsorted(numbers, np.arange(len(hashes) + 1))
    return Postings(
        hashes, starts, (passages + first).astype(np.int32), np.minimum(counts, _MAX_COUNT).astype(np.uint8)
    )


def _merge(
    blocks: Sequence[Callable[[], Postings]],
    lengths: NDArray[np.int32],
    stay: NDArray[np.bool_],
    folder: Path,
    average: float | None,
) -> None:
    """Write the index of blocks of postings, without those of passages that do not stay."""
    renumbered = np.cumsum(stay, dtype=np.int32) - 1
    lengths = lengths[stay]
    average = average or max(float(lengths.sum()), 1) / max(len(lengths), 1)
    norms = K1 * ((1 - B) + B * lengths / average)
    terms = reduce(np.union1d, (block().terms for block in blocks))
    max_postings = np.zeros(len(terms) + 1, np.int64)
    for block in blocks:
        max_postings[1 + np.searchsorted(terms, block().terms)] += np.diff(block().starts)
    replace(EMPTY, lengths=lengths).write(folder)
    total = 0
    for span in _ranges(np.cumsum(max_postings)):
        columns_of_blocks = zip(*(block().between(terms[span]) for block in blocks), strict=True)
        numbers, passages, counts = map(np.concatenate, columns_of_blocks)
        order = np.flatnonzero(stay[passages])
        order = order[np.argsort(numbers[order], kind="stable")]
        numbers, passages, counts = numbers[order], renumbered[passages[order]], counts[order]
        sizes = np.bincount(numbers, minlength=span.stop - span.start)
        columns = {
            "terms": terms[span][sizes > 0],
            "starts": total + np.cumsum(sizes[sizes > 0]),
            "passages": passages,
            "counts": counts,
            "scores": (counts / (norms[passages] + counts)).astype(np.float32),
        }
        for name, column in columns.items():
            with _path(folder, name).open("ab") as file:
                column.tofile(file)
        total += len(numbers)


def _ranges(starts: NDArray[np.int64]) -> Iterator[slice]:
    """Yield ranges of terms with at most `_BLOCK` postings, or of a single term."""
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _BLOCK, "right")) - 1)
        yield slice(first, last)
        first = last


def _path(folder: Path, name: str) -> Path:
    return folder / f"bm25-{name}"
