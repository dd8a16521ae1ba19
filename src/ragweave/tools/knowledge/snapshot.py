"""Reading a knowledge base: snapshots of its current generation, and searches over them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge import exact
from ragweave.tools.knowledge.embedding import check_dimension
from ragweave.tools.knowledge.manifest import NAME, Manifest, read_manifest
from ragweave.tools.knowledge.store import Store
from ragweave.tools.knowledge.vectors import Vectors, one_line
from ragweave.tools.retrieval.bm25 import analyzer_for, with_score
from ragweave.tools.retrieval.bm25_index import DAMAGE, Bm25Index

BM25 = "bm25"
"""Folder of the BM25 indexes, one per generation."""
ROWS = "rows.npy"
"""Passage number in the BM25 index to row in the passage database."""
ATTEMPTS = 3
"""How often a query is attempted when writers overtake it."""


@dataclass(frozen=True)
class Snapshot:
    """A generation, opened memory-mapped."""

    manifest: Manifest
    index: Bm25Index
    rows: NDArray[np.int64]
    vectors: NDArray[np.float32] | None = None
    """One of unit length a passage, where the generation is small enough (see `exact`)."""


class Snapshots:
    """Provides the current generation; checks the manifest's time stamp for each query."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of a knowledge base; nothing is opened yet."""
        self._folder = folder
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._snapshot: Snapshot | None = None

    def current(self) -> Snapshot:
        """Return the current generation.

        Raises:
            KnowledgeBaseError: The folder is missing, foreign, damaged or of a newer format.
        """
        with self._lock:
            stamp = self._look()
            if stamp is None:
                self._snapshot = self._stamp = None
                self._missing()
            if self._snapshot is None or stamp != self._stamp:
                self._snapshot = self._newest(stamp, ATTEMPTS)
                self._stamp = stamp
            return self._snapshot

    def _newest(self, stamp: tuple[int, int, int] | None, attempts: int) -> Snapshot:
        try:
            return self._open()
        except KnowledgeBaseError:
            # The generation may have been replaced twice since its manifest was read.
            now = self._look()
            if now is None:
                self._missing()
            if now == stamp or attempts == 1:
                raise
        return self._newest(now, attempts - 1)

    def close(self) -> None:
        """Release the mapped files."""
        with self._lock:
            self._snapshot = self._stamp = None

    def _missing(self) -> None:
        """Raise the error of a missing manifest."""
        read_manifest(self._folder)

    def _look(self) -> tuple[int, int, int] | None:
        try:
            stat = (self._folder / NAME).stat()
        except OSError:
            return None  # read_manifest says what is wrong
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _open(self) -> Snapshot:
        manifest = read_manifest(self._folder)
        if not manifest.generation:
            empty = Bm25Index.build([])
            return Snapshot(manifest, empty, np.zeros(0, dtype=np.int64))
        folder = self._folder / BM25 / str(manifest.generation)
        index = Bm25Index.open(folder)
        try:
            rows = np.asarray(np.load(folder / ROWS, mmap_mode="r", allow_pickle=False))
            vectors = exact.mapped(folder, len(rows), manifest.dimension)
        except DAMAGE as error:
            raise KnowledgeBaseError(
                f"the index {folder} is damaged ({one_line(error)}); delete the knowledge base and index "
                "again"
            ) from error
        if len(rows) != manifest.passages or index.passages not in (None, len(rows)):
            raise KnowledgeBaseError(
                f"the index {folder} does not match its manifest; delete the knowledge base and "
                "index again"
            )
        return Snapshot(manifest, index, rows, vectors)


Search = Callable[[str, int], list[Document]]

_MARGIN = 32
"""How many extra vectors to request: some belong to other generations."""


def bm25_search(folder: Path, snapshots: Snapshots, store: Store) -> Search:
    """Return a search of the BM25 index."""

    def search(query: str, k: int) -> list[Document]:
        for _ in range(ATTEMPTS):
            snapshot = snapshots.current()
            terms = analyzer_for(snapshot.manifest.settings.language).terms(query)
            hits = snapshot.index.search(terms, k)
            found = _documents(snapshots, snapshot, store, hits)
            if found is not None:
                return found
        raise _missing_passages(folder)

    return search


def dense_search(
    folder: Path, snapshots: Snapshots, store: Store, vectors: Vectors, embeddings: Embeddings
) -> Search:
    """Return a search of the vectors, by cosine similarity.

    The vectors of a small generation are compared one by one; a large one asks Chroma.
    """

    def search(query: str, k: int) -> list[Document]:
        snapshot = snapshots.current()
        if not snapshot.manifest.passages:
            return []
        vector = embeddings.embed_query(query)
        check_dimension(folder, snapshot.manifest, [vector])
        for _ in range(ATTEMPTS):
            snapshot = snapshots.current()
            if snapshot.vectors is None:
                return _approximate(snapshots, store, vectors, vector, k)
            hits = exact.nearest_rows(snapshot.vectors, vector, k)
            found = _documents(snapshots, snapshot, store, hits)
            if found is not None:
                return found
        raise _missing_passages(folder)

    return search


def _documents(
    snapshots: Snapshots, snapshot: Snapshot, store: Store, hits: Sequence[tuple[int, float]]
) -> list[Document] | None:
    """Return the passages of (number in the index, score).

    None where a writer dropped some, or where the knowledge base was made anew meanwhile: the rows
    may then be those of other passages.
    """
    rows = [(int(snapshot.rows[number]), score) for number, score in hits]
    found = store.by_rows([row for row, _ in rows])
    remade = snapshots.current().manifest.collection != snapshot.manifest.collection
    if remade or len(found) < len(rows):
        return None
    return [with_score(found[row], score) for row, score in rows]


def _missing_passages(folder: Path) -> KnowledgeBaseError:
    return KnowledgeBaseError(
        f"{folder}: passages of the index are missing from its database; delete the knowledge "
        "base and index again"
    )


def _approximate(
    snapshots: Snapshots, store: Store, vectors: Vectors, vector: Sequence[float], k: int
) -> list[Document]:
    """Return what Chroma finds, asking for more until the generation sees enough of it."""
    requested, seen = k + _MARGIN, -1
    while True:
        generation = snapshots.current().manifest.generation
        near, missed = vectors.nearest(vector, requested, generation)
        if missed:
            near = vectors.nearest_of(store.contents(generation), vector, k, generation)
        found = _visible(store, near, generation)
        if len(found) >= k or len(near) < requested or len(near) <= seen:
            return found[:k]
        requested, seen = requested * 2, len(near)


def _visible(store: Store, near: dict[str, float], generation: int) -> list[Document]:
    """Return the documents that `generation` sees, best first, ties in passage order."""
    found = store.by_contents(list(near), generation)
    distinct: dict[str | None, Document] = {}
    for content, doc in found:
        distinct.setdefault(doc.id, with_score(doc, near[content]))
    return sorted(distinct.values(), key=lambda doc: -doc.metadata["score"])
