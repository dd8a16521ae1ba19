"""Passages: LangChain documents with a stable id and with rank, score and query in `metadata`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from ragweave.errors import UsageError

GIVEN = "given"
"""`metadata["query"]` of passages that the caller has just handed in."""

INPUT = "input"
"""`metadata["query"]` of the same passages once a run has taken them up."""

OF_RUN = "of_run"
"""`metadata["of_run"]`: the query mark that a run had set on a passage that is now handed in."""

MERGED_RANK = "merged_rank"
"""`metadata["merged_rank"]`: where a passage stood among all, best first, before it was moved."""


def content_id(text: str, title: str = "") -> str:
    """Return the id of a passage that has none: 16 hex digits of its title and text."""
    return hashlib.sha256(f"{title}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]


def heading_of(metadata: Mapping[str, Any]) -> str:
    """Return a passage's title and heading path in one line: `Handbook › Refunds › Deadlines`."""
    path = metadata.get("heading_path") or ()
    parts = [metadata.get("title"), *([path] if isinstance(path, str) else path)]
    return " › ".join(str(part) for part in parts if part)


def with_id(document: Document) -> Document:
    """Return `document`, or a copy with a content id where it has no id."""
    if document.id:
        return document
    title = str(document.metadata.get("title") or "")
    return document.model_copy(update={"id": content_id(document.page_content, title)})


class _Names:
    """The ids of passages met so far, so that different texts of one id are told apart.

    Ids of pages or of parent documents stand with several passages. The first keeps the id; one
    whose text is not in it gets a hash of its text behind the id, the same wherever it is met.
    """

    def __init__(self) -> None:
        self._held: dict[str, Document] = {}

    def named(self, document: Document) -> Document:
        """Return `document`, under an id of its own where another passage has its id."""
        first = self._held.setdefault(str(document.id), document)
        if first.page_content == document.page_content or _folded(document) in _folded(first):
            return document
        own = document.model_copy(
            update={"id": f"{document.id}~{content_id(_folded(document))[:8]}"}
        )
        return self.named(own)


_OWN_NAME = re.compile(r"~[0-9a-f]{8}\Z")


def source_id(name: str) -> str:
    """Return the id that a passage had before it was told apart from others of the same id."""
    return _OWN_NAME.sub("", name)


def _folded(document: Document) -> str:
    return " ".join(document.page_content.casefold().split())


def told_apart(sets: Mapping[str, Sequence[Document]]) -> dict[str, list[Document]]:
    """Return the queries' passages, those of one id and different texts under ids of their own.

    Queries are gone through by name (`round_2` before `round_10`), so that a later round's passages
    never change an earlier one's ids, nor does it matter which search came back first.
    """
    names, found = _Names(), {key: list[Document]() for key in sets}
    for key in sorted(sets, key=_natural):
        found[key] = [names.named(with_id(doc)) for doc in sets[key]]
    return found


def _natural(name: str) -> list[tuple[bool, int, str]]:
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(one.isdecimal(), int(one) if one.isdecimal() else 0, one) for one in parts]


def ranked(documents: Iterable[Document], query_key: str) -> list[Document]:
    """Return copies with ids, `metadata["rank"]` from 0 and `metadata["query"]` = `query_key`.

    Different texts of one id get ids of their own: `w1`, then `w1~` and a hash of the text.
    """
    names = _Names()
    return [
        (named := names.named(with_id(doc))).model_copy(
            update={"metadata": {**named.metadata, "rank": rank, "query": query_key}}
        )
        for rank, doc in enumerate(documents)
    ]


def given_passages(documents: Iterable[Document]) -> list[Document]:
    """Return passages that a caller hands in: ranked, marked `given`, and `of_run` where one was."""
    return ranked(map(_with_origin, documents), GIVEN)


def _with_origin(document: Document) -> Document:
    mark = document.metadata.get("query")
    if not isinstance(mark, str) or mark == GIVEN or type(document.metadata.get("rank")) is not int:
        return document
    return document.model_copy(update={"metadata": {**document.metadata, OF_RUN: mark}})


def with_merged_rank(documents: Iterable[Document]) -> list[Document]:
    """Return copies of passages, best first, that `best_first` tells apart wherever they move."""
    return [
        doc.model_copy(update={"metadata": {**doc.metadata, MERGED_RANK: place}})
        for place, doc in enumerate(documents)
    ]


def as_merged(passages: Sequence[Document]) -> list[Document]:
    """Return passages as they were merged, best first, wherever a prompt's order moved them."""
    places = range(len(passages))
    order = sorted(places, key=lambda at: _whole_number(passages[at], MERGED_RANK, at))
    return [passages[at] for at in order]


def best_first(passages: Sequence[Document]) -> list[int]:
    """Return the indices of passages, best first: by rank, and of one rank as they were merged."""

    def worth(index: int) -> tuple[int, int, int]:
        place = _whole_number(passages[index], MERGED_RANK, index)
        return _whole_number(passages[index], "rank", place), place, index

    return sorted(range(len(passages)), key=worth)


def _whole_number(document: Document, name: str, otherwise: int) -> int:
    value = document.metadata.get(name)
    return value if type(value) is int else otherwise


def whole(text: str) -> str:
    """Return `text` with `?` for each lone surrogate, which no encoding can write."""
    return text.encode("utf-8", "replace").decode()


def as_document(value: object) -> Document:
    """Take a document, its JSON form (`page_content`, `metadata`, `id`) or a bare text.

    The JSON form may say `text` for `page_content`, as `ragweave ask --json` prints it.

    Lone surrogates in text, metadata and id are replaced by `?`.

    Raises:
        UsageError: `value` is none of these.
    """
    if isinstance(value, Document):
        return _whole_document(value)
    if isinstance(value, str):
        return Document(page_content=whole(value))
    fields = value.get("kwargs", value) if isinstance(value, Mapping) else {}
    if "page_content" not in fields and "text" in fields:
        fields = {**fields, "page_content": fields["text"]}
    if "page_content" not in fields:
        raise UsageError(
            "a passage must be a LangChain Document, a mapping with page_content, or a string, "
            f"not {type(value).__name__}"
            + (f" with {', '.join(map(str, fields))}" if fields else "")
        )
    metadata = fields.get("metadata") or {}
    _check_field("page_content", fields["page_content"], str, "a string")
    _check_field("metadata", metadata, Mapping, "a mapping")
    _check_field("id", fields.get("id"), str | int | None, "a string")
    return _whole_document(
        Document(
            page_content=fields["page_content"],
            metadata={str(name): value for name, value in metadata.items()},
            id=fields.get("id"),
        )
    )


def _check_field(name: str, value: object, kind: Any, wanted: str) -> None:
    if not isinstance(value, kind):
        raise UsageError(f"the {name} of a passage must be {wanted}, not {type(value).__name__}")


def _whole_document(document: Document) -> Document:
    """Return `document` itself where it holds no lone surrogate."""
    fields = {
        "page_content": document.page_content,
        "metadata": document.metadata,
        "id": document.id,
    }
    mended = {name: _whole_value(value) for name, value in fields.items()}
    return document if mended == fields else document.model_copy(update=mended)


def _whole_value(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {_whole_value(key): _whole_value(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_whole_value(one) for one in value]
    return value


def unique(documents: Iterable[Document]) -> list[Document]:
    """Drop documents whose text (case and white space folded) an earlier kept one has.

    Of one id those are dropped whose text the first one holds; others get an id of their own, as in
    `ranked`.
    """
    names, ids, texts = _Names(), set[str](), set[str]()
    kept: list[Document] = []
    for doc in map(with_id, documents):
        text = _folded(doc)
        if text in texts:
            continue
        named = names.named(doc)
        if str(named.id) not in ids:
            kept.append(named)
            ids.add(str(named.id))
            texts.add(text)
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
    """Return passages as a run takes them up and gives them back.

    The query mark of copies says `input` where it said `given`; which run they came from, and where
    a prompt's order moved them, is of no account any more.
    """
    return [_taken_up(doc) for doc in documents]


def _taken_up(document: Document) -> Document:
    marks = dict(document.metadata)
    marks.pop(MERGED_RANK, None)
    marks.pop(OF_RUN, None)
    if marks.get("query") == GIVEN:
        marks["query"] = INPUT
    return (
        document if marks == document.metadata else document.model_copy(update={"metadata": marks})
    )
