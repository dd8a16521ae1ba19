"""Retrievers: BM25, dense, hybrid and reranked, all LangChain retrievers with `k` a call."""

from ragweave.tools.retrieval.base import PassageRetriever
from ragweave.tools.retrieval.bm25 import Bm25Retriever
from ragweave.tools.retrieval.dense import DenseRetriever
from ragweave.tools.retrieval.fusion import HybridRetriever, reciprocal_rank_fusion
from ragweave.tools.retrieval.rerank import PairScorer, RerankRetriever

__all__ = [
    "Bm25Retriever",
    "DenseRetriever",
    "HybridRetriever",
    "PairScorer",
    "PassageRetriever",
    "RerankRetriever",
    "reciprocal_rank_fusion",
]
