"""The base class of ragweave's retrievers: LangChain's, with `k` per call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import Field

from ragweave.errors import UsageError
from ragweave.state.passages import as_document, whole, with_id
from ragweave.tools.bindings import unbound
from ragweave.tools.threads import awaited


def check_k(k: int) -> int:
    """Return `k`, the number of passages wanted.

    Raises:
        UsageError: `k` is not a whole number of at least 1.
    """
    if type(k) is not int or k < 1:
        raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
    return k


class PassageRetriever(BaseRetriever):
    """A LangChain retriever that takes `k` a call: `retriever.invoke(query, k=8)`.

    Documents come best first with `id`, `page_content`, and in `metadata` their `title` and
    `source` where known, `rank` from 0 and `score`. The same index and query give the same
    documents in the same order. Safe to call from many threads; `ainvoke` runs in a worker
    thread, so the event loop goes on, but for what awaits by itself in a retriever over others. A
    blank query gives an empty list.
    """

    k: int = Field(default=5, ge=1)
    """Passages a query, where the call gives no `k`."""

    @abstractmethod
    def _find(self, query: str, k: int) -> list[Document]:
        """Return up to `k` documents for a query that is not blank, best first.

        Those without an id get a content id.
        """

    def lexical(self) -> PassageRetriever | None:
        """Return what searches the same passages by their words alone; None where nothing does."""
        return None

    def warm_up(self) -> None:
        """Load what the first search would load on this machine: nothing, unless overridden."""

    def find(self, query: str, k: int | None = None) -> list[Document]:
        """Return up to `k` ranked documents with ids, without LangChain's callbacks.

        Raises:
            UsageError: `k` is below 1, or something was found that is no document.
        """
        wanted = check_k(self.k if k is None else k)
        return _ranked(self._find(whole(query), wanted), wanted) if query.strip() else []

    async def afind(self, query: str, k: int | None = None) -> list[Document]:
        """Return what `find` does, awaiting what awaits by itself; the rest runs in a thread."""
        if not self._awaits():
            return await awaited(partial(self.find, query, k))
        wanted = check_k(self.k if k is None else k)
        return _ranked(await self._afind(whole(query), wanted), wanted) if query.strip() else []

    def _awaits(self) -> bool:
        """Say whether `_afind` awaits: of a retriever over others, where one of those does."""
        return False

    async def _afind(self, query: str, k: int) -> list[Document]:
        """Return what `_find` does; called where `_awaits` says so."""
        raise NotImplementedError

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        del run_manager
        return self.find(query, k)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        del run_manager
        if self._awaits():
            return await self.afind(query, k)
        return await run_in_executor(None, self.find, query, k)


def _ranked(found: Sequence[Document], k: int) -> list[Document]:
    return [
        doc.model_copy(update={"metadata": {**doc.metadata, "rank": rank}})
        for rank, doc in enumerate(map(_named, found[:k]))
    ]


def awaits(retriever: BaseRetriever) -> bool:
    """Say whether a retriever awaits by itself: any other's async methods run in a pool of threads."""
    kind = type(retriever)._aget_relevant_documents
    if isinstance(retriever, PassageRetriever) and kind is _OURS:
        return retriever._awaits()
    return kind is not BaseRetriever._aget_relevant_documents


_OURS = PassageRetriever._aget_relevant_documents


def takes_k(retriever: object) -> bool:
    """Say whether a retriever takes `k` a call: one of ours, with bindings around it or without."""
    return isinstance(unbound(retriever), PassageRetriever)


def lexical_of(retriever: object) -> PassageRetriever | None:
    """Return what searches the passages of any retriever by their words alone, where it knows."""
    own = unbound(retriever)
    return own.lexical() if isinstance(own, PassageRetriever) else None


def find_with(retriever: BaseRetriever, query: str, k: int) -> list[Document]:
    """Return up to `k` documents with ids of any LangChain retriever, in its order."""
    if isinstance(retriever, PassageRetriever):
        return retriever.find(query, k)
    return [_named(doc) for doc in retriever.invoke(query)[:k]]


async def afind_with(retriever: BaseRetriever, query: str, k: int) -> list[Document]:
    """Return what `find_with` does, awaiting a retriever that awaits by itself."""
    if not awaits(retriever):
        return await awaited(partial(find_with, retriever, query, k))
    if not isinstance(retriever, PassageRetriever):
        return [_named(doc) for doc in (await retriever.ainvoke(query))[:k]]
    if type(retriever)._aget_relevant_documents is _OURS:
        return await retriever.afind(query, k)
    return await retriever.ainvoke(query, k=k)


def _named(found: object) -> Document:
    return with_id(as_document(found))
