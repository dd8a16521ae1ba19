"""Reading a knowledge base: snapshots of its current generation, and searches over them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge import exact
from ragweave.tools.knowledge.analysis import query_terms
from ragweave.tools.knowledge.embedding import check_dimension
from ragweave.tools.knowledge.manifest import NAME, Manifest, read_manifest
from ragweave.tools.knowledge.store import Store
from ragweave.tools.knowledge.vectors import Vectors, one_line
from ragweave.tools.retrieval.bm25 import with_score
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

    def __init__(self, folder: Path, shown: Path | None = None) -> None:
        """Take the folder of a knowledge base, and what errors call it; nothing is opened yet."""
        self._folder = folder
        self._shown = folder if shown is None else shown
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
        read_manifest(self._folder, self._shown)

    def _look(self) -> tuple[int, int, int] | None:
        try:
            stat = (self._folder / NAME).stat()
        except OSError:
            return None  # read_manifest says what is wrong
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _open(self) -> Snapshot:
        manifest = read_manifest(self._folder, self._shown)
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
Rankings = Callable[[str, int], list[list[Document]]]
"""Query and k to several rankings, each as `Search` gives it, all of one generation."""

Found = TypeVar("Found")

_MARGIN = 32
"""How many extra vectors to request: some belong to other generations."""


class Searches:
    """Searches of a knowledge base in a folder; each answer is of one generation, the newest."""

    def __init__(
        self,
        folder: Path,
        snapshots: Snapshots,
        store: Store,
        vectors_of: Callable[[Manifest], Vectors],
    ) -> None:
        """Take the parts of an open knowledge base."""
        self._folder = folder
        self._snapshots = snapshots
        self._store = store
        self._vectors_of = vectors_of

    def by_words(self) -> Search:
        """Return a search of the BM25 index."""

        def search(query: str, k: int) -> list[Document]:
            return self._whole(lambda snapshot: self._matching(snapshot, query, k))

        return search

    def by_vectors(self, embeddings: Embeddings) -> Search:
        """Return a search of the vectors, by cosine similarity.

        The vectors of a small generation are compared one by one; a large one asks Chroma.
        """

        def search(query: str, k: int) -> list[Document]:
            if self._empty():
                return []
            vector = embeddings.embed_query(query)
            return self._whole(lambda snapshot: self._nearest(snapshot, vector, k))

        return search

    def by_both(self, embeddings: Embeddings) -> Rankings:
        """Return a search of both, which gives the ranking by words, then that by vectors."""

        def search(query: str, k: int) -> list[list[Document]]:
            if self._empty():
                return [[], []]
            vector = embeddings.embed_query(query)

            def read(snapshot: Snapshot) -> list[list[Document]] | None:
                words = self._matching(snapshot, query, k)
                near = self._nearest(snapshot, vector, k)
                return None if words is None or near is None else [words, near]

            return self._whole(read)

        return search

    def _whole(self, read: Callable[[Snapshot], Found | None]) -> Found:
        """Return what `read` finds in a generation; where that gives None, try a newer one."""
        for _ in range(ATTEMPTS):
            found = read(self._snapshots.current())
            if found is not None:
                return found
        raise KnowledgeBaseError(
            f"{self._folder}: passages of the index are missing from its database; delete the "
            "knowledge base and index again"
        )

    def _empty(self) -> bool:
        return not self._snapshots.current().manifest.passages

    def _matching(self, snapshot: Snapshot, query: str, k: int) -> list[Document] | None:
        terms = query_terms(snapshot.manifest, query, self._folder)
        return self._documents(snapshot, snapshot.index.search(terms, k))

    def _nearest(self, snapshot: Snapshot, vector: list[float], k: int) -> list[Document] | None:
        if not snapshot.manifest.passages:
            return []
        check_dimension(self._folder, snapshot.manifest, [vector])
        if snapshot.vectors is None:
            return self._approximate(snapshot, vector, k)
        return self._documents(snapshot, exact.nearest_rows(snapshot.vectors, vector, k))

    def _documents(
        self, snapshot: Snapshot, hits: Sequence[tuple[int, float]]
    ) -> list[Document] | None:
        """Return the passages of (number in the index, score); None where rows may be missing."""
        rows = [(int(snapshot.rows[number]), score) for number, score in hits]
        found = self._store.by_rows([row for row, _ in rows])
        if len(found) < len(rows) or not self._holds(snapshot):
            return None
        return [with_score(found[row], score) for row, score in rows]

    def _approximate(
        self, snapshot: Snapshot, vector: Sequence[float], k: int
    ) -> list[Document] | None:
        """Return what Chroma finds, asking for more until the generation sees enough of it."""
        requested, seen = k + _MARGIN, -1
        vectors = self._vectors_of(snapshot.manifest)
        generation = snapshot.manifest.generation
        while True:
            near, missed = vectors.nearest(vector, requested, generation)
            if missed:
                contents = self._store.contents(generation)
                near = vectors.nearest_of(contents, vector, k, generation)
            found = _visible(self._store, near, generation)
            if not self._holds(snapshot):
                return None
            if len(found) >= k or len(near) < requested or len(near) <= seen:
                return found[:k]
            requested, seen = requested * 2, len(near)

    def _holds(self, snapshot: Snapshot) -> bool:
        """Return whether the database still has all rows of a generation, and no others for them.

        A writer keeps those of the generation before its own; a folder that was made anew has none.
        """
        now, then = self._snapshots.current().manifest, snapshot.manifest
        return now.collection == then.collection and now.generation <= then.generation + 1


def _visible(store: Store, near: dict[str, float], generation: int) -> list[Document]:
    """Return the documents that `generation` sees, best first, ties in passage order."""
    found = store.by_contents(list(near), generation)
    distinct: dict[str | None, Document] = {}
    for content, doc in found:
        distinct.setdefault(doc.id, with_score(doc, near[content]))
    return sorted(distinct.values(), key=lambda doc: -doc.metadata["score"])
