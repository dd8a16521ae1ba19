"""The BM25 index over numbered passages: built as a stream, opened memory-mapped.

The index holds each term's score in each passage, computed once (eager sparse scoring), in the
files and arithmetic of bm25s, with which it is compared in tests. Written here is what bm25s leaves
out: a build whose memory does not grow with the corpus, and a vocabulary in eight bytes a term, a
sorted array of 64-bit hashes in which a term's id is its index.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError

K1, B = 1.5, 0.75

_VOCABULARY = "terms.npy"
_PARAMETERS = "params.index.json"
_ARRAYS = ("data", "indices", "indptr")
_BLOCK_TERMS = 2_000_000
"""Terms, repeats counted, that are held in memory before they are put aside."""
_LARGE = 200_000
"""Scores of a query that are summed by scipy, where it is installed."""
_RUN = 1024
"""Scores of which the highest is compared first."""

DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, IndexError),
    *(RecursionError, SyntaxError),
)
"""What numpy and json raise over files that were cut or overwritten."""

MakeArray = Callable[[str, Any, int], NDArray[Any]]
"""Name, data type and length to an array, in memory or on disk."""


def _hash(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")


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
class Postings:
    """The scores of each term, by passage: a sparse matrix in columns, one a term."""

    data: NDArray[np.float32]
    indices: NDArray[np.int32]
    """Passage numbers, ascending within a term."""
    indptr: NDArray[np.int64]
    """Where each term's scores begin; one more than there are terms."""
    passages: int

    def fit(self, terms: int) -> bool:
        """Return whether the arrays fit each other and so many terms."""
        held = len(self.data)
        return len(self.indptr) == terms + 1 and self.indptr[-1] == held == len(self.indices)

    def summed(self, terms: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the sum of the scores of `terms`, by their numbers, for each passage.

        Raises:
            ValueError: A passage number is out of range.
            IndexError: The same, or a term is.
        """
        spans = [slice(int(self.indptr[one]), int(self.indptr[one + 1])) for one in terms]
        total = sum(span.stop - span.start for span in spans)
        if not _LARGE <= total < 2**31 or not _has_scipy():
            scores = np.zeros(self.passages, dtype=np.float32)
            for span in spans:
                np.add.at(scores, self.indices[span], self.data[span])
            return scores
        return self._multiplied(spans)

    def _multiplied(self, spans: list[slice]) -> NDArray[np.float32]:
        """Return the same sum, in the same order, by scipy: a third faster, where it pays."""
        from scipy.sparse import csc_array

        data = np.concatenate([self.data[span] for span in spans])
        indices = np.concatenate([self.indices[span] for span in spans])
        if indices.min() < 0 or indices.max() >= self.passages:
            raise ValueError("a passage number is out of range")
        starts = np.cumsum([0, *(span.stop - span.start for span in spans)], dtype=np.int32)
        chosen = csc_array((data, indices, starts), shape=(self.passages, len(spans)))
        found: NDArray[np.float32] = chosen @ np.ones(len(spans), dtype=np.float32)
        return found


@cache
def _has_scipy() -> bool:
    return find_spec("scipy") is not None


class Bm25Index:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over passages numbered from 0.

    Source: Robertson and Zaragoza 2009; the variants by Kamphuis et al. 2020; eager sparse
    scoring by Lù 2024 (bm25s).
    """

    def __init__(self, postings: Postings | None, vocabulary: NDArray[np.uint64]) -> None:
        """Use `build`, `write` or `open`; None stands for an index without any term."""
        self._postings = postings
        self._vocabulary = vocabulary

    @classmethod
    def build(cls, passages: Iterable[list[str]]) -> Bm25Index:
        """Index the terms of each passage in memory.

        Args:
            passages: One list of terms a passage; read once.
        """
        return cls(*_Builder(io.BytesIO()).take(passages).finish(_in_memory))

    @classmethod
    def write(cls, passages: Iterable[list[str]], folder: Path) -> None:
        """Index the terms of each passage into the files of `folder`, which is made.

        Memory grows with the vocabulary, and by 4 bytes a passage. Until the end a temporary file
        in the folder holds 12 bytes for each distinct term of each passage.

        Args:
            passages: One list of terms a passage; read once.
            folder: Where the files go.

        Raises:
            OSError: The disk cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as spill:
            built = cls(*_Builder(spill).take(passages).finish(_on_disk(folder)))
        built._save_rest(folder)

    @property
    def passages(self) -> int | None:
        """Number of passages; None for an index without any term."""
        return None if self._postings is None else self._postings.passages

    def scores(self, terms: list[str]) -> NDArray[np.float32]:
        """Return one score a passage; a repeated term counts each time."""
        held = self._postings
        if held is None:
            return np.zeros(0, dtype=np.float32)
        try:
            return held.summed(self._ids(terms))
        except (IndexError, ValueError) as error:
            raise KnowledgeBaseError(
                f"a BM25 index is damaged ({error}): repair it with `ragweave kb check --repair`"
            ) from error

    def search(self, terms: list[str], k: int) -> list[tuple[int, float]]:
        """Return up to k (passage number, score > 0), best first, ties by passage number."""
        scores = self.scores(terms)
        return [(int(number), float(scores[number])) for number in top_k(scores, k)]

    def differences(self, other: Bm25Index) -> list[str]:
        """Return which parts differ from another index's: `terms`, `data`, `indices`, `indptr`."""
        ours, theirs = self._parts(), other._parts()
        return [name for name in ours if not np.array_equal(ours[name], theirs[name])]

    def _parts(self) -> dict[str, NDArray[Any]]:
        held = self._postings
        empty = np.zeros(0)
        arrays = {name: empty if held is None else getattr(held, name) for name in _ARRAYS}
        return {"terms": self._vocabulary, **arrays}

    def _ids(self, terms: list[str]) -> NDArray[np.int64]:
        hashes = np.array([_hash(term) for term in terms], dtype=np.uint64)
        places = np.searchsorted(self._vocabulary, hashes)
        inside = places < len(self._vocabulary)
        places, hashes = places[inside], hashes[inside]
        known: NDArray[np.int64] = places[self._vocabulary[places] == hashes]
        return known

    def save(self, folder: Path) -> None:
        """Write the index to `folder`, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        if self._postings is not None:
            for name in _ARRAYS:
                np.save(_file(folder, name), getattr(self._postings, name), allow_pickle=False)
        self._save_rest(folder)

    def _save_rest(self, folder: Path) -> None:
        np.save(folder / _VOCABULARY, self._vocabulary, allow_pickle=False)
        if self._postings is not None:
            text = json.dumps({**_FORM, "num_docs": self._postings.passages}, indent=4)
            (folder / _PARAMETERS).write_text(text, encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> Bm25Index:
        """Open a saved index memory-mapped.

        Raises:
            KnowledgeBaseError: A file is missing, cut short or no array.
        """
        try:
            vocabulary = _mapped(folder / _VOCABULARY)
            if not len(vocabulary):
                return cls(None, vocabulary)
            passages = json.loads((folder / _PARAMETERS).read_text(encoding="utf-8"))["num_docs"]
            data, indices, indptr = (_mapped(_file(folder, name)) for name in _ARRAYS)
            postings = Postings(data, indices, indptr, int(passages))
            if not postings.fit(len(vocabulary)):
                raise ValueError("its arrays do not match each other")
        except DAMAGE as error:
            reason = " ".join(str(error).split())[:200]
            raise KnowledgeBaseError(
                f"the BM25 index {folder} is damaged ({reason}); delete the knowledge base and "
                "index again"
            ) from error
        return cls(postings, vocabulary)


_FORM = {
    "k1": K1,
    "b": B,
    "delta": 0.5,
    "method": "lucene",
    "idf_method": "lucene",
    "dtype": "float32",
    "int_dtype": "int32",
    "backend": "numpy",
}
"""The parameters as bm25s names them, so that its own loader reads the files as well."""


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.csc.index.npy"


def _mapped(path: Path) -> NDArray[Any]:
    # A plain array over the mapped memory: numpy's memmap class makes every slice dear.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _in_memory(_name: str, dtype: Any, length: int) -> NDArray[Any]:
    return np.empty(length, dtype=dtype)


def _on_disk(folder: Path) -> MakeArray:
    def make(name: str, dtype: Any, length: int) -> NDArray[Any]:
        if not length:  # an empty file cannot be mapped
            np.save(_file(folder, name), np.empty(0, dtype), allow_pickle=False)
            return np.empty(0, dtype)
        path = _file(folder, name)
        return np.asarray(np.lib.format.open_memmap(path, "w+", dtype=dtype, shape=(length,)))

    return make


class _Numbers(dict[str, int]):
    """Terms to numbers in order of appearance; terms of one hash share a number."""

    def __init__(self) -> None:
        super().__init__()
        self.hashes: dict[int, int] = {}

    def __missing__(self, term: str) -> int:
        number = self[term] = self.hashes.setdefault(_hash(term), len(self.hashes))
        return number


class _Builder:
    """Counts terms block by block into a file, then writes each score to its place."""

    def __init__(self, spill: BinaryIO) -> None:
        self._spill = spill
        self._numbers = _Numbers()
        self._lengths = array("i")
        self._terms = array("i")
        self._first = 0
        self._blocks: list[int] = []
        self._df = np.zeros(0, dtype=np.int64)

    def take(self, passages: Iterable[list[str]]) -> _Builder:
        number = self._numbers.__getitem__
        for terms in passages:
            self._terms.extend(map(number, terms))
            self._lengths.append(len(terms))
            if len(self._terms) >= _BLOCK_TERMS:
                self._put_aside()
        self._put_aside()
        return self

    def _put_aside(self) -> None:
        """Write (term, passage, count) of the passages since the last block, in that order."""
        lengths = np.frombuffer(self._lengths, dtype=np.int32)[self._first :]
        if not len(self._terms):
            return
        local = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        keys = np.frombuffer(self._terms, dtype=np.int32).astype(np.int64) * len(lengths) + local
        distinct, counts = np.unique(keys, return_counts=True)
        terms, passages = np.divmod(distinct, len(lengths))
        for column in (terms, passages + self._first, counts):
            self._spill.write(column.astype(np.int32).tobytes())
        self._blocks.append(len(distinct))
        found = np.bincount(terms, minlength=len(self._df))
        found[: len(self._df)] += self._df
        self._df = found
        self._first += len(lengths)
        self._terms = array("i")

    def finish(self, make: MakeArray) -> tuple[Postings | None, NDArray[np.uint64]]:
        """Return the postings and the sorted vocabulary."""
        hashes = np.fromiter(self._numbers.hashes, dtype=np.uint64, count=len(self._df))
        if not len(hashes):
            return None, hashes
        order = np.argsort(hashes)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        total = int(self._df.sum())
        indptr = make("indptr", np.int32 if total < 2**31 else np.int64, len(order) + 1)
        indptr[0] = 0
        indptr[1:] = np.cumsum(self._df[order])
        postings = Postings(
            make("data", np.float32, total),
            make("indices", np.int32, total),
            indptr,
            len(self._lengths),
        )
        self._fill(postings, place)
        return postings, hashes[order]

    def _fill(self, postings: Postings, place: NDArray[np.int64]) -> None:
        lengths = np.frombuffer(self._lengths, dtype=np.int32)
        idf, mean = self._idf(), lengths.mean()
        cursor = postings.indptr[:-1].astype(np.int64)[place]
        for terms, passages, counts in self._read():
            runs, starts, sizes = np.unique(terms, return_index=True, return_counts=True)
            at = np.repeat(cursor[runs] - starts, sizes) + np.arange(len(terms))
            cursor[runs] += sizes
            often = counts.astype(np.float32)
            share = often / (K1 * ((1 - B) + B * lengths[passages] / mean) + often)
            postings.data[at] = idf[terms] * share
            postings.indices[at] = passages

    def _idf(self) -> NDArray[np.float32]:
        passages = len(self._lengths)
        distinct, inverse = np.unique(self._df, return_inverse=True)
        logs = [math.log(1 + (passages - df + 0.5) / (df + 0.5)) for df in distinct.tolist()]
        return np.array(logs, dtype=np.float32)[inverse]

    def _read(self) -> Iterator[list[NDArray[np.int32]]]:
        self._spill.seek(0)
        for length in self._blocks:
            yield [np.frombuffer(self._spill.read(4 * length), dtype=np.int32) for _ in range(3)]
