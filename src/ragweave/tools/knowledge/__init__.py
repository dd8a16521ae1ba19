"""The knowledge base: files in, passages out; in a folder, or at an address."""

from ragweave.state.passages import place_at
from ragweave.tools.knowledge.base import KnowledgeBase
from ragweave.tools.knowledge.servers import ServedKnowledgeBase, needs_kb, open_knowledge_base, retriever_of
from ragweave.tools.knowledge.settings import FileLimits, IndexReport, IndexSettings, Notice
from ragweave.tools.knowledge.view import Source

__all__ = [
    "FileLimits",
    "IndexReport",
    "KnowledgeBase",
    "Notice",
    "ServedKnowledgeBase",
    "IndexSettings",
    "Source",
    "needs_kb",
    "open_knowledge_base",
    "place_at",
    "retriever_of",
]
