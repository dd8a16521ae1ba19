"""Reranking with a cross-encoder."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr

from ragweave.errors import UsageError
from ragweave.tools.retrieval.base import PassageRetriever, check_k, find_with
from ragweave.tools.retrieval.bm25 import full_text, scored
from ragweave.tools.retrieval.embedding import load_cross_encoder


@runtime_checkable
class PairScorer(Protocol):
    """Scores (query, passage) pairs, as sentence-transformers' `CrossEncoder` does."""

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        """Return one score a pair; higher is better."""
        ...


class RerankRetriever(PassageRetriever):
    """Asks another retriever for `depth` passages and orders them by a cross-encoder's score.

    Source: Nogueira and Cho 2019, "Passage Re-ranking with BERT".
    """

    base: BaseRetriever
    """Any LangChain retriever."""
    model: Any
    """Hub name or local path of a cross-encoder, or any object with `predict(pairs)`."""
    depth: int = Field(default=20, ge=1)
    """Passages asked of `base`, at least `k`."""
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)
    _scorer: PairScorer | None = PrivateAttr(default=None)

    @classmethod
    def over(
        cls, base: BaseRetriever, model: str | PairScorer, *, k: int = 5, depth: int = 20
    ) -> RerankRetriever:
        """Rerank what `base` finds; a named model is loaded at the first query.

        Raises:
            UsageError: `model` is neither a name nor has `predict`, or `k` is below 1.
        """
        if not isinstance(model, str) and not isinstance(model, PairScorer):
            raise UsageError(f"A reranker is a model name, a path or has predict(pairs): {model!r}")
        return cls(base=base, model=model, k=check_k(k), depth=check_k(depth))

    def _find(self, query: str, k: int) -> list[Document]:
        found = find_with(self.base, query, max(self.depth, k))
        if not found:
            return []
        with self._lock:  # tokenizers and most models are not safe under threads
            if self._scorer is None:
                self._scorer = (
                    load_cross_encoder(self.model) if isinstance(self.model, str) else self.model
                )
            scores = self._scorer.predict([(query, full_text(doc)) for doc in found])
        judged = [scored(doc, float(score)) for doc, score in zip(found, scores, strict=True)]
        return sorted(judged, key=lambda doc: -doc.metadata["score"])[:k]
