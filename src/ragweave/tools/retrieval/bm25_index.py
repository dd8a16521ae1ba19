"""BM25 over numbered passages: built as a stream, opened memory-mapped, extended without a rebuild.

The index holds each term's score in each passage, computed once (eager sparse scoring, as in
bm25s). The build's memory does not grow with the corpus, and the vocabulary takes eight bytes a
term: a sorted array of 64-bit hashes, in which a term's number is its index.

Source: Robertson and Zaragoza 2009; Lucene's variant by Kamphuis et al. 2020; eager scoring by Lù
2024 (bm25s).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
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

Block = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""Numbers of terms and passages, and counts: one posting a place, the postings of a term together."""


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
        has 12 bytes for each distinct term of each passage.

        Args:
            passages: One list of terms a passage; read once.
            folder: Where the files go; it exists.
            before: An index to extend; the new passages are numbered behind its own.
            keep: Which of its passages stay, renumbered in their order; None: all.
        """
        base = _empty() if before is None else before
        stay = np.ones(len(base.lengths), dtype=bool) if keep is None else keep
        with TemporaryFile(dir=folder) as spill:
            new = _Counted(spill)
            new.take(passages)
            return _merged(base, stay, new, folder)

    @classmethod
    def open(cls, folder: Path) -> Bm25Index:
        """Open the files of a folder memory-mapped.

        Raises:
            OSError: One is missing.
            ValueError: One is damaged.
        """
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


def _empty() -> Bm25Index:
    none = np.zeros(0, np.int32)
    return Bm25Index(
        none.astype(np.uint64), np.zeros(1, np.int64), none, none.astype(np.uint8), none.astype(np.float32), none
    )


def _path(folder: Path, name: str) -> Path:
    return folder / f"bm25-{name}.npy"


def _load(path: Path) -> NDArray[Any]:
    # A plain array over the mapped memory: numpy's memmap class makes every slice slow.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


class _Numbers(dict[str, int]):
    """Terms to numbers in order of appearance; terms of one hash share a number."""

    def __init__(self) -> None:
        super().__init__()
        self.hashes: dict[int, int] = {}

    def __missing__(self, term: str) -> int:
        number = self[term] = self.hashes.setdefault(_hash(term), len(self.hashes))
        return number


class _Counted:
    """Counts the terms of passages, block by block, into a temporary file."""

    def __init__(self, spill: BinaryIO) -> None:
        self._spill = spill
        self._numbers = _Numbers()
        self._lengths, self._terms = array("i"), array("i")
        self._first = 0
        self._blocks: list[int] = []
        self.df = np.zeros(0, dtype=np.int64)
        """Passages of each term."""

    @property
    def lengths(self) -> NDArray[np.int32]:
        return np.array(self._lengths, dtype=np.int32)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        return np.fromiter(self._numbers.hashes, dtype=np.uint64, count=len(self.df))

    def take(self, passages: Iterable[list[str]]) -> None:
        number = self._numbers.__getitem__
        for terms in passages:
            self._terms.extend(map(number, terms))
            self._lengths.append(len(terms))
            if len(self._terms) >= _BLOCK:
                self._write()
        self._write()

    def _write(self) -> None:
        """Write the postings since the last block."""
        lengths = np.array(self._lengths[self._first :], dtype=np.int64)
        if len(self._terms):
            terms = np.frombuffer(self._terms, dtype=np.int32).astype(np.int64)
            keys = terms * len(lengths) + np.repeat(np.arange(len(lengths)), lengths)
            distinct, counts = np.unique(keys, return_counts=True)
            terms, passages = np.divmod(distinct, len(lengths))
            for column in (terms, passages + self._first, counts):
                self._spill.write(column.astype(np.int32).tobytes())
            self._blocks.append(len(distinct))
            df = np.bincount(terms, minlength=len(self.df))
            df[: len(self.df)] += self.df
            self.df = df
        self._first += len(lengths)
        self._terms = array("i")

    def blocks(self, first: int) -> Iterator[Block]:
        """Read the postings, passages numbered from `first`."""
        self._spill.seek(0)
        for length in self._blocks:
            terms, passages, counts = (np.frombuffer(self._spill.read(4 * length), dtype=np.int32) for _ in range(3))
            yield terms, passages + first, counts


def _staying(base: Bm25Index, keep: NDArray[np.bool_]) -> Iterator[Block]:
    """Read the postings of an index whose passages stay, these renumbered."""
    numbers = np.cumsum(keep, dtype=np.int64) - 1
    first = 0
    while first < len(base.terms):
        until = np.searchsorted(base.starts, base.starts[first] + _BLOCK, "right") - 1
        last = max(first + 1, int(until))
        span = slice(int(base.starts[first]), int(base.starts[last]))
        terms = np.repeat(np.arange(first, last), np.diff(base.starts[first : last + 1]))
        passages = base.passages[span]
        stay = keep[passages]
        yield terms[stay], numbers[passages[stay]], base.counts[span][stay]
        first = last


def _merged(base: Bm25Index, keep: NDArray[np.bool_], new: _Counted, folder: Path | None) -> Bm25Index:
    """Write the index of the passages of `base` that stay and of the new ones behind them."""
    base_df = np.zeros(len(base.terms), dtype=np.int64)
    for terms, _, _ in _staying(base, keep):
        base_df += np.bincount(terms, minlength=len(base_df))
    hashes = np.union1d(base.terms[base_df > 0], new.hashes)
    base_places = np.searchsorted(hashes, base.terms)
    new_places = np.searchsorted(hashes, new.hashes)
    of_base = np.zeros(len(hashes), dtype=np.int64)
    of_base[base_places[base_df > 0]] = base_df[base_df > 0]
    df = of_base.copy()
    df[new_places] += new.df

    total = int(df.sum())
    made = Bm25Index(
        _array(folder, "terms", np.uint64, len(hashes)),
        _array(folder, "starts", np.int64, len(hashes) + 1),
        _array(folder, "passages", np.int32, total),
        _array(folder, "counts", np.uint8, total),
        _array(folder, "scores", np.float32, total),
        _array(folder, "lengths", np.int32, int(keep.sum()) + len(new.lengths)),
    )
    made.terms[:], made.starts[0], made.starts[1:] = hashes, 0, np.cumsum(df)
    made.lengths[:] = np.concatenate([base.lengths[keep], new.lengths])
    idf = _idf(df, len(made.lengths))
    starts = np.asarray(made.starts[:-1])
    clipped = np.minimum(base_places, max(len(hashes) - 1, 0))  # of terms that are gone: not used
    if len(hashes):
        _fill(made, _staying(base, keep), starts[clipped], idf[clipped])
    _fill(made, new.blocks(int(keep.sum())), (starts + of_base)[new_places], idf[new_places])
    return made


def _array(folder: Path | None, name: str, dtype: Any, length: int) -> NDArray[Any]:
    if folder is None:
        return np.empty(length, dtype)
    if not length:  # an empty file cannot be mapped
        np.save(_path(folder, name), np.empty(0, dtype))
        return np.empty(0, dtype)
    return np.asarray(np.lib.format.open_memmap(_path(folder, name), "w+", dtype, (length,)))


def _idf(df: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    distinct, inverse = np.unique(df, return_inverse=True)
    logs = [math.log(1 + (size - one + 0.5) / (one + 0.5)) for one in distinct.tolist()]
    return np.array(logs, dtype=np.float32)[inverse]


def _fill(made: Bm25Index, blocks: Iterable[Block], cursor: NDArray[np.int64], idf: NDArray[np.float32]) -> None:
    """Write postings and their scores to their places; `cursor` is where each term goes on."""
    mean = made.lengths.mean() if len(made.lengths) else 1.0
    for terms, passages, counts in blocks:
        if not len(terms):
            continue
        first = np.flatnonzero(np.diff(terms, prepend=-1))
        often = np.diff(first, append=len(terms))
        at = np.repeat(cursor[terms[first]] - first, often) + np.arange(len(terms))
        cursor[terms[first]] += often
        made.passages[at] = passages
        made.counts[at] = np.minimum(counts, _MOST)
        tf = np.minimum(counts, _MOST).astype(np.float32)
        made.scores[at] = idf[terms] * (tf / (K1 * ((1 - B) + B * made.lengths[passages] / mean) + tf))
