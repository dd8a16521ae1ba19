"""The base class of ragweave's retrievers: LangChain's, with `k` for each call."""

import inspect
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStoreRetriever
from pydantic import Field

from ragweave.errors import UsageError
from ragweave.state.passages import as_document, encodable, with_id
from ragweave.tools.models.roles import unbound

_ALONE = (str, bytes, os.PathLike, Mapping, Document)


def listed(given: object) -> list[Any]:
    """Return what was given as a list; a text, path, mapping or document alone is the only item."""
    return [given] if isinstance(given, _ALONE) or not isinstance(given, Iterable) else list(given)


def check_k(k: int) -> int:
    """Return `k`, the number of passages wanted.

    Raises:
        UsageError: It is not a whole number of at least 1.
    """
    if type(k) is not int or k < 1:
        raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
    return k


class PassageRetriever(BaseRetriever):
    """A LangChain retriever that takes `k` with each call: `retriever.invoke(query, k=8)`.

    Documents come best first with `id`, `page_content`, and in `metadata` their `title` and
    `source` where known, `rank` from 0 and `score`. The same index and query give the same
    documents in the same order. Safe to call from many threads; `ainvoke` runs in a worker
    thread. A blank query gives an empty list.
    """

    k: int = Field(default=5, ge=1)
    """Passages per query, if the call gives no `k`."""
    base: BaseRetriever | None = None
    """The retriever whose passages this retriever returns, if there is one below it."""
    words: BaseRetriever | None = None
    """What searches the same passages by words alone."""
    embeddings: Any = None
    """What embeds the passages."""
    places: Callable[[str, int], list[Document]] | None = None
    """Takes an id and a number of neighbours on each side; returns that passage among its neighbours, in order, or
    nothing if the id is unknown."""
    evidence: Callable[[Any], Any] | None = None
    """Takes a citation or quote; returns where it stands in its file, as `KnowledgeBase.evidence`."""
    collection: Any = None
    """The knowledge base that it searches, or the view of it that its filter lets through, for questions about all
    passages: `documents()` yields them, `tables()` are their rows (`AbstractKnowledgeBase`). A method gets it by `known_of(retriever, "collection")`.
    """

    @abstractmethod
    def _find(self, query: str, k: int) -> list[Document]:
        """Return up to `k` documents for a query that is not blank, best first."""

    def find(self, query: str, k: int | None = None) -> list[Document]:
        """Return up to `k` ranked documents with ids, without LangChain's callbacks."""
        wanted = check_k(self.k if k is None else k)
        docs = self._find(encodable(query), wanted)[:wanted] if query.strip() else []
        named = [with_id(as_document(doc)) for doc in docs]
        return [doc.model_copy(update={"metadata": {**doc.metadata, "rank": rank}}) for rank, doc in enumerate(named)]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        del run_manager
        return self.find(query, k)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        del run_manager
        return await run_in_executor(None, self.find, query, k)


def takes_k(retriever: object, method: str = "_get_relevant_documents") -> bool:
    """Return whether a retriever's method takes `k` with each call, inside bindings or not."""
    own = unbound(retriever)
    search = getattr(own, method, None)
    by_signature = search is not None and "k" in inspect.signature(search).parameters
    return by_signature or isinstance(own, VectorStoreRetriever)


def known_of(retriever: object, name: str) -> Any:
    """Return a field such as `words` or `collection` of a retriever, bound or not, or of the retriever below it."""
    own = unbound(retriever)
    while isinstance(own, PassageRetriever):
        if (value := getattr(own, name)) is not None:
            return value
        own = unbound(own.base)
    return None


Reading = Callable[[str, Callable[[], list[Document]]], list[Document]]
"""Takes how passages are read (`search`, `fetch`, `source`) and a function that reads them; returns what is passed on."""


class ReadThrough(PassageRetriever):
    """Another retriever; every passage that it or its fields lead to is read through a function."""

    base: BaseRetriever
    reading: Reading

    @classmethod
    def over(cls, base: BaseRetriever, reading: Reading) -> Self:
        """Let passages be read through `reading` alone."""
        words, places, collection = (known_of(base, name) for name in ("words", "places", "collection"))
        return cls(
            base=base,
            reading=reading,
            words=words and cls.over(words, reading),
            places=places and (lambda name, sides: reading("fetch", lambda: places(name, sides))),
            collection=None if collection is None else _ReadCollection(collection, reading),
        )

    def _find(self, query: str, k: int) -> list[Document]:
        return self.reading("search", lambda: find_with(self.base, query, k))


class _ReadTables:
    """Tables whose passages are read through a function."""

    def __init__(self, inner: Any, reading: Reading) -> None:
        self._inner, self._reading = inner, reading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def passages(self, *numbers: Any) -> list[Document]:
        return self._reading("source", lambda: self._inner.passages(*numbers))


class _ReadCollection(_ReadTables):
    """A knowledge base whose passages are read through a function."""

    def view(self, filter: Any) -> "_ReadCollection":
        return _ReadCollection(self._inner.view(filter), self._reading)

    def tables(self) -> _ReadTables:
        return _ReadTables(self._inner.tables(), self._reading)

    def documents(self) -> Iterator[list[Document]]:
        return (self._reading("source", partial(list, passages)) for passages in self._inner.documents())


def find_with(retriever: BaseRetriever, query: str, k: int) -> list[Document]:
    """Return up to `k` documents with ids of any LangChain retriever, in its order."""
    if isinstance(retriever, PassageRetriever):
        return retriever.find(query, k)
    more: Any = {"k": k} if takes_k(retriever) else {}
    return [with_id(as_document(doc)) for doc in retriever.invoke(query, **more)[:k]]


def with_score(document: Document, score: float) -> Document:
    """Return a copy of `document` with `metadata["score"]`."""
    return document.model_copy(update={"metadata": {**document.metadata, "score": score}})
