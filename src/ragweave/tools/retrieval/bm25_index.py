"""BM25 over numbered passages: built as a stream, opened memory-mapped, extended without a rebuild.

The index holds each term's score in each passage, computed once (eager sparse scoring, as in
bm25s). The build's memory does not grow with the corpus, and the vocabulary takes eight bytes a
term: a sorted array of 64-bit hashes, in which a term's number is its index.

Source: Robertson and Zaragoza 2009; Lucene's variant by Kamphuis et al. 2020; eager scoring by Lù
2024 (bm25s).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

K1, B = 1.5, 0.75
_BLOCK = 2_000_000
"""Terms, repeats counted, or postings that are in memory at once."""
_RUN = 1024
"""Scores of which the highest is compared first."""
_MOST = np.iinfo(np.uint8).max

Block = tuple[NDArray[np.uint64], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Hashes of terms, ascending; then one posting a place, ascending: the term's index among these
hashes, the passage, and the count."""


def _hash(term: str) -> int:
    return int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "little")


def top_k(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the numbers of the k highest positive scores, best first, ties by number."""
    least = np.float32(0)
    if len(scores) > k * _RUN:
        highest = np.maximum.reduceat(scores, np.arange(0, len(scores), _RUN))
        least = np.partition(highest, len(highest) - k)[len(highest) - k]
    found = np.flatnonzero(scores >= least) if least > 0 else np.flatnonzero(scores > 0)
    values = scores[found]
    if len(found) > k:
        cut = np.partition(values, len(values) - k)[len(values) - k]
        found, values = found[values >= cut], values[values >= cut]
    return found[np.lexsort((found, -values))[:k]]


@dataclass(frozen=True)
class Bm25Index:
    """The scores of each term by passage: a sparse matrix in columns, one a term."""

    terms: NDArray[np.uint64]
    """Hashes of the terms, ascending."""
    starts: NDArray[np.int64]
    """Where each term's postings begin; one more than there are terms."""
    passages: NDArray[np.int32]
    """Passage numbers, ascending within a term."""
    counts: NDArray[np.uint8]
    """How often the passage contains the term."""
    scores: NDArray[np.float32]
    lengths: NDArray[np.int32]
    """Terms of each passage, repeats counted."""

    @classmethod
    def build(
        cls,
        passages: Iterable[list[str]],
        folder: Path | None = None,
        *,
        before: Bm25Index | None = None,
        keep: NDArray[np.bool_] | None = None,
    ) -> Bm25Index:
        """Index the terms of each passage, in memory or into the files of a folder.

        Memory grows with the vocabulary, and by 4 bytes a passage; until the end a temporary file
        has 12 bytes for each distinct term of each passage, and 8 for each term of a block.

        Args:
            passages: One list of terms a passage; read once.
            folder: An existing folder.
            before: An index to extend; the new passages are numbered behind its own.
            keep: Which of its passages stay, renumbered in their order; None: all.
        """
        base = _merged(list, np.zeros(0, np.int32), None) if before is None else before
        stay = np.ones(len(base.lengths), dtype=bool) if keep is None else keep
        with TemporaryFile(dir=folder) as spill:
            lengths, blocks = _spilled(passages, spill)

            def postings() -> Iterator[Block]:
                yield from _staying(base, stay)
                spill.seek(0)
                for _ in range(blocks):
                    terms, numbers, found, counts = (np.load(spill) for _ in range(4))
                    yield terms, numbers, found + np.int32(stay.sum()), counts

            return _merged(postings, np.concatenate([base.lengths[stay], lengths]), folder)

    @classmethod
    def open(cls, folder: Path) -> Bm25Index:
        """Open the files of a folder memory-mapped; `OSError` or `ValueError` if one is missing or damaged."""
        made = cls(*(_load(_path(folder, field.name)) for field in fields(cls)))
        if len(made.starts) != len(made.terms) + 1 or made.starts[-1] != len(made.scores):
            raise ValueError("the arrays of the BM25 index do not fit each other")
        return made

    def score(self, terms: list[str]) -> NDArray[np.float32]:
        """Return one score a passage; a repeated term counts each time."""
        scores = np.zeros(len(self.lengths), dtype=np.float32)
        hashes = np.array([_hash(term) for term in terms], dtype=np.uint64)
        places = np.searchsorted(self.terms, hashes)
        for place, wanted in zip(places.tolist(), hashes, strict=True):
            if place < len(self.terms) and self.terms[place] == wanted:
                span = slice(int(self.starts[place]), int(self.starts[place + 1]))
                np.add.at(scores, self.passages[span], self.scores[span])
        return scores


def _path(folder: Path, name: str) -> Path:
    return folder / f"bm25-{name}.npy"


def _load(path: Path) -> NDArray[Any]:
    # A plain array over the mapped memory: numpy's memmap class makes every slice slow.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


class _Hashes(dict[str, int]):
    """Terms to their hashes."""

    def __missing__(self, term: str) -> int:
        made = self[term] = _hash(term)
        return made


def _spilled(passages: Iterable[list[str]], spill: BinaryIO) -> tuple[NDArray[np.int32], int]:
    """Write the postings of passages into a file, block by block; return the lengths and how many blocks."""
    hashed = _Hashes().__getitem__
    lengths, terms = array("i"), array("Q")
    first = blocks = 0

    def write() -> None:
        nonlocal first, blocks, terms
        size = len(lengths) - first
        hashes, numbers = np.unique(np.frombuffer(terms, np.uint64), return_inverse=True)
        keys = numbers * size + np.repeat(np.arange(size), np.frombuffer(lengths, np.int32)[first:])
        distinct, counts = np.unique(keys, return_counts=True)
        numbers, found = np.divmod(distinct, size)
        for column in (hashes, numbers.astype(np.int32), (found + first).astype(np.int32), counts.astype(np.int32)):
            np.save(spill, column)
        first, blocks, terms = len(lengths), blocks + 1, array("Q")

    for one in passages:
        terms.extend(map(hashed, one))
        lengths.append(len(one))
        if len(terms) >= _BLOCK:
            write()
    if terms:
        write()
    return np.array(lengths, dtype=np.int32), blocks


def _staying(base: Bm25Index, keep: NDArray[np.bool_]) -> Iterator[Block]:
    """Read the postings of an index whose passages stay, these renumbered."""
    numbers = np.cumsum(keep, dtype=np.int32) - 1
    first = 0
    while first < len(base.terms):
        until = np.searchsorted(base.starts, base.starts[first] + _BLOCK, "right") - 1
        last = max(first + 1, int(until))
        span = slice(int(base.starts[first]), int(base.starts[last]))
        terms = np.repeat(np.arange(last - first), np.diff(base.starts[first : last + 1]))
        passages = base.passages[span]
        stay = keep[passages]
        yield base.terms[first:last], terms[stay], numbers[passages[stay]], base.counts[span][stay]
        first = last


def _merged(postings: Callable[[], Iterable[Block]], lengths: NDArray[np.int32], folder: Path | None) -> Bm25Index:
    """Write the index of postings, which are read twice."""
    hashes, df = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    for terms, numbers, _, _ in postings():
        own = np.bincount(numbers, minlength=len(terms))
        terms, own = terms[own > 0], own[own > 0]
        union = np.union1d(hashes, terms)
        total = np.zeros(len(union), np.int64)
        total[np.searchsorted(union, hashes)] = df
        total[np.searchsorted(union, terms)] += own
        hashes, df = union, total
    size = int(df.sum())
    made = Bm25Index(
        _array(folder, "terms", np.uint64, len(hashes)),
        _array(folder, "starts", np.int64, len(hashes) + 1),
        _array(folder, "passages", np.int32, size),
        _array(folder, "counts", np.uint8, size),
        _array(folder, "scores", np.float32, size),
        _array(folder, "lengths", np.int32, len(lengths)),
    )
    made.terms[:], made.starts[0], made.starts[1:], made.lengths[:] = hashes, 0, np.cumsum(df), lengths
    idf = np.log(1 + (len(lengths) - df + 0.5) / (df + 0.5)).astype(np.float32)
    cursor, mean = np.array(made.starts[:-1]), lengths.mean() if len(lengths) else 1.0
    for terms, numbers, passages, counts in postings():
        if not len(numbers):
            continue
        places = np.searchsorted(hashes, terms)[numbers]
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        often = np.diff(first, append=len(numbers))
        at = np.repeat(cursor[places[first]] - first, often) + np.arange(len(numbers))
        cursor[places[first]] += often
        tf = np.minimum(counts, _MOST).astype(np.float32)
        made.passages[at], made.counts[at] = passages, tf
        made.scores[at] = idf[places] * (tf / (K1 * ((1 - B) + B * lengths[passages] / mean) + tf))
    return made


def _array(folder: Path | None, name: str, dtype: Any, length: int) -> NDArray[Any]:
    if folder is None:
        return np.empty(length, dtype)
    if not length:  # an empty file cannot be mapped
        np.save(_path(folder, name), np.empty(0, dtype))
        return np.empty(0, dtype)
    return np.asarray(np.lib.format.open_memmap(_path(folder, name), "w+", dtype, (length,)))
