"""The passages of a silver row: found in a knowledge base, or the data set's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state import unique
from ragweave.state.passages import with_id
from ragweave.training.labels.source import Item

Order = Literal["gold-first", "given", "retrieved"]
"""How the data set's own passages come: the gold ones first, as they stand in the file, or by the
score that the file's retriever gave them, best first (FILCO trains on DPR's first)."""


class Passages:
    """Where a silver row's passages come from, best first."""

    def __init__(self, kb: Path | None, k: int, order: str = "gold-first") -> None:
        """Open the knowledge base, where one is named.

        Args:
            kb: Its folder; None: the data set's own passages.
            k: Most passages of a row; the paper filters the top 1, or the top 5.
            order: Order of the data set's own.

        Raises:
            UsageError: `k` is below 1, the order is unknown, or the folder is no knowledge base.
        """
        if k < 1:
            raise UsageError(f"--passages must be at least 1, not {k}")
        if order not in get_args(Order):
            raise UsageError(f"--order must be one of {', '.join(get_args(Order))}, not {order!r}")
        self._k, self._order = k, order
        self._retriever: Any = None
        self.described: dict[str, Any] = {"passages": f"the data set's own, {order}", "k": k}
        """What is written down of it."""
        if kb is not None:
            from ragweave.tools.knowledge import KnowledgeBase

            base = KnowledgeBase.open(kb)
            self._retriever = base.as_retriever(k)
            self.described = {
                "passages": f"knowledge base {kb.name}, generation {base.manifest.generation}",
                "k": k,
            }

    @property
    def own(self) -> bool:
        """Whether they are the data set's."""
        return self._retriever is None

    @staticmethod
    def all_own(item: Item) -> list[Document]:
        """Return all of the data set's passages of a question."""
        return list(item.question.passages) if item.question else []

    def of(self, item: Item) -> list[Document]:
        """Return the passages of a question, each once, with ids."""
        if self._retriever is not None:
            found: list[Document] = self._retriever.find(item.text, self._k)
        else:
            found = self.all_own(item)
            if self._order == "gold-first":
                found.sort(key=lambda doc: not doc.metadata.get("gold"))
            elif self._order == "retrieved":
                found = _by_score(item, found)
        filled = [with_id(doc) for doc in found if doc.page_content.strip()]
        return unique(filled)[: self._k]


def _by_score(item: Item, passages: list[Document]) -> list[Document]:
    try:
        return sorted(passages, key=lambda doc: -float(doc.metadata["score"]))
    except (KeyError, TypeError, ValueError) as fault:
        raise UsageError(
            f"{item.text!r}: --order retrieved needs a file that gives every passage a score, such "
            "as the ctxs of a DPR retrieval"
        ) from fault
