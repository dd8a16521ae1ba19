"""The knowledge base: files in, passages out."""

from ragweave.tools.knowledge.base import KnowledgeBase
from ragweave.tools.knowledge.report import IndexReport, Progress, Skip
from ragweave.tools.knowledge.settings import Settings

__all__ = ["IndexReport", "KnowledgeBase", "Progress", "Settings", "Skip"]
