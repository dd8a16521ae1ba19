"""Citations as readers meet them: numbered footnotes, and a message's annotations."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath, PureWindowsPath
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.messages.content import Annotation, TextContentBlock
from langchain_core.messages.content import Citation as Annotated

from ragweave.state import Citation, Quote
from ragweave.state.passages import heading_of

UNSUPPORTED = "unsupported"
"""What the annotation of a part without a quote says of it (`value["kind"]`)."""


class Footnote(NamedTuple):
    """A quote with its number."""

    number: int
    """From 1, in the order in which the answer rests on them."""
    quote: Quote
    title: str
    """The passage's title and the headings above it; empty: it has none."""
    source: str
    """Where the passage comes from, such as a path or an address; empty: unknown."""


def footnotes(citations: Iterable[Citation], passages: Iterable[Document]) -> list[Footnote]:
    """Return each quoted sentence once, numbered."""
    known = {doc.id or "": doc.metadata for doc in passages}
    quotes = {key_of(quote): quote for one in citations for quote in one["quotes"]}
    made = []
    for number, quote in enumerate(quotes.values(), start=1):
        metadata = known.get(quote["passage"], {})
        source = str(metadata.get("source") or "")
        made.append(Footnote(number, quote, heading_of(metadata), source))
    return made


def with_marks(answer: str, citations: Sequence[Citation], unsupported: str = "[?]") -> str:
    """Return an answer with [1] behind each supported part and `unsupported` behind the others."""
    numbers = {key_of(one.quote): one.number for one in footnotes(citations, ())}
    pieces: list[str] = []
    done = 0
    for one in citations:
        marks = "".join(f"[{numbers[key_of(quote)]}]" for quote in one["quotes"]) or unsupported
        pieces += [answer[done : one["end"]], f" {marks}" if marks else ""]
        done = one["end"]
    return "".join([*pieces, answer[done:]])


def cited_message(
    answer: str, passages: Sequence[Document], citations: Sequence[Citation], **more: Any
) -> AIMessage:
    """Return an answer as a message of standard content, its citations as annotations.

    The annotations are LangChain's: `cited_text` is the quote, `start_index` and `end_index` say
    which part of the answer it supports, `extras` where it stands in which passage.

    Args:
        answer: The answer.
        passages: The passages that the citations quote.
        citations: The citations of the answer.
        **more: More fields of the message, such as `usage_metadata`.
    """
    notes = list(annotations_of(citations, passages))
    block: TextContentBlock = {"type": "text", "text": answer}
    if notes:
        block["annotations"] = notes
    return AIMessage(content_blocks=[block], response_metadata={"output_version": "v1"}, **more)


def annotations_of(
    citations: Sequence[Citation], passages: Sequence[Document]
) -> Iterator[Annotation]:
    """Yield LangChain's annotation for each quote of each part, and for each part without any."""
    noted = {key_of(one.quote): one for one in footnotes(citations, passages)}
    for one in citations:
        span = {"start_index": one["start"], "end_index": one["end"]}
        for quote in one["quotes"]:
            yield _annotation(noted[key_of(quote)], span)
        if not one["quotes"]:
            value = {"kind": UNSUPPORTED, **span}
            yield {"type": "non_standard_annotation", "value": value}


def label(note: Footnote) -> str:
    """Return what a source is called: its title, else its file's name, else the passage's id."""
    name = PureWindowsPath(PurePath(note.source).name).name  # it may have been indexed on Windows
    return note.title or name or note.quote["passage"]


def _annotation(note: Footnote, span: Mapping[str, int]) -> Annotated:
    made: Annotated = {
        "type": "citation",
        "id": f"lc_{uuid.uuid5(uuid.NAMESPACE_OID, f'{key_of(note.quote)} {span}')}",
        "title": label(note),
        "start_index": span["start_index"],
        "end_index": span["end_index"],
        "cited_text": note.quote["text"],
        "extras": {
            "number": note.number,
            **{name: note.quote[name] for name in ("passage", "start", "end", "score")},
        },
    }
    if note.source.startswith(("https://", "http://")):
        made["url"] = note.source
    return made


def key_of(quote: Quote) -> tuple[str, int, int]:
    """Return what tells one quoted sentence from another."""
    return quote["passage"], quote["start"], quote["end"]
