"""The index of a folder: a writer builds one for each state; readers open it and score all passages."""

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError
from ragweave.state.passages import indexed_text
from ragweave.tools.knowledge.filter_index import Flags, passing
from ragweave.tools.knowledge.filters import ALL, Condition
from ragweave.tools.knowledge.graph import Scores
from ragweave.tools.knowledge.search import Embedder, Query, base_scores
from ragweave.tools.knowledge.store import Snapshot, Store
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.retrieval.bm25_index import EMPTY, Bm25Index, mapped

_STATES = 2
"""States whose opened index is cached for the next query."""
_FILTERS = 64
"""Filters whose passages are cached."""
_ROWS, _VECTORS = "rows", "vectors"


@dataclass(frozen=True)
class _Index:
    """The opened index of one state."""

    rows: NDArray[np.int64]
    """Row ids of the passages, in the index's order, ascending."""
    bm25: Bm25Index
    vectors: NDArray[np.float32] | None
    """Vectors in that order."""
    masks: dict[Condition, Flags] = field(default_factory=dict)
    """Which passages pass a filter, by the filter."""

    def mask(self, now: Snapshot, chosen: Condition) -> Flags | None:
        """Return which passages pass a filter; None: all."""
        if chosen == ALL:
            return None
        mask = self.masks.get(chosen)
        if mask is None:
            mask = passing(now.db, chosen, self.rows)
            if len(self.masks) >= _FILTERS:
                self.masks.clear()
            self.masks[chosen] = mask
        return mask


class FolderView(Snapshot):
    """A state of a folder, with its index."""

    def __init__(self, db: sqlite3.Connection, index: _Index) -> None:
        super().__init__(db)
        self._index = index

    def pool(self, query: Query) -> "_Pool":
        """Return all passages, with their scores."""
        index = self._index
        words = None if query.terms is None else index.bm25.score(query.terms)
        near = None
        if query.vector is not None and index.vectors is not None:
            near = index.vectors @ query.vector
        mask = index.mask(self, query.chosen)
        scores = base_scores(words, near)
        return _Pool(self, index, mask, scores if mask is None else np.where(mask, scores, np.float32(0)))


class _Pool:
    """All passages of a folder."""

    def __init__(self, view: FolderView, index: _Index, mask: Flags | None, scores: Scores) -> None:
        self._index, self._mask = index, mask
        self.rows, self.scores, self.documents = index.rows, scores, view.documents

    def include(self, rows: Collection[int]) -> Collection[int]:
        """Return those of some passages that pass the filter."""
        if self._mask is None:
            return rows
        return [row for row, passes in zip(rows, self._mask[self.places(rows)], strict=True) if passes]

    def places(self, rows: Collection[int]) -> NDArray[np.int64]:
        """Return where some passages stand in `scores`."""
        return np.searchsorted(self.rows, np.fromiter(rows, np.int64))

    def words(self, terms: list[str]) -> Scores:
        """Return the BM25 score of each passage for some terms, as a share of the best."""
        scores = self._index.bm25.score(terms)
        return scores / np.float32(max(float(scores.max(initial=0)), 1e-9))


class FolderIndex:
    """Builds the index of a state, and opens it; safe to use from threads."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        self.store, self.embedder = store, embedder
        self.index_terms = analyzer_for(store.settings.language).index_terms
        self.open = lru_cache(maxsize=_STATES)(self._open)

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
            f"{self.store.folder}: its index cannot be read ({failure}); make it again with "
            f"ragweave doctor --repair --kb {self.store.folder}"
        ) from failure

    def build(self, now: Snapshot, folder: Path) -> None:
        """Write the index of a state into a folder: row ids, BM25 arrays and vectors.

        It extends the index that `now.index` still names.
        """
        try:
            before = self.open(now.index, now.dimensions(), now.hashes)
        except (OSError, ValueError):  # damaged, or deleted: it is made from the start
            before = self.open("", 0, "{}")
        rows = now.rows()
        keep = np.isin(before.rows, rows, assume_unique=True)
        last = int(before.rows[-1]) if len(before.rows) else 0
        texts = (self.index_terms(indexed_text(text, meta)) for _, text, meta in now.texts(last))
        Bm25Index.build(texts, folder, before=before.bm25, keep=keep)
        rows.tofile(folder / _ROWS)
        if self.store.settings.embedding is not None:
            with (folder / _VECTORS).open("wb") as file:
                if before.vectors is not None:
                    before.vectors[keep].tofile(file)
                file.writelines(now.vectors(0 if before.vectors is None else last))

    def _open(self, name: str, dimensions: int, hashes: str) -> _Index:
        """Open the index of a state, with vectors of so many dimensions (0: none). The name "" is that of an empty index.

        Files are compared with their hashes, except the vectors: reading them all would take longer than a query.

        Raises:
            OSError, ValueError: It is missing or damaged.
        """
        if not name:
            return _Index(np.empty(0, np.int64), EMPTY, None)
        folder = self.store.folder / name
        if damaged := damaged_files(folder, hashes, but=_VECTORS):
            raise ValueError(f"damaged: {', '.join(damaged)}")
        rows = mapped(folder / _ROWS, np.int64)
        vectors = mapped(folder / _VECTORS, np.float32).reshape(len(rows), dimensions) if dimensions else None
        return _Index(rows, Bm25Index.open(folder), vectors)


def hashes_of(folder: Path) -> dict[str, str]:
    """Return the hash of each file of an index."""
    hashes = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def damaged_files(folder: Path, hashes: str, but: str = "") -> list[str]:
    """Return the files of an index that do not have their hashes, which are JSON, without the file `but`."""
    damaged = []
    for name, expected in json.loads(hashes).items():
        if name != but:
            with (folder / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                    damaged.append(name)
    return damaged
