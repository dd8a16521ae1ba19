"""Adding documents that a program has: they become passages in a draft of the next generation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state.passages import MERGED_RANK, OF_RUN, as_document, whole
from ragweave.tools.knowledge.chunking import Tokens
from ragweave.tools.knowledge.draft import Draft, Passage, Source
from ragweave.tools.knowledge.intake import Cutter, cut
from ragweave.tools.knowledge.manifest import Settings
from ragweave.tools.knowledge.markdown import own_fields
from ragweave.tools.knowledge.markup import Loaded

_OF_A_RUN = frozenset(("rank", "score", "query", "position", MERGED_RANK, OF_RUN))
_MADE_ANEW = _OF_A_RUN | {"start", "end"}
"""Metadata that cutting or finding a passage sets, whatever stood there."""


def take_documents(
    draft: Draft,
    documents: Iterable[Document],
    source: str | None,
    settings: Settings,
    tokens: Tokens,
) -> list[str]:
    """Add documents and return the ids of their passages, in order.

    A document with the id of one in the same source replaces it, and changes nothing where the two
    are the same; one without an id changes nothing where the source already has its content.

    Raises:
        UsageError: A document has no text.
    """
    ids: list[str] = []
    cutter = Cutter(settings, tokens)
    known = set(draft.sources("added"))
    for doc in map(as_document, documents):
        if not doc.page_content.strip():
            raise UsageError(f"document {doc.id or len(ids)} has no text")
        name = whole(str(doc.metadata.get("source") or "added") if source is None else source)
        key = f"added:{name}"
        if key not in known:
            known.add(key)
            draft.add_source(Source(key, name, "added"))
        loaded = Loaded(
            doc.page_content,
            whole(str(doc.metadata.get("title") or "")),
            doc.id,
            _kept(doc),
        )
        passages = list(cut(loaded, name, draft.next_place(key), cutter))
        held = _held(draft, key, doc.id, passages)
        if held is not None:
            ids.extend(held)
            continue
        if doc.id:
            draft.remove_documents([doc.id], key)
        ids.extend(draft.add_passages(key, passages))
    return ids


def _kept(doc: Document) -> dict[str, Any]:
    """Return what a document's passages keep of its metadata.

    What ragweave itself has set is made anew; what stands under such names otherwise is the
    document's own, and kept beside it.
    """
    if _cut_here(doc):
        return {key: value for key, value in doc.metadata.items() if key not in _OF_A_RUN}
    return own_fields(doc.metadata, _MADE_ANEW)


def _cut_here(doc: Document) -> bool:
    """Say whether a document is a passage that a knowledge base cut."""
    start, end = doc.metadata.get("start"), doc.metadata.get("end")
    return type(start) is type(end) is int and end - start == len(doc.page_content)


def _held(
    draft: Draft, key: str, document: str | None, passages: Sequence[Passage]
) -> list[str] | None:
    """Return the ids of a document's passages, if a source already holds it as it is."""
    if document:
        return draft.same_document(key, document, passages)
    held = [found for one in passages if (found := draft.held(key, one))]
    return held if len(held) == len(passages) else None
