"""Retrievers by name: a mode of a knowledge base, or any LangChain retriever by its import path.

A name is a line of text, so that commands take it and a run's settings can store it: `bm25` (a mode
of the knowledge base that is searched anyway), `KB` or `bm25:KB` (another one), or
`langchain_community.retrievers:WikipediaRetriever?top_k_results=3`.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from ragweave.errors import UsageError, did_you_mean
from ragweave.names import RetrieverName
from ragweave.tools.imported import imported, is_path, object_at
from ragweave.tools.knowledge.servers import is_address, open_knowledge_base
from ragweave.tools.knowledge.store import Filter
from ragweave.tools.retrieval.base import PassageRetriever, find_with
from ragweave.tools.retrieval.reranking import Reranker, RerankRetriever

if TYPE_CHECKING:
    from ragweave.tools.knowledge.base import KnowledgeBase
    from ragweave.tools.knowledge.servers import ServedKnowledgeBase

    AnyKnowledgeBase = KnowledgeBase | ServedKnowledgeBase

MODES: tuple[str, ...] = get_args(RetrieverName)
"""How a knowledge base is searched: `auto`, `bm25`, `dense`, `hybrid`, `graph`."""


class AnyRetriever(PassageRetriever):
    """A LangChain retriever, its results cut to `k` and given ids."""

    base: BaseRetriever

    def _find(self, query: str, k: int) -> list[Document]:
        return find_with(self.base, query, k)


def retriever_of(
    spec: str, kb: AnyKnowledgeBase | None, k: int = 5, *, filter: Filter = None, rerank: Reranker | None = None
) -> PassageRetriever:
    """Return the retriever that a spec names.

    Args:
        spec: A mode of `MODES`, or the import path of a LangChain retriever, or of a function or
            class that makes one; what takes an argument `kb` gets the knowledge base.
        kb: The knowledge base to search; None where the retriever needs none.
        k: Passages a query; a call may ask for another number.
        filter: As `KnowledgeBase.as_retriever`, for its modes alone.
        rerank: As `KnowledgeBase.as_retriever`.

    Raises:
        UsageError: There is no such retriever, or it needs a knowledge base and there is none.
    """
    takes_kb = needs_kb(spec)
    if takes_kb and kb is None:
        raise UsageError(f"the retriever {spec!r} searches a knowledge base: name one with --kb")
    if spec in MODES and kb is not None:
        return kb.as_retriever(k, cast("RetrieverName", spec), filter=filter, rerank=rerank)
    if filter:
        raise UsageError("a filter is for a knowledge base's own modes: leave it out")
    made = imported(spec, *([kb] if takes_kb else []))
    if not isinstance(made, BaseRetriever):
        raise UsageError(f"{spec} is no LangChain retriever, but {type(made).__name__}")
    found = AnyRetriever(base=made, k=k)
    return found if rerank is None else RerankRetriever.over(found, rerank, k=k)


def needs_kb(spec: str) -> bool:
    """Return whether a retriever searches a knowledge base.

    Raises:
        UsageError: There is no such retriever.
    """
    if spec in MODES:
        return True
    if not is_path(spec):
        raise UsageError(
            f"{spec}: no such knowledge base or retriever ({did_you_mean(spec, MODES)}); a LangChain retriever is named "
            "by its import path, module:Name"
        )
    made = object_at(spec.partition("?")[0])
    with suppress(ValueError):  # a class without a signature
        return callable(made) and next(iter(inspect.signature(made).parameters), "") == "kb"
    return False


def retriever_named(text: str, kb: str | Path | None = None) -> PassageRetriever:
    """Return the retriever that a user's text names.

    Args:
        text: A retriever's name, a knowledge base, or both with a colon between.
        kb: The knowledge base that a name alone searches.

    Raises:
        UsageError: It names neither a retriever nor a knowledge base, or a retriever that
            searches a knowledge base while there is none.
        KnowledgeBaseError: The knowledge base cannot be opened.
    """
    text = text.strip()
    name, _, place = text.partition(":")
    if is_address(text) or Path(text).is_dir():
        name, place = "auto", text
    elif not (name in MODES and place):
        name, place = text, str(kb or "") if needs_kb(text) else ""
    return retriever_of(name, open_knowledge_base(place) if place else None)
