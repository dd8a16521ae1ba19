"""Search: written once, over any state of any store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.names import RetrieverName
from ragweave.state.passages import heading_of, without_hidden
from ragweave.tools.embeddings.named import unit
from ragweave.tools.knowledge.graph import NamePath, along_names
from ragweave.tools.knowledge.view import Pool, Query, Scores, View
from ragweave.tools.retrieval.bm25_index import top_k
from ragweave.tools.retrieval.retrievers import Spread, fused_scores


@dataclass(frozen=True)
class Embedder:
    """The embedding model of a knowledge base, if it has one."""

    place: str
    """The knowledge base, for errors."""
    name: str | None
    """The model that the vectors of the knowledge base are of."""
    model: Embeddings | None

    def loaded(self) -> Embeddings:
        """Return the model; `KnowledgeBaseError` if it is an object that `open` was not given."""
        if self.model is None:
            raise KnowledgeBaseError(f"{self.place} was made with {self.name}: pass that object to open()")
        return self.model

    def documents(self, texts: list[str], size: int) -> Scores:
        """Return the vectors of passages, each of length 1.

        Raises:
            KnowledgeBaseError: The model fails, or its vectors do not have the dimensions given, unless that is 0.
        """
        try:
            vectors = unit(self.loaded().embed_documents(texts))
        except OSError as error:  # of its server; the store's own would be of the disk
            raise KnowledgeBaseError(f"the embedding model failed: {error}") from error
        self.check(vectors, size)
        return vectors

    def query(self, text: str) -> Scores:
        """Return the vector of a query, of length 1."""
        vector: Scores = unit([self.loaded().embed_query(text)])[0]
        return vector

    def check(self, vectors: Scores, size: int) -> None:
        """Raise `KnowledgeBaseError` if vectors do not have the dimensions of those stored, unless that is 0."""
        if size not in (0, vectors.shape[-1]):
            raise KnowledgeBaseError(
                f"{self.place} has vectors of {size} dimensions, but this embedding model gives "
                f"{vectors.shape[-1]}; open it with {self.name}"
            )


def base_scores(words: Scores | None, near: Scores | None, spread: Spread | None = None) -> Scores:
    """Return the scores of passages from their BM25 scores and cosines; those of good passages are above 0.

    `spread` is that of all passages; None: these are all.
    """
    if words is None:
        return np.zeros(0, np.float32) if near is None else near + 1
    return words if near is None else fused_scores(words, near, spread or Spread.of(words, near))


def search(
    view: View, question: str, query: Query, k: int, mode: RetrieverName, terms: Callable[[str], list[str]]
) -> list[Document]:
    """Return up to k passages, best first; equal texts count once. `terms` is the analyzer."""
    pool = view.pool(query)
    scores, paths = pool.scores, dict[int, NamePath]()
    if mode in ("auto", "graph"):
        scores, paths = along_names(view, question, pool, terms)
    shift = -1 if query.terms is None else 0
    return _distinct(pool, scores, k, paths, shift=shift)


def _distinct(pool: Pool, scores: Scores, k: int, paths: Mapping[int, NamePath], *, shift: float) -> list[Document]:
    """Return the k best passages, best first; of equal texts the best.

    `shift` is added to each score that is shown. A path that gave more than half of a score is shown as `via`.
    """
    wanted = k
    while True:
        best = top_k(scores, wanted)
        docs: dict[str, Document] = {}
        stored = pool.documents(pool.rows[best].tolist())
        for score, (row, doc) in zip(scores[best].tolist(), stored.items(), strict=True):
            without_hidden([doc])
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
