"""Searches over the current generation of a knowledge base."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge.embedder import check_dimension
from ragweave.tools.knowledge.snapshot import ATTEMPTS, Snapshots
from ragweave.tools.knowledge.store import Store
from ragweave.tools.knowledge.vectors import Vectors
from ragweave.tools.retrieval.analysis import analyzer_for
from ragweave.tools.retrieval.bm25 import scored

Search = Callable[[str, int], list[Document]]

_MARGIN = 32
"""How many more vectors are asked for than wanted: some belong to other generations."""


def bm25_search(folder: Path, snapshots: Snapshots, store: Store) -> Search:
    """Return a search of the BM25 index."""

    def search(query: str, k: int) -> list[Document]:
        for _ in range(ATTEMPTS):
            snapshot = snapshots.current()
            terms = analyzer_for(snapshot.manifest.settings.language).terms(query)
            hits = [
                (int(snapshot.rows[number]), score)
                for number, score in snapshot.index.search(terms, k)
            ]
            found = store.by_rows([row for row, _ in hits])
            if len(found) == len(hits):
                return [scored(found[row], score) for row, score in hits]
        raise KnowledgeBaseError(
            f"{folder}: passages of the index are missing from its database; delete the knowledge "
            "base and index again"
        )

    return search


def dense_search(
    folder: Path, snapshots: Snapshots, store: Store, vectors: Vectors, embeddings: Embeddings
) -> Search:
    """Return a search of the vectors, by cosine similarity."""

    def search(query: str, k: int) -> list[Document]:
        snapshot = snapshots.current()
        if not snapshot.manifest.passages:
            return []
        vector = embeddings.embed_query(query)
        check_dimension(folder, snapshot.manifest, [vector])
        wanted, seen = k + _MARGIN, -1
        while True:
            generation = snapshots.current().manifest.generation
            near = dict(vectors.nearest(vector, wanted, generation))
            found = _visible(store, near, generation)
            if len(found) >= k or len(near) < wanted or len(near) <= seen:
                return found[:k]
            wanted, seen = wanted * 2, len(near)

    return search


def _visible(store: Store, near: dict[str, float], generation: int) -> list[Document]:
    """Return the documents that `generation` sees, best first, ties in passage order."""
    found = store.by_contents(list(near), generation)
    distinct: dict[str | None, Document] = {}
    for content, doc in found:
        distinct.setdefault(doc.id, scored(doc, near[content]))
    return sorted(distinct.values(), key=lambda doc: -doc.metadata["score"])
