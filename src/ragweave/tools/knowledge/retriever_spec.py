"""A retriever as a line of text: `NAME`, `KB` or `NAME:KB`, where KB is a folder or an address.

So a command says where a method looks again, and a run's settings keep it for later processes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ragweave.errors import UsageError
from ragweave.tools.knowledge.base import KnowledgeBase
from ragweave.tools.knowledge.retrievers import RETRIEVERS, retriever_of
from ragweave.tools.retrieval import PassageRetriever
from ragweave.tools.stores import place_of


@dataclass(frozen=True)
class RetrieverSpec:
    """A retriever's name, and the knowledge base that it searches."""

    name: str
    kb: str = ""
    """Folder or address; "": none."""

    @classmethod
    def read(cls, text: str, kb: str | Path | None = None) -> RetrieverSpec:
        """Return what a user's text means.

        Args:
            text: A retriever's name, a knowledge base, or both with a colon between.
            kb: The knowledge base that a name alone searches, where it searches one.

        Raises:
            UsageError: It names neither a retriever nor a knowledge base, or a retriever that
                searches a knowledge base while there is none.
        """
        name, _, place = text.strip().partition(":")
        if name in RETRIEVERS:
            return cls(name, place or cls._searched(name, kb))
        found = place_of(text)
        if isinstance(found, Path) and not found.is_dir():
            raise UsageError(
                f"{text}: no such knowledge base, and no retriever of that name "
                f"(retrievers: {', '.join(RETRIEVERS.names())})"
            )
        return cls("auto", text.strip())

    @staticmethod
    def _searched(name: str, kb: str | Path | None) -> str:
        if not RETRIEVERS.named(name).needs_kb:
            return ""
        if kb is None:
            raise UsageError(f"{name} searches a knowledge base: name one with --kb, or {name}:KB")
        return str(kb)

    def __str__(self) -> str:
        """Return the text that `read` takes."""
        return f"{self.name}:{self.kb}" if self.kb else self.name

    def at(self, kb: str) -> RetrieverSpec:
        """Return the same retriever over a knowledge base at this place."""
        return replace(self, kb=kb)

    def open(self, base: KnowledgeBase | None = None) -> PassageRetriever:
        """Return the retriever.

        Args:
            base: The knowledge base, where it is open already.

        Raises:
            UsageError: There is no such knowledge base, or it cannot be searched like this.
        """
        if base is None and self.kb:
            base = KnowledgeBase.open(self.kb)
        return retriever_of(self.name, base)
