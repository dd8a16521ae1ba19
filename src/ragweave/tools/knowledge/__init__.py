"""The knowledge base: files in, passages out; in a folder, or behind an address."""

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
