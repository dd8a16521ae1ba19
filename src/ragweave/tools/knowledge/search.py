"""Search: a writer builds an index for each state; readers open and query it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError, RagweaveError
from ragweave.state.passages import heading_of
from ragweave.tools.knowledge.passages import indexed_text
from ragweave.tools.knowledge.store import Snapshot, Store
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.retrieval.bm25_index import Bm25Index, top_k
from ragweave.tools.retrieval.graph import SEEDS, NamePath, Scores, Seed, along_names
from ragweave.tools.retrieval.retrievers import DEPTH, fused_scores
from ragweave.tools.retrieval.vectors import EXACT, Chroma, chroma_available, unit

Mode = Literal["bm25", "dense", "hybrid", "graph"]
T = TypeVar("T")
_STATES = 2
"""States whose opened index is cached for the next query."""
_FILTERS = 8
"""Filters whose passages are cached."""
_OPENING = threading.Lock()
"""Taken while arrays are opened: numpy reads their headers by `ast`, which in Python 3.11 may fail
when several threads parse (CPython issue 106905)."""
_VECTORS = "vectors.npy"


@dataclass(frozen=True)
class _Index:
    """The opened index of one state."""

    rows: NDArray[np.int64]
    """Row ids of the passages, in the index's order, ascending."""
    bm25: Bm25Index
    vectors: NDArray[np.float32] | None
    """Vectors in that order; None where Chroma has them, or there are none."""


class Search:
    """Builds the index of a state, and searches it; safe to use from threads."""

    def __init__(self, store: Store, embeddings: Embeddings | None) -> None:
        """Search a store, with the embeddings that its vectors are of."""
        self.store, self.embeddings = store, embeddings
        self.chroma = Chroma(store.folder / "chroma")
        self._indexes: OrderedDict[str, _Index] = OrderedDict()
        self._matching: OrderedDict[tuple[str, str], NDArray[np.bool_]] = OrderedDict()
        self._lock = threading.Lock()

    def embed(self, texts: list[str]) -> list[bytes]:
        """Return the vectors of passages.

        Raises:
            KnowledgeBaseError: The model's connection failed, or it gives vectors of another length.
        """
        assert self.embeddings is not None  # noqa: S101
        try:
            rows = unit(self.embeddings.embed_documents(texts))
        except OSError as error:  # of its server; the store's own would be of the disk
            raise KnowledgeBaseError(f"the embedding model failed: {error}") from error
        return [row.tobytes() for row in rows]

    def by_chroma(self, now: Snapshot) -> bool:
        """Return whether Chroma searches the vectors of a state."""
        dense = self.store.settings.embedding is not None
        return dense and now.count() > EXACT and chroma_available()

    def build(self, now: Snapshot, folder: Path, *, anew: bool = False) -> None:
        """Write the index of a state into a folder: row ids, BM25 arrays and vectors.

        Args:
            now: The state; its `index` still names the index before it, which is extended.
            folder: Where the files go.
            anew: Whether to leave the index before it unread.
        """
        before = self._before("" if anew else now.index)
        rows = np.fromiter(now.rows(), dtype=np.int64)
        keep = np.isin(before.rows, rows, assume_unique=True)
        last = int(before.rows[-1]) if len(before.rows) else 0
        analyzer = analyzer_for(self.store.settings.language)
        texts = (analyzer.terms(indexed_text(text, meta)) for _, text, meta in now.texts(last))
        Bm25Index.build(texts, folder, before=before.bm25, keep=keep)
        np.save(folder / "rows.npy", rows)
        if self.store.settings.embedding is None or not len(rows):
            return
        if self.by_chroma(now):
            self.chroma.sync(now.vectors(), drop=False)
        else:
            self._write_vectors(now, folder / _VECTORS, rows, before, keep)

    def _before(self, name: str) -> _Index:
        try:
            return self.open(name)
        except OSError:  # damaged, or deleted: made anew
            return self.open("")

    def _write_vectors(
        self,
        now: Snapshot,
        path: Path,
        rows: NDArray[np.int64],
        before: _Index,
        keep: NDArray[np.bool_],
    ) -> None:
        done, last = 0, 0
        made = None
        if before.vectors is not None and keep.any():
            shape = (len(rows), before.vectors.shape[1])
            made = np.lib.format.open_memmap(path, "w+", np.float32, shape)
            done, last = int(keep.sum()), int(before.rows[-1])
            made[:done] = before.vectors[keep]
        for row, _, vector in now.vectors(last):
            if made is None:
                shape = (len(rows), len(vector) // 4)
                made = np.lib.format.open_memmap(path, "w+", np.float32, shape)
            if rows[done] != row or len(vector) != 4 * made.shape[1]:
                break
            made[done] = np.frombuffer(vector, np.float32)
            done += 1
        if done < len(rows):
            raise KnowledgeBaseError(
                f"{self.store.folder}: {len(rows) - done} vectors are missing or of another length "
                f"than those of {self.store.settings.embedding}; open it with that model"
            )

    def search(self, query: str, k: int, mode: Mode, chosen: dict[str, Any]) -> list[Document]:
        """Return up to k passages, best first; of equal texts one."""
        vector = None
        if mode != "bm25" and self.embeddings is not None:
            vector = unit([self.embeddings.embed_query(query)])[0]
        terms = analyzer_for(self.store.settings.language).terms

        def search(now: Snapshot, index: _Index) -> list[Document]:
            allowed = self._allowed(now, index, chosen)
            near = None
            if vector is not None:
                near = self._similarity(now, index, vector, max(k, DEPTH), allowed)
            if near is not None and mode == "dense":
                return _distinct(now, index, _only(near, allowed), k, shift=-1)
            scores = _only(index.bm25.score(terms(query)), allowed)
            if near is not None:
                scores = _only(fused_scores(scores, near - 1), allowed)
            if mode != "graph":
                return _distinct(now, index, scores, k)
            scores, paths = self._along_names(now, index, query, scores)
            return _distinct(now, index, _only(scores, allowed), k, paths)

        return self._with_index(search)

    def _along_names(
        self, now: Snapshot, index: _Index, query: str, scores: Scores
    ) -> tuple[Scores, dict[int, NamePath]]:
        """Return scores with those of the paths that lead from the first passages, and the paths by row id."""
        scores = scores / max(float(scores.max(initial=0)), 1e-9)
        best = {int(index.rows[at]): float(scores[at]) for at in top_k(scores, SEEDS)}
        stored = now.passages(best)
        seeds = [Seed(row, score, *stored[row]) for row, score in best.items()]
        terms = analyzer_for(self.store.settings.language).terms
        return along_names(now.db, query, seeds, scores, index.rows, index.bm25.score, terms)

    def around(self, name: str, sides: int, chosen: dict[str, Any]) -> list[Document]:
        """Return the passage of an id with up to `sides` neighbours on each side, in order."""
        with self.store.snapshot() as now:
            rows = now.around(name, sides, now.matching(chosen) if chosen else None)
            stored = sorted(now.passages(rows).items())
        return [Document(id=own, page_content=text, metadata=meta) for _, (own, text, meta) in stored]

    def _with_index(self, work: Callable[[Snapshot, _Index], T]) -> T:
        """Do something with the current state and its index.

        Where a writer deleted the index after this transaction began, the next state is taken.
        """
        failure: Exception | None = None
        for _ in range(3):
            with self.store.snapshot() as now:
                try:
                    return work(now, self.open(now.index))
                except RagweaveError:
                    raise
                except (OSError, IndexError, KeyError, ValueError) as error:  # gone, or damaged
                    failure = error
        raise KnowledgeBaseError(
            f"{self.store.folder}: its index cannot be read ({failure}); make it again with "
            f"ragweave doctor --repair --kb {self.store.folder}"
        ) from failure

    def open(self, name: str) -> _Index:
        """Open the index of a state; "" is an empty one.

        Raises:
            OSError: It is missing or damaged.
        """
        with self._lock:
            if name in self._indexes:
                self._indexes.move_to_end(name)
                return self._indexes[name]
        if not name:
            return _Index(np.empty(0, np.int64), Bm25Index.build([]), None)
        folder = self.store.folder / name
        try:
            with _OPENING:
                rows = np.load(folder / "rows.npy", allow_pickle=False)
                bm25 = Bm25Index.open(folder)
                path = folder / _VECTORS
                vectors = np.asarray(np.load(path, mmap_mode="r")) if path.exists() else None
        except OSError:
            raise
        except Exception as error:  # numpy's reader raises many kinds over damaged headers
            raise OSError(f"{folder}: damaged, {error}") from error
        index = _Index(rows, bm25, vectors)
        with self._lock:
            self._indexes[name] = index
            while len(self._indexes) > _STATES:
                self._indexes.popitem(last=False)
        return index

    def _allowed(self, now: Snapshot, index: _Index, chosen: dict[str, Any]) -> NDArray[np.bool_] | None:
        """Return which passages pass the filter; None: all do."""
        if not chosen:
            return None
        key = now.index, repr(sorted(chosen.items()))
        with self._lock:
            if key in self._matching:
                return self._matching[key]
        made = np.isin(index.rows, np.array(now.matching(chosen), dtype=np.int64))
        with self._lock:
            self._matching[key] = made
            while len(self._matching) > _FILTERS:
                self._matching.popitem(last=False)
        return made

    def _similarity(
        self,
        now: Snapshot,
        index: _Index,
        vector: NDArray[np.float32],
        k: int,
        allowed: NDArray[np.bool_] | None,
    ) -> NDArray[np.float32]:
        """Return a positive score a passage: cosine + 1; 0 for what Chroma did not find."""
        if index.vectors is not None:
            if len(vector) != index.vectors.shape[1]:
                raise KnowledgeBaseError(
                    f"{self.store.folder} has vectors of {index.vectors.shape[1]} dimensions, but "
                    f"this embedding model gives {len(vector)}; open it with "
                    f"{self.store.settings.embedding}"
                )
            return index.vectors @ vector + 1
        if len(index.rows) and not self.by_chroma(now):
            raise OSError(f"{_VECTORS} is missing")
        scores = np.zeros(len(index.rows), dtype=np.float32)
        for row, similarity in self._from_chroma(now, index, vector, k, allowed):
            scores[np.searchsorted(index.rows, row)] = similarity + 1
        return scores

    def _from_chroma(
        self,
        now: Snapshot,
        index: _Index,
        vector: NDArray[np.float32],
        k: int,
        allowed: NDArray[np.bool_] | None,
    ) -> Iterator[tuple[int, float]]:
        """Yield row ids and cosines: the nearest by Chroma; with a filter all that pass it."""
        if allowed is not None:
            for row, _, data in now.vectors(rowids=index.rows[allowed].tolist()):
                yield row, float(np.frombuffer(data, np.float32) @ vector)
        elif len(index.rows):
            near = dict(self.chroma.nearest(vector, 2 * k, now.index))
            for row, content in now.rows_of(near):
                yield row, near[content]

    def close(self) -> None:
        """Close what is open; a later search opens it again."""
        self.chroma.close()
        self._indexes.clear()


def _only(scores: Scores, allowed: NDArray[np.bool_] | None) -> Scores:
    return scores if allowed is None else np.where(allowed, scores, np.float32(0))


def _distinct(
    now: Snapshot,
    index: _Index,
    scores: Scores,
    k: int,
    paths: Mapping[int, NamePath] | None = None,
    *,
    shift: float = 0,
) -> list[Document]:
    """Return the k best passages, best first; of equal texts the best one.

    `shift` is added to each score that is shown. A path that gave more than half of a score is shown as `via`.
    """
    wanted = k
    while True:
        best = top_k(scores, wanted)
        rows = index.rows[best]
        stored = now.passages(rows)
        found: dict[str, Document] = {}
        for at, row in zip(best.tolist(), rows.tolist(), strict=True):
            name, text, metadata = stored[row]
            if text not in found:
                metadata["score"] = float(scores[at]) + shift
                path = (paths or {}).get(row)
                if path is not None and path.seed is not None and 2 * path.strength > scores[at]:
                    heading = heading_of(path.seed.metadata)
                    metadata["via"] = {"name": path.name, "passage": path.seed.id, "heading": heading}
                found[text] = Document(id=name, page_content=text, metadata=metadata)
        if len(found) >= k or len(best) < wanted:
            return list(found.values())[:k]
        wanted *= 2
