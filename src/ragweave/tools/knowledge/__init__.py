"""The knowledge base: files in, passages out."""

from ragweave.tools.knowledge.base import KnowledgeBase
from ragweave.tools.knowledge.report import IndexReport, Progress, Skip
from ragweave.tools.knowledge.retrievers import RETRIEVERS, RetrieverKind, retriever_of
from ragweave.tools.knowledge.settings import Settings

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
