"""Retrievers: BM25, dense, fused by rank, and reranked: LangChain retrievers with `k` for each call."""

from ragweave.tools.retrieval.base import PassageRetriever
from ragweave.tools.retrieval.reranking import ListwiseReranker, PairScorer, RerankRetriever
from ragweave.tools.retrieval.retrievers import (
    Bm25Retriever,
    DenseRetriever,
    RankFusionRetriever,
    reciprocal_rank_fusion,
)

__all__ = [
    "Bm25Retriever",
    "DenseRetriever",
    "RankFusionRetriever",
    "ListwiseReranker",
    "PairScorer",
    "PassageRetriever",
    "RerankRetriever",
    "reciprocal_rank_fusion",
]
