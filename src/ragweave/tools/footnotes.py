"""Citations for readers: numbered footnotes, and a message's annotations."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath, PureWindowsPath
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.messages.content import Annotation, TextContentBlock
from langchain_core.messages.content import Citation as Annotated

from ragweave.state import Citation, Quote
from ragweave.state.passages import heading_of, place_at

UNSUPPORTED = "unsupported"
"""`value["kind"]` of the annotation of a part that no passage supports."""


class Footnote(NamedTuple):
    """A quote with its number, and where it stands."""

    number: int
    """From 1, in the order of the answer."""
    quote: Quote
    heading: str
    """Title and headings above the quote; empty if it has none."""
    source: str
    """Path or address of the file; empty if unknown."""
    page: int | None
    """Page of the quote, from 1."""
    line: int | None = None
    """Line of the quote's row in a table, from 1."""
    path: str = ""
    """How graph retrieval reached the passage (see `path_of`)."""

    @property
    def file(self) -> str:
        """The file's name without its folders, or the address."""
        return file_of(self.source)

    @property
    def label(self) -> str:
        """Heading, file, page and line; the passage's id if it has none of them."""
        return described(self.heading, self.file, self.page, self.line) or self.quote["passage"]


def described(heading: str, file: str, page: int | None, line: int | None = None) -> str:
    """Return a place on one line: `Refunds — handbook.pdf, page 3`."""
    where = ", ".join(filter(None, [file, f"page {page}" if page else "", f"line {line}" if line else ""]))
    return " — ".join(filter(None, ["" if heading == file else heading, where]))


def file_of(source: str) -> str:
    """Return a path's last name, also of a Windows path; an address as it is."""
    return source if source.startswith(("https://", "http://")) else PureWindowsPath(PurePath(source).name).name


def label_of(document: Document) -> str:
    """Return a passage's heading, file, page and line on one line; its id if it has none of them."""
    meta = document.metadata
    file = file_of(str(meta.get("source") or ""))
    return described(heading_of(meta), file, meta.get("page"), meta.get("line")) or str(document.id)


def path_of(document: Document) -> str:
    """Return how graph retrieval reached a passage, "Get Low → Aaron Schneider"; empty if not by a name."""
    via = document.metadata.get("via") or {}
    return f"{via['heading'] or via['passage']} → {via['name']}" if "passage" in via else ""


def footnotes(citations: Iterable[Citation], passages: Iterable[Document]) -> list[Footnote]:
    """Return each quoted sentence once, numbered."""
    known = {doc.id or "": doc for doc in passages}
    quotes = {key_of(quote): quote for one in citations for quote in one["quotes"]}
    return [_footnote(number, quote, known) for number, quote in enumerate(quotes.values(), start=1)]


def _footnote(number: int, quote: Quote, known: Mapping[str, Document]) -> Footnote:
    document = known.get(quote["passage"], Document(""))
    place, meta = place_at(document, quote["start"]), document.metadata
    heading = heading_of({"title": meta.get("title"), "heading_path": place.get("heading_path")})
    source = str(meta.get("source") or "")
    return Footnote(number, quote, heading, source, place.get("page"), meta.get("line"), path_of(document))


def annotated(
    answer: str,
    citations: Iterable[Citation],
    notes: Iterable[Footnote],
    show: Callable[[str, list[Footnote]], str],
    between: Callable[[str], str] = str,
) -> str:
    """Return an answer in which `show` writes each cited part from its text and footnotes, and `between` the rest."""
    known = {key_of(one.quote): one for one in notes}
    pieces: list[str] = []
    done = 0
    for one in citations:
        part = show(answer[one["start"] : one["end"]], [known[key_of(quote)] for quote in one["quotes"]])
        pieces += [between(answer[done : one["start"]]), part]
        done = one["end"]
    return "".join([*pieces, between(answer[done:])])


def with_marks(answer: str, citations: Sequence[Citation], unsupported: str = "[?]") -> str:
    """Return an answer with [1] behind each supported part and `unsupported` behind the others."""

    def show(text: str, notes: list[Footnote]) -> str:
        marks = "".join(f"[{one.number}]" for one in notes) or unsupported
        return f"{text} {marks}" if marks else text

    return annotated(answer, citations, footnotes(citations, ()), show)


def with_quotes(answer: str, citations: Sequence[Citation], passages: Iterable[Document], unsupported: str) -> str:
    """Return an answer with its quotes on lines of their own under each part, and `unsupported` behind the others."""

    def show(text: str, notes: list[Footnote]) -> str:
        lines = "".join(f"\n> “{' '.join(one.quote['text'].split())}” ({one.label})" for one in notes)
        return f"{text}{lines}\n\n" if lines else f"{text} {unsupported}"

    return annotated(answer, citations, footnotes(citations, passages), show).rstrip()


def cited_message(answer: str, passages: Sequence[Document], citations: Sequence[Citation], **more: Any) -> AIMessage:
    """Return an answer as a message of standard content, its citations as annotations.

    The annotations are LangChain's: `cited_text` is the quote, `start_index` and `end_index` say which part
    of the answer it supports, `extras` where it stands: passage, offsets, file, page. `more` are fields of the message.
    """
    notes = list(annotations_of(citations, passages))
    block: TextContentBlock = {"type": "text", "text": answer}
    if notes:
        block["annotations"] = notes
    return AIMessage(content_blocks=[block], response_metadata={"output_version": "v1"}, **more)


def annotations_of(citations: Sequence[Citation], passages: Sequence[Document]) -> Iterator[Annotation]:
    """Yield LangChain's annotation for each quote of each part, and for each part without any."""
    noted = {key_of(one.quote): one for one in footnotes(citations, passages)}
    for one in citations:
        span = {"start_index": one["start"], "end_index": one["end"]}
        for quote in one["quotes"]:
            yield _annotation(noted[key_of(quote)], span)
        if not one["quotes"]:
            value = {"kind": UNSUPPORTED, **span}
            yield {"type": "non_standard_annotation", "value": value}


def _annotation(note: Footnote, span: Mapping[str, int]) -> Annotated:
    where = {name: note.quote[name] for name in ("passage", "start", "end", "score")}
    made: Annotated = {
        "type": "citation",
        "id": f"lc_{uuid.uuid5(uuid.NAMESPACE_OID, f'{key_of(note.quote)} {span}')}",
        "title": note.label,
        "start_index": span["start_index"],
        "end_index": span["end_index"],
        "cited_text": note.quote["text"],
        "extras": {"number": note.number, **where, "file": note.file, "page": note.page},
    }
    if note.path:
        made["extras"]["path"] = note.path
    if note.source.startswith(("https://", "http://")):
        made["url"] = note.source
    return made


def key_of(quote: Quote) -> tuple[str, int, int]:
    """Return what tells one quoted sentence from another."""
    return quote["passage"], quote["start"], quote["end"]
