"""Passages: LangChain documents with a stable id and with rank, score and query in `metadata`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from langchain_core.documents import Document

from ragweave.errors import UsageError

GIVEN = "given"
"""`metadata["query"]` of passages that the caller has just handed in."""

INPUT = "input"
"""`metadata["query"]` of the same passages once a run has taken them up."""


def content_id(text: str, title: str = "") -> str:
    """Return the id of a passage that has none: 16 hex digits of its title and text."""
    return hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16]


def with_id(document: Document) -> Document:
    """Return `document`, or a copy with a content id where it has no id."""
    if document.id:
        return document
    title = str(document.metadata.get("title") or "")
    return document.model_copy(update={"id": content_id(document.page_content, title)})


def ranked(documents: Iterable[Document], query_key: str) -> list[Document]:
    """Return copies with ids, `metadata["rank"]` from 0 and `metadata["query"]` = `query_key`."""
    return [
        (named := with_id(doc)).model_copy(
            update={"metadata": {**named.metadata, "rank": rank, "query": query_key}}
        )
        for rank, doc in enumerate(documents)
    ]


def as_document(value: object) -> Document:
    """Take a document, its JSON form (`page_content`, `metadata`, `id`) or a bare text.

    Raises:
        UsageError: `value` is none of these.
    """
    if isinstance(value, Document):
        return value
    if isinstance(value, str):
        return Document(page_content=value)
    fields = value.get("kwargs", value) if isinstance(value, Mapping) else {}
    if "page_content" not in fields:
        raise UsageError(
            "a passage must be a LangChain Document, a mapping with page_content, or a text, "
            f"not {type(value).__name__}"
            + (f" with {', '.join(map(str, fields))}" if fields else "")
        )
    return Document(
        page_content=fields["page_content"],
        metadata=dict(fields.get("metadata") or {}),
        id=fields.get("id"),
    )


def unique(documents: Iterable[Document]) -> list[Document]:
    """Drop documents whose id or text (case and white space folded) an earlier kept one has."""
    seen: set[str] = set()
    kept: list[Document] = []
    for doc in map(with_id, documents):
        keys = {f"id:{doc.id}", "text:" + " ".join(doc.page_content.casefold().split())}
        if not keys & seen:
            kept.append(doc)
            seen |= keys
    return kept


def interleave(lists: Sequence[Sequence[Document]]) -> list[Document]:
    """Merge ranked lists: all rank 0s in list order, then all rank 1s, …, without duplicates.

    Source: SlimPLM, search details (results of several queries are interleaved).
    """
    longest = max(map(len, lists), default=0)
    return unique(one[rank] for rank in range(longest) for one in lists if rank < len(one))


def by_query(lists: Sequence[Sequence[Document]]) -> list[Document]:
    """Join ranked lists one behind the other, without duplicates.

    Source: BlendFilter, section 3.3 (the union of the filtered sets, in query order).
    """
    return unique(doc for one in lists for doc in one)


def as_input(documents: Iterable[Document]) -> list[Document]:
    """Return copies whose query mark says `input` where it said `given`: taken up by a run."""
    return [
        doc.model_copy(update={"metadata": {**doc.metadata, "query": INPUT}})
        if doc.metadata.get("query") == GIVEN
        else doc
        for doc in documents
    ]
