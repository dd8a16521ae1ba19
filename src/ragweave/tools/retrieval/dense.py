"""Dense retrieval: passages whose embedding is nearest to the query's."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from ragweave.state.passages import as_document, with_id
from ragweave.tools.retrieval.base import PassageRetriever, check_k
from ragweave.tools.retrieval.bm25 import Search, full_text, scored


class DenseRetriever(PassageRetriever):
    """Retrieval by cosine similarity of embeddings; the score is the similarity."""

    search: Search

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], embeddings: Embeddings, *, k: int = 5
    ) -> DenseRetriever:
        """Embed `documents` in memory, each as one passage, and compare exactly.

        Args:
            documents: Passages; those without an id get a content id.
            embeddings: Any LangChain embeddings.
            k: Passages a query.

        Raises:
            UsageError: `k` is below 1.
        """
        passages = [with_id(as_document(doc)) for doc in documents]
        vectors = _unit(embeddings.embed_documents([full_text(doc) for doc in passages]))

        def search(query: str, k: int) -> list[Document]:
            if not passages:
                return []
            similarity = vectors @ _unit([embeddings.embed_query(query)])[0]
            order = np.lexsort((np.arange(len(passages)), -similarity))[:k]
            return [scored(passages[number], float(similarity[number])) for number in order]

        return cls(search=search, k=check_k(k))

    def _find(self, query: str, k: int) -> list[Document]:
        return self.search(query, k)


def _unit(vectors: list[list[float]]) -> NDArray[np.float32]:
    rows = np.asarray(vectors, dtype=np.float32)
    if not rows.size:
        return rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)
