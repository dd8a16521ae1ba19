"""BM25 over numbered passages: built as a stream, opened memory-mapped, extended without a rebuild.

The index holds each term's score in each passage, computed once (eager sparse scoring, as in
bm25s). A build writes blocks of postings sorted by term, then merges them range by range: its
memory does not grow with the postings. The vocabulary takes eight bytes a term: a sorted array of
64-bit hashes, in which a term's number is its index.

Source: Robertson and Zaragoza 2009; Lucene's variant by Kamphuis et al. 2020; eager scoring by Lù
2024 (bm25s).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

K1, B = 1.5, 0.75
_BLOCK = 1_000_000
"""Terms, repeats counted, or postings that are in memory at once."""
_RUN = 1024
"""Scores of which the highest is compared first."""
_MOST = np.iinfo(np.uint8).max
_TYPES = {
    "terms": np.uint64,
    "starts": np.int64,
    "passages": np.int32,
    "counts": np.uint8,
    "scores": np.float32,
    "lengths": np.int32,
}
_POSTINGS = ("terms", "starts", "passages", "counts")

Postings = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]
"""Terms, starts, passages and counts, as in a `Bm25Index`."""


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


def mapped(path: Path, dtype: Any) -> NDArray[Any]:
    """Return the array in a file, memory-mapped; `OSError` or `ValueError` if it is missing or damaged."""
    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    # A plain array over the mapped memory: numpy's memmap class makes every slice slow.
    return np.asarray(np.memmap(path, dtype, "r"))


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
    def of(cls, passages: Iterable[list[str]]) -> Bm25Index:
        """Index the terms of each passage in memory."""
        with TemporaryDirectory() as folder:
            cls.build(passages, Path(folder))
            made = cls.open(Path(folder))
            return cls(*(np.array(getattr(made, one.name)) for one in fields(cls)))

    @classmethod
    def build(
        cls,
        passages: Iterable[list[str]],
        folder: Path,
        *,
        before: Bm25Index | None = None,
        keep: NDArray[np.bool_] | None = None,
    ) -> None:
        """Index the terms of each passage into the files of a folder.

        Memory grows with the vocabulary, and by 8 bytes a passage; until the end temporary files have 5
        bytes for each distinct term of each passage, and 16 for each term of a block.

        Args:
            passages: One list of terms a passage; read once.
            folder: An existing folder.
            before: An index to extend; the new passages are numbered behind its own.
            keep: Which of its passages stay, renumbered in their order; None: all.
        """
        base = before or EMPTY
        stay = np.ones(len(base.lengths), dtype=bool) if keep is None else keep
        lengths = array("i", base.lengths[stay].tobytes())
        with TemporaryDirectory(dir=folder) as spill:
            blocks: list[Path] = []
            for block in chain(_staying(base, stay), _counted(passages, lengths)):
                blocks.append(Path(spill, f"{len(blocks)}-"))
                _write(blocks[-1], block)
            _merge(blocks, np.array(lengths), folder)

    @classmethod
    def open(cls, folder: Path) -> Bm25Index:
        """Open the files of a folder memory-mapped; `OSError` or `ValueError` if one is missing or damaged."""
        made = cls(*(mapped(_path(folder, name), dtype) for name, dtype in _TYPES.items()))
        if len(made.starts) != len(made.terms) + 1 or made.starts[-1] != len(made.scores):
            raise ValueError("the arrays of the BM25 index do not fit each other")
        return made

    def score(self, terms: list[str]) -> NDArray[np.float32]:
        """Return one score a passage; a repeated term counts each time."""
        scores = np.zeros(len(self.lengths), dtype=np.float32)
        for term, count in Counter(terms).items():
            wanted = np.uint64(_hash(term))
            place = int(np.searchsorted(self.terms, wanted))
            if place < len(self.terms) and self.terms[place] == wanted:
                span = slice(self.starts[place], self.starts[place + 1])
                worth = self.scores[span]
                np.add.at(scores, self.passages[span], worth if count == 1 else worth * np.float32(count))
        return scores


EMPTY = Bm25Index(*(np.zeros(int(name == "starts"), dtype) for name, dtype in _TYPES.items()))


class _Hashes(dict[str, int]):
    """Terms to their hashes."""

    def __missing__(self, term: str) -> int:
        made = self[term] = _hash(term)
        return made


def _counted(passages: Iterable[list[str]], lengths: array[int]) -> Iterator[Postings]:
    """Count the terms of passages, block by block, and append the passages' lengths to those before."""
    hashed = _Hashes().__getitem__
    terms, first = array("Q"), len(lengths)
    for one in passages:
        terms.extend(map(hashed, one))
        lengths.append(len(one))
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
    return hashes, starts, (passages + first).astype(np.int32), np.minimum(counts, _MOST).astype(np.uint8)


def _staying(base: Bm25Index, keep: NDArray[np.bool_]) -> Iterator[Postings]:
    """Return the postings of an index whose passages stay, these renumbered."""
    renumbered = np.cumsum(keep, dtype=np.int32) - 1
    for first, last in _ranges(base.starts):
        starts = base.starts[first : last + 1] - base.starts[first]
        span = slice(base.starts[first], base.starts[last])
        stay = keep[base.passages[span]]
        sizes = np.add.reduceat(stay, starts[:-1], dtype=np.int64)
        kept = np.append(0, np.cumsum(sizes[sizes > 0]))
        yield base.terms[first:last][sizes > 0], kept, renumbered[base.passages[span][stay]], base.counts[span][stay]


def _ranges(starts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of terms with at most `_BLOCK` postings, or one term: the first, and the one behind the last."""
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _BLOCK, "right")) - 1)
        yield first, last
        first = last


def _write(path: Path, block: Iterable[NDArray[Any]]) -> None:
    for name, column in zip(_POSTINGS, block, strict=True):
        column.tofile(f"{path}{name}")


def _read(path: Path) -> Postings:
    terms, starts, passages, counts = (mapped(Path(f"{path}{name}"), _TYPES[name]) for name in _POSTINGS)
    return terms, starts, passages, counts


def _merge(blocks: Sequence[Path], lengths: NDArray[np.int32], folder: Path) -> None:
    """Write the index of blocks of postings."""
    terms, df = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    for block in blocks:
        own, starts, _, _ = _read(block)
        union = np.union1d(terms, own)
        total = np.zeros(len(union), np.int64)
        total[np.searchsorted(union, terms)] = df
        total[np.searchsorted(union, own)] += np.diff(starts)
        terms, df = union, total
    starts = np.append(0, np.cumsum(df))
    idf = np.log(1 + (len(lengths) - df + 0.5) / (df + 0.5))
    norms = K1 * ((1 - B) + B * lengths * (len(lengths) / max(lengths.sum(), 1)))
    terms.tofile(_path(folder, "terms"))
    starts.tofile(_path(folder, "starts"))
    lengths.tofile(_path(folder, "lengths"))
    with ExitStack() as stack:
        files = [stack.enter_context(_path(folder, name).open("wb")) for name in ("passages", "counts", "scores")]
        for first, last in _ranges(starts):
            found = zip(*(_between(block, terms[first:last]) for block in blocks), strict=True)
            numbers, passages, counts = map(np.concatenate, found)
            order = np.argsort(numbers, kind="stable")
            passages, counts = passages[order], counts[order]
            scores = idf[first + numbers[order]] * (counts / (norms[passages] + counts))
            columns: list[NDArray[Any]] = [passages, counts, scores.astype(np.float32)]
            for file, column in zip(files, columns, strict=True):
                column.tofile(file)


def _between(block: Path, terms: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:
    """Return a block's postings of consecutive terms: their numbers among these, passages and counts."""
    own, starts, passages, counts = _read(block)
    low, high = np.searchsorted(own, terms[0]), np.searchsorted(own, terms[-1], "right")
    numbers = np.repeat(np.searchsorted(terms, own[low:high]), np.diff(starts[low : high + 1]))
    span = slice(starts[low], starts[high])
    return numbers, passages[span], counts[span]


def _path(folder: Path, name: str) -> Path:
    return folder / f"bm25-{name}"
