"""Search: a writer builds an index for each state; readers open and query it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError
from ragweave.names import RetrieverName
from ragweave.state.passages import heading_of, indexed_text
from ragweave.tools.embeddings.named import unit
from ragweave.tools.knowledge.graph import SEEDS, NamePath, Scores, Seed, along_names
from ragweave.tools.knowledge.store import AnyOf, Snapshot, Store
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.retrieval.bm25_index import EMPTY, Bm25Index, mapped, top_k
from ragweave.tools.retrieval.retrievers import fused_scores

_STATES = 2
"""States whose opened index is cached for the next query."""
_FILTERS = 8
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
    masks: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    """Which passages pass a filter, by the filter."""

    def only(self, scores: Scores, now: Snapshot, chosen: AnyOf) -> Scores:
        """Return scores, 0 for passages that do not pass the filter."""
        if not chosen:
            return scores
        key = repr(sorted(chosen.items()))
        mask = self.masks.get(key)
        if mask is None:
            mask = np.isin(self.rows, np.array([*now.matching(chosen)], dtype=np.int64))
            if len(self.masks) >= _FILTERS:
                self.masks.clear()
            self.masks[key] = mask
        return np.where(mask, scores, np.float32(0))


class Search:
    """Builds the index of a state, and searches it; safe to use from threads.

    `embeddings` are those that the store's vectors are of.
    """

    def __init__(self, store: Store, embeddings: Embeddings | None) -> None:
        self.store, self.embeddings = store, embeddings
        analyzer = analyzer_for(store.settings.language)
        self.terms, self.index_terms = analyzer.terms, analyzer.index_terms
        self.open = lru_cache(maxsize=_STATES)(self._open)

    def model(self) -> Embeddings:
        """Return the embedding model; `KnowledgeBaseError` if it is an object that `open` was not given."""
        if self.embeddings is None:
            name = self.store.settings.embedding
            raise KnowledgeBaseError(f"{self.store.folder} was made with {name}: pass that object to open()")
        return self.embeddings

    def embed(self, texts: list[str]) -> list[bytes]:
        """Return the vectors of passages; `KnowledgeBaseError` if the model fails or gives another length."""
        model = self.model()
        try:
            rows = unit(model.embed_documents(texts))
        except OSError as error:  # of its server; the store's own would be of the disk
            raise KnowledgeBaseError(f"the embedding model failed: {error}") from error
        with self.store.snapshot() as now:
            self._check_length(now.dimensions(), rows)
        return [row.tobytes() for row in rows]

    def _check_length(self, size: int, rows: NDArray[np.float32]) -> None:
        if size not in (0, rows.shape[1]):
            raise KnowledgeBaseError(
                f"{self.store.folder} has vectors of {size} dimensions, but this embedding model gives "
                f"{rows.shape[1]}; open it with {self.store.settings.embedding}"
            )

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

    def search(self, query: str, k: int, mode: RetrieverName, chosen: AnyOf) -> list[Document]:
        """Return up to k passages, best first; equal texts count once.

        Where a writer deleted the index after a transaction began, the next state is taken.
        """
        vector = None
        if mode != "bm25" and self.embeddings is not None:
            vector = unit([self.embeddings.embed_query(query)])
        failure: Exception | None = None
        for _ in range(3):
            with self.store.snapshot() as now:
                try:
                    index = self.open(now.index, now.dimensions(), now.hashes)
                except (OSError, ValueError) as error:  # gone, or damaged
                    failure = error
                else:
                    return self._searched(now, index, query, vector, k, mode, chosen)
        raise KnowledgeBaseError(
            f"{self.store.folder}: its index cannot be read ({failure}); make it again with "
            f"ragweave doctor --repair --kb {self.store.folder}"
        ) from failure

    def _searched(
        self,
        now: Snapshot,
        index: _Index,
        query: str,
        vector: NDArray[np.float32] | None,
        k: int,
        mode: RetrieverName,
        chosen: AnyOf,
    ) -> list[Document]:
        near = None
        if vector is not None and index.vectors is not None:
            self._check_length(index.vectors.shape[1], vector)
            near = index.vectors @ vector[0]
        if near is not None and mode == "dense":
            return _distinct(now, index, index.only(near + 1, now, chosen), k, {}, shift=-1)
        scores = index.only(index.bm25.score(self.terms(query)), now, chosen)
        if near is not None:
            scores = index.only(fused_scores(scores, near), now, chosen)
        paths: Mapping[int, NamePath] = {}
        if mode in ("auto", "graph"):
            scores = scores / max(float(scores.max(initial=0)), 1e-9)
            best = {int(index.rows[at]): float(scores[at]) for at in top_k(scores, SEEDS)}
            stored = now.documents([*best])
            seeds = [Seed(row, score, stored[row]) for row, score in best.items()]
            scores, paths = along_names(now.db, query, seeds, scores, index.rows, index.bm25.score, self.terms)
            scores = index.only(scores, now, chosen)
        return _distinct(now, index, scores, k, paths)

    def around(self, name: str, sides: int, chosen: AnyOf) -> list[Document]:
        """Return the passage of an id with up to `sides` neighbours on each side in its document, in order."""
        with self.store.snapshot() as now:
            neighbours = now.db.execute(
                "SELECT other.id FROM passages own JOIN passages other ON other.id BETWEEN own.id - :sides AND own.id + :sides "
                "AND other.source = own.source AND other.document IS own.document "
                "AND json_extract(other.metadata, '$.title') IS json_extract(own.metadata, '$.title') "
                "WHERE own.id = (SELECT min(id) FROM passages WHERE name = :name) ORDER BY other.id",
                {"sides": sides, "name": name},
            )
            rows = [row for (row,) in neighbours]
            if chosen:
                rows = sorted(now.matching(chosen).intersection(rows))
            return [*now.documents(rows).values()]

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


def _distinct(
    now: Snapshot, index: _Index, scores: Scores, k: int, paths: Mapping[int, NamePath], *, shift: float = 0
) -> list[Document]:
    """Return the k best passages, best first; of equal texts the best.

    `shift` is added to each score that is shown. A path that gave more than half of a score is shown as `via`.
    """
    wanted = k
    while True:
        best = top_k(scores, wanted)
        rows = index.rows[best].tolist()
        docs: dict[str, Document] = {}
        for score, (row, doc) in zip(scores[best].tolist(), now.documents(rows).items(), strict=True):
            if doc.page_content not in docs:
                doc.metadata["score"] = score + shift
                path = paths.get(row)
                if path is not None and path.seed is not None and 2 * path.strength > score:
                    seed = path.seed.passage
                    doc.metadata["via"] = {"name": path.name, "passage": seed.id, "heading": heading_of(seed.metadata)}
                docs[doc.page_content] = doc
        if len(docs) >= k or len(best) < wanted:
            return list(docs.values())[:k]
        wanted *= 2
