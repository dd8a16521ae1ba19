"""Passages: LangChain documents with a stable id, and rank and query in their metadata."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.errors import UsageError

QUESTION = "asked_question"
"""Metadata key: the question that a method answered from a passage; set on its output. (`question` is a FAQ's own.)"""

BOXES = "word_boxes"
"""Metadata key: where words stand on their page, packed."""
ENRICHED = "enriched"
"""Metadata key: names and facts that a model added to a passage."""
HIDDEN = (BOXES, ENRICHED)
"""Metadata that a knowledge base keeps for itself, and never returns."""


def content_id(text: str, title: str = "") -> str:
    """Return an id for a passage without one: 16 hex digits of a hash of its title and text."""
    return hashlib.sha256(f"{title}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]


def heading_of(metadata: Mapping[str, Any]) -> str:
    """Return a passage's title and heading path on one line: `Handbook › Refunds › Deadlines`."""
    path = metadata.get("heading_path") or ()
    names = [metadata.get("title"), *([path] if isinstance(path, str) else path)]
    return " › ".join(str(name) for name in names if name)


def indexed_text(text: str, metadata: Mapping[str, Any]) -> str:
    """Return what is indexed of a passage: its title and headings, if any, its text, and facts that a model added."""
    return "\n".join(filter(None, [heading_of(metadata), text, *added_by_model(metadata, "facts")]))


def added_by_model(metadata: Mapping[str, Any], kind: Literal["names", "facts"]) -> list[Any]:
    """Return the facts that a model added to a passage, or its names, each as a list of its forms."""
    added = metadata.get(ENRICHED)
    return added[kind] if isinstance(added, dict) and isinstance(added.get(kind), list) else []


def without_hidden(documents: Iterable[Document]) -> list[Document]:
    """Return documents after their hidden metadata are removed."""
    docs = [*documents]
    for doc in docs:
        for name in HIDDEN:
            doc.metadata.pop(name, None)
    return docs


def place_at(document: Document, offset: int) -> dict[str, Any]:
    """Return `page` and `heading_path` of the character at `offset` of a passage.

    Examples:
        >>> doc = Document("a b", metadata={"page": 1, "breaks": [[2, {"page": 2}]]})
        >>> place_at(doc, 0), place_at(doc, 2)
        ({'page': 1}, {'page': 2})
    """
    meta = document.metadata
    place = {name: meta[name] for name in ("page", "heading_path") if name in meta}
    for at, there in meta.get("breaks", ()):
        if at <= offset:
            place = dict(there)
    return place


_BREAKS = re.compile("\u00ad(?!\r?\n)|[\u200b\u2060\ufeff]")
"""Soft hyphens within a line, zero-width spaces and word joiners: they part a word for a search, not for a reader."""


def encodable(text: str) -> str:
    """Return a text without the invisible characters that say where a line may break within a word.

    It has `?` for each lone surrogate, which no encoding can write, and U+FFFD for each NUL.
    """
    if text.isascii():
        return text.replace("\0", "\ufffd")  # PostgreSQL has no NUL
    return _BREAKS.sub("", text.encode("utf-8", "replace").decode().replace("\0", "\ufffd"))


def storable(value: Any) -> Any:
    """Return a JSON value whose texts and names are `encodable`."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(name): storable(inner) for name, inner in value.items()}
    return [*map(storable, value)] if isinstance(value, list) else value


def with_id(document: Document) -> Document:
    """Return a document, or a copy with a content id if it has no id."""
    if document.id:
        return document
    own = content_id(document.page_content, str(document.metadata.get("title") or ""))
    return document.model_copy(update={"id": own})


def as_document(value: object) -> Document:
    """Return the document of a document, its JSON form (`page_content` or `text`, `metadata`, `id`) or a text.

    Soft hyphens and the like are left out, lone surrogates become `?`, and NULs U+FFFD (see `encodable`).

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(value, Document):
        return _encodable(value)
    if isinstance(value, str):
        return Document(encodable(value))
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    text = fields.get("page_content", fields.get("text"))
    if not isinstance(text, str):
        raise UsageError(
            "a passage must be a LangChain Document, a mapping with page_content, or a string, "
            f"not {type(value).__name__}"
        )
    return _encodable(Document(text, metadata=dict(fields.get("metadata") or {}), id=fields.get("id")))


def _encodable(document: Document) -> Document:
    texts = {name: value for name, value in document.metadata.items() if isinstance(value, str)}
    update = {
        "page_content": encodable(document.page_content),
        "id": document.id and encodable(document.id),
        "metadata": {**document.metadata, **{name: encodable(text) for name, text in texts.items()}},
    }
    same = all(getattr(document, name) == value for name, value in update.items())
    return document if same else document.model_copy(update=update)


def ranked(documents: Iterable[Document], query: str) -> list[Document]:
    """Return copies, best first, with an id, `rank` from 0 and the name of the `query`."""
    return with_ranks(_with_ids(documents), query=query)


def with_ranks(documents: Iterable[Document], **metadata: Any) -> list[Document]:
    """Return copies with their place as `rank`, from 0, and more metadata."""
    return [
        doc.model_copy(update={"metadata": {**doc.metadata, "rank": rank, **metadata}})
        for rank, doc in enumerate(documents)
    ]


def interleave(lists: Sequence[Sequence[Document]]) -> list[Document]:
    """Merge ranked lists: all first passages, then all second ones, each text once (SlimPLM)."""
    longest = max(map(len, lists), default=0)
    return unique(docs[rank] for rank in range(longest) for docs in lists if rank < len(docs))


def by_query(lists: Sequence[Sequence[Document]]) -> list[Document]:
    """Join ranked lists one after the other, each text once (BlendFilter, section 3.3)."""
    return unique(doc for docs in lists for doc in docs)


def by_page(documents: Iterable[Document]) -> list[Document]:
    """Order and rank passages: every page's best, then every page's second, … (SlimPLM, released code).

    Passages with the same title are of the same page.
    """
    pages: dict[str, list[Document]] = {}
    for doc in documents:
        pages.setdefault(str(doc.metadata.get("title") or doc.id), []).append(doc)
    return with_ranks(interleave(list(pages.values())))


def unique(documents: Iterable[Document]) -> list[Document]:
    """Drop passages that repeat an earlier one's text, ignoring case and white space."""
    first: dict[str, Document] = {}
    for doc in documents:
        first.setdefault(_folded(doc), doc)
    return _with_ids(first.values())


def lowest_ranked(passages: Sequence[Document]) -> int:
    """Return the index of the lowest-ranked passage; of several, the last."""
    ranks = [doc.metadata.get("rank", place) for place, doc in enumerate(passages)]
    return max(range(len(passages)), key=lambda place: (ranks[place], place))


def _with_ids(documents: Iterable[Document]) -> list[Document]:
    """Give each passage an id of its own.

    Splitters often give every chunk of a page the page's id; the later chunks get another.
    """
    named: dict[str, Document] = {}
    for doc in documents:
        own = content_id(doc.page_content, str(doc.metadata.get("title") or ""))
        name = doc.id or own
        if name in named and _folded(named[name]) != _folded(doc):
            name = f"{name}~{own[:8]}"
        named.setdefault(name, doc.model_copy(update={"id": name}))
    return list(named.values())


def _folded(doc: Document) -> str:
    return " ".join(doc.page_content.casefold().split())
