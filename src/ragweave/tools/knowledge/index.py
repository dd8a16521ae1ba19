"""The index of a folder: a writer builds one for each state; readers open it and score all passages."""

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError
from ragweave.state.passages import indexed_text
from ragweave.tools.knowledge.filter_index import Flags, passing
from ragweave.tools.knowledge.filters import ALL, Condition
from ragweave.tools.knowledge.search import base_scores
from ragweave.tools.knowledge.store import Snapshot, Store
from ragweave.tools.knowledge.view import Query, Scores, View
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.retrieval.bm25_index import EMPTY, Bm25Index, mapped

_STATES = 2
"""States whose opened index is cached for the next query."""
_FILTERS = 64
"""Filters whose passages are cached."""
_ROWS, _VECTORS, _GONE = "rows", "vectors", "gone"
_SMALL, _SHARE, _MOST = 1_000, 50, 10
"""Changes that a small segment holds: so many, or a fiftieth of the passages of the large one; at most a tenth of them."""
_DRIFT = 0.1
"""By how much the average length of all passages may differ from that of the large segment, by which BM25 scores them."""
_MAX_ROW = 2**62


class Segment(NamedTuple):
    """The arrays of some passages: a folder of the index."""

    rows: NDArray[np.int64]
    """Their row ids, ascending."""
    bm25: Bm25Index
    vectors: NDArray[np.float32] | None
    """Vectors in that order."""
    gone: NDArray[np.int64]
    """Passages of the segment before that were deleted since it was written."""


NOTHING = Segment(np.empty(0, np.int64), EMPTY, None, np.empty(0, np.int64))


class _Index:
    """The opened index of one state: a large segment, and maybe a small one with what came later."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self.rows = np.concatenate([segment.rows for segment in segments])
        """Row ids of the passages, ascending."""
        self.gone = segments[-1].gone
        self.alive: Flags | None = None
        """Which passages are not deleted; None: all."""
        if len(self.gone):
            self.alive = np.ones(len(self.rows), bool)
            self.alive[np.searchsorted(self.rows, self.gone)] = False
        self.masks: dict[Condition, Flags] = {}
        """Which passages pass a filter, by the filter."""

    def words(self, terms: list[str]) -> Scores:
        """Return the BM25 score of each passage."""
        first, *more = (segment.bm25 for segment in self.segments)
        return first.score(terms, more)

    def near(self, vector: Scores) -> Scores | None:
        """Return the cosine of each passage, if there are vectors."""
        vectors = [segment.vectors for segment in self.segments if segment.vectors is not None]
        return np.concatenate([own @ vector for own in vectors]) if vectors else None

    def mask(self, now: Snapshot, chosen: Condition) -> Flags | None:
        """Return which passages are there and pass a filter; None: all."""
        if chosen == ALL:
            return self.alive
        mask = self.masks.get(chosen)
        if mask is None:
            mask = passing(now.db, chosen, self.rows)
            mask = mask if self.alive is None else mask & self.alive
            if len(self.masks) >= _FILTERS:
                self.masks.clear()
            self.masks[chosen] = mask
        return mask


class FolderView(Snapshot, View):
    """A state of a folder, with its index."""

    def __init__(self, db: sqlite3.Connection, index: _Index) -> None:
        super().__init__(db)
        self._index = index

    def pool(self, query: Query) -> "_Pool":
        index = self._index
        words = None if query.terms is None else index.words(query.terms)
        near = None if query.vector is None else index.near(query.vector)
        mask = index.mask(self, query.chosen)
        scores = base_scores(words, near)
        return _Pool(self, index, mask, scores if mask is None else np.where(mask, scores, np.float32(0)))


class _Pool:
    """All passages of a folder."""

    def __init__(self, view: FolderView, index: _Index, mask: Flags | None, scores: Scores) -> None:
        self._index, self._mask = index, mask
        self.rows, self.scores, self.documents = index.rows, scores, view.documents

    def include(self, rows: Collection[int]) -> Collection[int]:
        if self._mask is None:
            return rows
        return [row for row, passes in zip(rows, self._mask[self.places(rows)], strict=True) if passes]

    def places(self, rows: Collection[int]) -> NDArray[np.int64]:
        return np.searchsorted(self.rows, np.fromiter(rows, np.int64))

    def words(self, terms: list[str], rows: Collection[int]) -> Scores:
        scores = self._index.words(terms)
        return scores[self.places(rows)] / np.float32(max(float(scores.max(initial=0)), 1e-9))


class FolderIndex:
    """Builds the index of a state, and opens it; safe to use from threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.index_terms = analyzer_for(store.settings.language).index_terms
        self.open = lru_cache(maxsize=_STATES)(self._open)
        self._segments: dict[Any, Segment] = {}

    @contextmanager
    def view(self) -> Iterator[FolderView]:
        """Yield the current state; where a writer deleted its index after the transaction began, the next one."""
        failure: Exception | None = None
        for _ in range(3):
            with self.store.snapshot() as now:
                try:
                    index = self.open(now.index, now.dimensions(), now.hashes)
                except (OSError, ValueError) as error:  # gone, or damaged
                    failure = error
                    continue
                yield FolderView(now.db, index)
                return
        raise KnowledgeBaseError(
            f"{self.store.folder}: its index cannot be read ({failure}); rebuild it with "
            f"ragweave doctor --repair --kb {self.store.folder}"
        ) from failure

    def close(self) -> None:
        """Close the files that are open; a later query opens them again."""
        self.open.cache_clear()
        self._segments = {}

    def build(self, now: Snapshot, folder: Path, gone: Collection[int]) -> list[str]:
        """Write the index of a state into a folder; return the names of its folders.

        It extends the index that `now.index` still names, from which some passages are gone. Few changes make a
        small segment, written again by each write until it is merged with the large one.
        """
        try:
            before = self.open(now.index, now.dimensions(), now.hashes)
        except (OSError, ValueError):  # damaged, or deleted: it is made from the start
            before = _Index([NOTHING])
        large = before.segments[0]
        last = int(large.rows[-1]) if len(large.rows) else 0
        deleted = np.union1d(before.gone, np.array([row for row in gone if row <= last], np.int64))
        later = now.rows_after(last)
        most = min(max(_SMALL, len(large.rows) // _SHARE), len(large.rows) // _MOST)
        if len(large.rows) and len(later) + len(deleted) <= most and self._extend_small(before, later, now, folder):
            deleted.tofile(folder / _GONE)
            return [now.index.split()[0], folder.name]
        self._extend(large, np.setdiff1d(large.rows, deleted, assume_unique=True), later, now, folder, None)
        return [folder.name]

    def _extend_small(self, before: _Index, later: NDArray[np.int64], now: Snapshot, folder: Path) -> bool:
        """Write the small segment; return whether the passages of both have about the average length of the large one."""
        large, *more = before.segments
        small = more[0] if more else NOTHING
        total, stay = int(large.bm25.lengths.sum()), np.intersect1d(small.rows, later, assume_unique=True)
        average = total / len(large.rows)
        new = later[np.searchsorted(later, small.rows[-1:], "right")[0] if len(small.rows) else 0 :]
        lengths = self._extend(small, stay, new, now, folder, average)
        together = (total + int(lengths.sum())) / (len(large.rows) + len(lengths))
        return abs(together - average) <= _DRIFT * average

    def _extend(
        self,
        before: Segment,
        stay: NDArray[np.int64],
        new: NDArray[np.int64],
        now: Snapshot,
        folder: Path,
        average: float | None,
    ) -> NDArray[np.int32]:
        """Write those passages of a segment that stay, and all from the first new one on; return how many terms each has."""
        keep = np.isin(before.rows, stay, assume_unique=True)
        last = int(new[0]) - 1 if len(new) else _MAX_ROW
        texts = (self.index_terms(indexed_text(text, meta)) for _, text, meta in now.texts(last))
        lengths = Bm25Index.build(texts, folder, before=before.bm25, keep=keep, average=average)
        np.concatenate([before.rows[keep], new]).tofile(folder / _ROWS)
        if self.store.settings.embedding is not None:
            with (folder / _VECTORS).open("wb") as file:
                if before.vectors is not None:
                    before.vectors[keep].tofile(file)
                file.writelines(now.vectors_after(last))
        return lengths

    def _open(self, names: str, dimensions: int, hashes: str) -> _Index:
        """Open the index of a state, with vectors of so many dimensions (0: none); no name is an empty index's.

        Files are compared with their hashes when they are first opened, except the vectors: reading them all would take
        longer than a query.

        Raises:
            OSError, ValueError: It is missing or damaged.
        """
        expected: dict[str, str] = json.loads(hashes)
        segments = {}
        for name in names.split():
            own = tuple((file, digest) for file, digest in expected.items() if file.startswith(f"{name}/"))
            segments[name, own] = self._segments.get((name, own)) or self._segment(name, dimensions, dict(own))
        self._segments = segments
        return _Index([*segments.values()] or [NOTHING])

    def _segment(self, name: str, dimensions: int, hashes: dict[str, str]) -> Segment:
        folder = self.store.folder / name
        if damaged := damaged_files(self.store.folder, hashes, but=_VECTORS):
            raise ValueError(f"damaged: {', '.join(damaged)}")
        rows = mapped(folder / _ROWS, np.int64)
        vectors = mapped(folder / _VECTORS, np.float32).reshape(len(rows), dimensions) if dimensions else None
        gone = mapped(folder / _GONE, np.int64) if (folder / _GONE).exists() else NOTHING.gone
        return Segment(rows, Bm25Index.open(folder), vectors, gone)


def hashes_of(folder: Path, files: Iterable[str]) -> dict[str, str]:
    """Return the hashes of files of an index, given as `index-…/rows`, in the folder of a knowledge base."""
    hashes = {}
    for name in files:
        with (folder / name).open("rb") as file:
            hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def damaged_files(folder: Path, hashes: Mapping[str, str], but: str = "") -> list[str]:
    """Return the names of the files of an index that do not have their hashes, without those named `but`."""
    files = [name for name in hashes if name.partition("/")[2] != but]
    return [name.partition("/")[2] for name, own in hashes_of(folder, files).items() if own != hashes[name]]
