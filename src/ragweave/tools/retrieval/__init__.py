"""Retrievers: BM25, dense, hybrid and reranked, all LangChain retrievers with `k` per call."""

from ragweave.tools.retrieval.base import PassageRetriever
from ragweave.tools.retrieval.bm25 import Bm25Retriever
from ragweave.tools.retrieval.hybrid import DenseRetriever, HybridRetriever, reciprocal_rank_fusion
from ragweave.tools.retrieval.reranking import PairScorer, RerankRetriever

__all__ = [
    "Bm25Retriever",
    "DenseRetriever",
    "HybridRetriever",
    "PairScorer",
    "PassageRetriever",
    "RerankRetriever",
    "reciprocal_rank_fusion",
]
