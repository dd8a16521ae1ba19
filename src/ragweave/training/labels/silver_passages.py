"""The passages of a silver row: found in a knowledge base, or the data set's own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal, get_args

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state import unique
from ragweave.state.passages import with_id
from ragweave.tools.retrieval import PassageRetriever
from ragweave.training.labels.source import InvalidRow, Item

Order = Literal["gold-first", "given", "retrieved"]
"""How the data set's own passages come: the gold ones first, as they stand in the file, or by the
score that the file's retriever gave them, best first (FILCO trains on DPR's first)."""


KB = "knowledge_base"
"""Key of the name of a knowledge base's state."""


class Passages:
    """Where a silver row's passages come from, best first.

    Pickled, it holds the place of its knowledge base, which another process opens for itself.
    """

    def __init__(self, kb: str | Path | None, k: int, order: str = "gold-first") -> None:
        """Open the knowledge base, where one is named.

        Args:
            kb: Its folder or address; None: the data set's own passages.
            k: Most passages of a row; the paper filters the top 1, or the top 5.
            order: Order of the data set's own.

        Raises:
            UsageError: `k` is below 1, the order is unknown or does not apply to a knowledge base.
            KnowledgeBaseError: The folder is no knowledge base.
        """
        if k < 1:
            raise UsageError(f"--passages must be at least 1, not {k}")
        if order not in get_args(Order):
            raise UsageError(f"--order must be one of {', '.join(get_args(Order))}, not {order!r}")
        if kb is not None and order != "gold-first":
            raise UsageError(
                f"--order is for the data set's own passages, and those of --kb come as they are "
                f"found: leave out --order {order}"
            )
        self._k, self._order = k, order
        self._place: str | Path | None = None
        self._retriever: PassageRetriever | None = None
        self.described: dict[str, Any] = {"passages": f"the data set's own, {order}", "k": k}
        """What is written down of it."""
        if kb is not None:
            from ragweave.tools.knowledge import open_knowledge_base

            base = open_knowledge_base(kb)
            self._place = base.path.absolute() if isinstance(base.path, Path) else kb
            self._retriever = base.as_retriever(k)
            name = getattr(base.path, "name", base.path)
            self.described = {"passages": f"knowledge base {name}", KB: base.state, "k": k}

    @property
    def own(self) -> bool:
        """Whether they are the data set's."""
        return self._place is None

    def open(self) -> PassageRetriever | None:
        """Open the knowledge base, if that has not been done in this process; None: there is none.

        Raises:
            KnowledgeBaseError: It is missing or damaged.
        """
        if self._retriever is None and self._place is not None:
            from ragweave.tools.knowledge import open_knowledge_base

            self._retriever = open_knowledge_base(self._place).as_retriever(self._k)
        return self._retriever

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: an open retriever holds files and locks."""
        return {**vars(self), "_retriever": None}

    def check(self, item: Item) -> InvalidRow | None:
        """Say what the data set's own passages of a row lack."""
        if not self.own:
            return None
        found = self.all_own(item)
        if not found:
            error = str(item.row.error("no passages: name a knowledge base with --kb"))
            return InvalidRow(item.index, item.data, "no passages", error)
        if self._order == "retrieved":
            try:
                _by_score(item, found)
            except UsageError as error:
                return InvalidRow(item.index, item.data, "a passage without a score", str(error))
        return None

    @staticmethod
    def all_own(item: Item) -> list[Document]:
        """Return all of the data set's passages of a question."""
        return list(item.question.passages) if item.question else []

    def of(self, item: Item) -> list[Document]:
        """Return the passages of a question, each once, with ids.

        Raises:
            UsageError: They are wanted by score, and one has none; the text names file and line.
        """
        retriever = self.open()
        if retriever is not None:
            found = retriever.find(item.text, self._k)
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
        scores = [float(doc.metadata["score"]) for doc in passages]
    except (KeyError, TypeError, ValueError):
        scores = [math.nan]
    if any(map(math.isnan, scores)):
        raise item.row.error(
            "--order retrieved needs a file that gives every passage a score, such as the ctxs of "
            "a DPR retrieval"
        )
    ranks = sorted(range(len(passages)), key=lambda at: -scores[at])
    return [passages[at] for at in ranks]
