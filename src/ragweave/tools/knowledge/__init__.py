"""The knowledge base: files in, passages out."""

from ragweave.tools.knowledge.base import KnowledgeBase
from ragweave.tools.knowledge.manifest import IndexReport, Progress, Settings, Skip
from ragweave.tools.knowledge.retrievers import RETRIEVERS, RetrieverKind, retriever_of

__all__ = [
    "RETRIEVERS",
    "IndexReport",
    "KnowledgeBase",
    "Progress",
    "RetrieverKind",
    "Settings",
    "Skip",
    "retriever_of",
]
