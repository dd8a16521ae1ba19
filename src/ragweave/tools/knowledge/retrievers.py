"""Retrievers by name: a mode of a knowledge base, or any LangChain retriever by its import path."""

import inspect
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

from langchain_core.retrievers import BaseRetriever

from ragweave.errors import UsageError, did_you_mean
from ragweave.names import Preference, RetrieverName
from ragweave.tools.imported import imported, is_path, object_at
from ragweave.tools.knowledge.base import AbstractKnowledgeBase
from ragweave.tools.knowledge.filters import ALL, Filter, parse
from ragweave.tools.knowledge.servers import is_address, open_knowledge_base
from ragweave.tools.retrieval.base import PassageRetriever, find_with
from ragweave.tools.retrieval.newest import arranged
from ragweave.tools.retrieval.reranking import Reranker
from ragweave.tools.retrieval.retrievers import SearchRetriever

MODES: tuple[str, ...] = get_args(RetrieverName)
"""How a knowledge base is searched: `auto`, `bm25`, `dense`, `hybrid`, `graph`."""

Place = TypeVar("Place")


def retriever_of(
    spec: str,
    kb: AbstractKnowledgeBase | str | Path | None = None,
    k: int = 5,
    *,
    filter: Filter = None,
    rerank: Reranker | None = None,
    prefer: Preference | None = None,
    permitted: Filter = None,
) -> PassageRetriever:
    """Return the retriever that a line of text names, which commands take and a run's settings can store.

    Args:
        spec: A mode of `MODES` (`bm25`), another knowledge base (`KB`) or a mode of it (`bm25:KB`), or
            the import path of a LangChain retriever, or of a function or class that returns one:
            `langchain_community.retrievers:WikipediaRetriever?top_k_results=3`. What takes an
            argument `kb` gets the knowledge base.
        kb: The knowledge base to search, or its place; None where the retriever needs none.
        k: Passages a query; a call may ask for another number.
        filter: As `KnowledgeBase.as_retriever`. What takes an argument `kb` gets only what passes.
        rerank: As `KnowledgeBase.as_retriever`.
        prefer: As `KnowledgeBase.as_retriever`.
        permitted: What it may see of any knowledge base, which is all that there is for it, as in `kb.view(permitted)`.

    Raises:
        UsageError: There is no such retriever, or it needs a knowledge base and there is none.
        KnowledgeBaseError: The knowledge base cannot be opened.
    """
    spec, kb = searched(spec, kb)
    if not needs_kb(spec):
        if {parse(filter), parse(permitted)} != {ALL}:
            raise UsageError(f"{spec} does not search a knowledge base, so it cannot be filtered")
        inner = imported(spec)
    else:
        if not kb:
            raise UsageError(f"the retriever {spec!r} searches a knowledge base: name one with --kb")
        base = open_knowledge_base(kb) if isinstance(kb, str | Path) else kb
        base = base.view(permitted) if permitted else base
        if spec in MODES:
            return base.as_retriever(k, spec, filter=filter, rerank=rerank, prefer=prefer)  # type: ignore[arg-type]
        inner = imported(spec, base.view(filter) if filter else base)
    if not isinstance(inner, BaseRetriever):
        raise UsageError(f"{spec} is not a LangChain retriever, but {type(inner).__name__}")
    return arranged(SearchRetriever(search=partial(find_with, inner), k=k), k, rerank, prefer)


def searched(spec: str, kb: Place) -> tuple[str, Place | str]:
    """Return the mode or import path that a retriever's spec names, and its knowledge base: the spec's own, else `kb`."""
    spec = spec.strip()
    name, _, place = spec.partition(":")
    if name in MODES and place:
        return name, place
    if spec not in MODES and (is_address(spec) or Path(spec).is_dir()):
        return "auto", spec
    return spec, kb


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
    value = object_at(spec.partition("?")[0])
    with suppress(ValueError):  # a class without a signature
        return callable(value) and next(iter(inspect.signature(value).parameters), "") == "kb"
    return False
