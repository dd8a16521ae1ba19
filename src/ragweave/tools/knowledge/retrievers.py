"""Retrievers by name: over a knowledge base, or a package's own.

A retriever is declared by one value, whether ours or a package's:

    RETRIEVER = RetrieverKind(name="newest", summary="The newest passages first.",
                              make=lambda kb, k: NewestRetriever(kb=kb, k=k))

A package names it as an entry point of the group `ragweave.retrievers`; `--retriever newest` and
`kb.as_retriever(mode="newest")` then select it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from ragweave.errors import UsageError
from ragweave.registry import Registry
from ragweave.tools.retrieval import PairScorer, PassageRetriever, RerankRetriever
from ragweave.tools.retrieval.base import afind_with, awaits, check_k, find_with
from ragweave.tools.retrieval.reranking import DEPTH
from ragweave.tools.threads import awaited

if TYPE_CHECKING:
    from ragweave.tools.knowledge.base import KnowledgeBase


@dataclass(frozen=True, kw_only=True)
class RetrieverKind:
    """The declaration of a retriever: its name, and how to make one."""

    name: str
    summary: str
    """One line about what it finds."""
    make: Callable[[KnowledgeBase | None, int], BaseRetriever]
    """Makes a retriever over a knowledge base that returns `k` passages per query. Any LangChain
    retriever will do; a `PassageRetriever` accepts another `k` per call, and any other is made
    again where a call asks for more."""
    needs_kb: bool = True
    """Whether it searches the knowledge base; if False, it gets None where none is given."""


def _mode(name: str, kb: KnowledgeBase | None, k: int) -> BaseRetriever:
    assert kb is not None  # noqa: S101 - `retriever_of` has checked it
    return kb.search_by(name, k)


def _ours(name: str, summary: str) -> RetrieverKind:
    return RetrieverKind(name=name, summary=summary, make=partial(_mode, name))


_OURS = (
    _ours("auto", "hybrid where the knowledge base has embeddings, else bm25"),
    _ours("bm25", "words in common, weighted (BM25)"),
    _ours("dense", "nearness of embeddings"),
    _ours("hybrid", "bm25 and dense, fused by reciprocal rank"),
)

RETRIEVERS: Registry[RetrieverKind] = Registry(
    "ragweave.retrievers", RetrieverKind, "retriever", lambda: _OURS
)
"""Every retriever by name: ours, then those of other packages (entry points
`ragweave.retrievers`)."""


class AnyRetriever(PassageRetriever):
    """A LangChain retriever, its results cut to `k` and given ids."""

    inner: BaseRetriever
    make: Callable[[int], BaseRetriever] | None = None
    """Makes another `inner`, which finds more: the number of an `inner` is its own."""
    _most: int = PrivateAttr(default=0)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def _find(self, query: str, k: int) -> list[Document]:
        return find_with(self._for(k), query, k)

    def _awaits(self) -> bool:
        return awaits(self.inner)

    async def _afind(self, query: str, k: int) -> list[Document]:
        inner = await awaited(partial(self._for, k))  # making another may take long
        return await afind_with(inner, query, k)

    def _for(self, k: int) -> BaseRetriever:
        with self._lock:
            if self.make is not None and k > max(self.k, self._most):
                self.inner, self._most = self.make(k), k
            return self.inner


def retriever_of(
    name: str | RetrieverKind,
    kb: KnowledgeBase | None,
    k: int = 5,
    reranker: str | PairScorer | None = None,
) -> PassageRetriever:
    """Return the retriever called `name`.

    Args:
        name: One of `RETRIEVERS`, or a declaration of one's own.
        kb: The knowledge base to search; None where the retriever needs none.
        k: Passages a query; a call may ask for another number.
        reranker: Hub name or local path of a cross-encoder, another spec of `RERANKERS`, or an
            object with `predict`.

    Raises:
        UsageError: There is no such retriever, `k` is below 1, it needs a knowledge base, or it
            made something that is not a retriever.
    """
    check_k(k)
    kind = name if isinstance(name, RetrieverKind) else RETRIEVERS.named(name)
    if kb is None and kind.needs_kb:
        raise UsageError(
            f"the retriever {kind.name!r} searches a knowledge base: give one with --kb"
        )
    wanted = k if reranker is None else max(k, DEPTH)
    made = kind.make(kb, wanted)
    if not isinstance(made, BaseRetriever):
        raise UsageError(
            f"the retriever {kind.name!r}{_package(kind)} must make a LangChain retriever, "
            f"not {type(made).__name__}"
        )
    found = (
        made
        if isinstance(made, PassageRetriever)
        else AnyRetriever(inner=made, k=wanted, make=partial(kind.make, kb))
    )
    return found if reranker is None else RerankRetriever.over(found, reranker, k=k)


def _package(kind: RetrieverKind) -> str:
    return f" ({RETRIEVERS.package(kind.name)})" if kind.name in RETRIEVERS else ""


def needs_kb(name: str) -> bool:
    """Return whether a retriever searches the knowledge base.

    Raises:
        UsageError: There is no such retriever.
    """
    return RETRIEVERS.named(name).needs_kb
