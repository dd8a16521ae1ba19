"""Citations for readers: numbered footnotes, a message's annotations, and an answer as a document of its own.

A document is Markdown or HTML: each sentence has its quotes, or is marked as unsupported. A page of HTML has no script
and loads nothing; every text is untrusted and escaped.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import PurePath, PureWindowsPath
from typing import Any, Literal, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.messages.content import Annotation, TextContentBlock
from langchain_core.messages.content import Citation as Annotated

from ragweave.state import Citation, Quote
from ragweave.state.passages import heading_of, place_at

MEANING = "The quotes hold the answer's words; whether they answer the question is yours to judge."
"""What a citation means, for readers of quotes."""
UNSUPPORTED = "unsupported"
"""`value["kind"]` of the annotation of a part that no passage supports."""


class Footnote(NamedTuple):
    """A quote with its number."""

    number: int
    """From 1, in the order of the answer."""
    quote: Quote
    passage: Document
    """The passage that is quoted, with page and heading of the quote in its metadata; without text if it is not known."""

    @property
    def label(self) -> str:
        """Where the quote stands, as `label_of` has it."""
        return label_of(self.passage)


def file_of(source: str) -> str:
    """Return a path's last name, also of a Windows path; an address as it is."""
    return source if source.startswith(("https://", "http://")) else PureWindowsPath(PurePath(source).name).name


def described(document: Document, file: Callable[[str], str] = file_of) -> str:
    """Return where a passage stands, on one line: `Refunds — handbook.pdf, page 3`; empty if nothing is known.

    Args:
        document: The passage.
        file: From its source, which may be empty, to what is shown of it.
    """
    meta = document.metadata
    heading, shown = heading_of(meta), file(str(meta.get("source") or ""))
    places = (f"{name} {meta[name]}" for name in ("page", "line") if meta.get(name))
    where = ", ".join(filter(None, [shown, *places]))
    return " — ".join(filter(None, ["" if heading == shown else heading, where]))


def label_of(document: Document) -> str:
    """Return a passage's heading, file, page and line on one line; its id if it has none of them."""
    return described(document) or str(document.id)


def address_of(source: object, passage: object) -> str:
    """Return the address of a passage: its source's, if that is a web page, or `urn:ragweave:passage:ID`."""
    address = str(source)
    return address if address.startswith(("https://", "http://")) else f"urn:ragweave:passage:{passage}"


def path_of(document: Document) -> str:
    """Return how graph retrieval reached a passage, "Get Low → Aaron Schneider"; empty if not by a name."""
    via = document.metadata.get("via") or {}
    return f"{via['heading'] or via['passage']} → {via['name']}" if "passage" in via else ""


def footnotes(citations: Iterable[Citation], passages: Iterable[Document]) -> list[Footnote]:
    """Return each quoted sentence once, numbered."""
    known = {doc.id or "": doc for doc in passages}
    quotes = {key_of(quote): quote for citation in citations for quote in citation["quotes"]}
    return [Footnote(number, quote, _quoted(quote, known)) for number, quote in enumerate(quotes.values(), start=1)]


def _quoted(quote: Quote, known: Mapping[str, Document]) -> Document:
    """Return a quote's passage with the place of the quote, which may be on a later page than the passage's start."""
    passage = known.get(quote["passage"], Document("", id=quote["passage"]))
    own = {"page": None, "heading_path": None, **place_at(passage, quote["start"])}
    return passage.model_copy(update={"metadata": {**passage.metadata, **own}})


def annotated(
    answer: str,
    citations: Iterable[Citation],
    notes: Iterable[Footnote],
    show: Callable[[str, list[Footnote]], str],
    between: Callable[[str], str] = str,
) -> str:
    """Return an answer in which `show` writes each cited part from its text and footnotes, and `between` the rest."""
    by_quote = {key_of(note.quote): note for note in notes}
    pieces: list[str] = []
    done = 0
    for citation in citations:
        start, end = citation["start"], citation["end"]
        part = show(answer[start:end], [by_quote[key_of(quote)] for quote in citation["quotes"]])
        pieces += [between(answer[done:start]), part]
        done = end
    return "".join([*pieces, between(answer[done:])])


def with_marks(answer: str, citations: Sequence[Citation], unsupported: str = "[?]") -> str:
    """Return an answer with [1] after each supported part and `unsupported` after the others."""

    def show(text: str, notes: list[Footnote]) -> str:
        marks = "".join(f"[{note.number}]" for note in notes) or unsupported
        return f"{text} {marks}" if marks else text

    return annotated(answer, citations, footnotes(citations, ()), show)


def with_quotes(answer: str, citations: Sequence[Citation], passages: Iterable[Document], unsupported: str) -> str:
    """Return an answer with its quotes on lines of their own under each part, and `unsupported` after the others.

    The last line says what a quote means.
    """

    def show(text: str, notes: list[Footnote]) -> str:
        lines = "".join(f"\n> “{' '.join(note.quote['text'].split())}” ({note.label})" for note in notes)
        return f"{text}{lines}\n\n" if lines else f"{text} {unsupported}"

    notes = footnotes(citations, passages)
    text = annotated(answer, citations, notes, show).rstrip()
    return f"{text}\n\n{MEANING}" if notes else text


def cited_message(answer: str, passages: Sequence[Document], citations: Sequence[Citation], **more: Any) -> AIMessage:
    """Return an answer as a message of standard content, its citations as annotations.

    The annotations are LangChain's, one for each quote of a part of the answer: `cited_text` is the quote, `start_index`
    and `end_index` say which part it supports, `extras` its place (passage, offsets, file, page) and what a quote means.
    A part without quotes has an annotation of the kind `UNSUPPORTED`. `more` are fields of the message.
    """
    by_quote = {key_of(note.quote): note for note in footnotes(citations, passages)}
    annotations: list[Annotation] = []
    for citation in citations:
        span = {"start_index": citation["start"], "end_index": citation["end"]}
        annotations += [_annotation(by_quote[key_of(quote)], span) for quote in citation["quotes"]]
        if not citation["quotes"]:
            annotations.append({"type": "non_standard_annotation", "value": {"kind": UNSUPPORTED, **span}})
    block: TextContentBlock = {"type": "text", "text": answer}
    if annotations:
        block["annotations"] = annotations
    return AIMessage(content_blocks=[block], response_metadata={"output_version": "v1"}, **more)


def _annotation(note: Footnote, span: Mapping[str, int]) -> Annotated:
    where = {name: note.quote[name] for name in ("passage", "start", "end", "score", "heading")}
    meta = note.passage.metadata
    source = str(meta.get("source") or "")
    annotation: Annotated = {
        "type": "citation",
        "id": f"lc_{uuid.uuid5(uuid.NAMESPACE_OID, f'{key_of(note.quote)} {span}')}",
        "title": note.label,
        "start_index": span["start_index"],
        "end_index": span["end_index"],
        "cited_text": note.quote["text"],
        "extras": {"number": note.number, **where, "file": file_of(source), "page": meta["page"], "meaning": MEANING},
    }
    if path := path_of(note.passage):
        annotation["extras"]["path"] = path
    if source.startswith(("https://", "http://")):
        annotation["url"] = source
    return annotation


def cited_content(output: Mapping[str, Any], form: Literal["openai", "anthropic"]) -> list[dict[str, Any]]:
    """Return a method's output as content blocks in a provider's form, with its citations.

    `openai`: one `output_text` of the Responses API. Its annotations, a `url_citation` for each quote, are those of chat
    completions too; a passage that is not a web page has the address `urn:ragweave:passage:ID`. `unsupported` has the
    spans that no passage supports.

    `anthropic`: text blocks, the cited ones with their quotes. A document is a passage of the output, from 0. A quote of
    a page is a `page_location`, with pages from 1 and an exclusive end; any other is a `char_location` in its passage.
    """
    return _openai_content(output) if form == "openai" else _anthropic_content(output)


def _openai_content(output: Mapping[str, Any]) -> list[dict[str, Any]]:
    block: Any = cited_message(output["answer"], output["passages"], output["citations"]).content_blocks[0]
    notes = block.get("annotations", [])
    spans = [note["value"] for note in notes if note["type"] == "non_standard_annotation"]
    return [
        {
            "type": "output_text",
            "text": output["answer"],
            "annotations": [_url_citation(note) for note in notes if note["type"] == "citation"],
            UNSUPPORTED: [{name: span[name] for name in ("start_index", "end_index")} for span in spans],
        }
    ]


def _url_citation(note: Mapping[str, Any]) -> dict[str, Any]:
    extras = note["extras"]
    return {
        "type": "url_citation",
        "url": address_of(note.get("url"), extras["passage"]),
        **{name: note[name] for name in ("title", "start_index", "end_index", "cited_text")},
        **{name: extras[name] for name in ("passage", "file", "page", "meaning")},
    }


def _anthropic_content(output: Mapping[str, Any]) -> list[dict[str, Any]]:
    order = {doc.id: (number, doc) for number, doc in enumerate(output["passages"])}
    blocks: list[dict[str, Any]] = []
    done = 0
    for citation in output["citations"]:
        start, end = citation["start"], citation["end"]
        locations = [_location(quote, *order[quote["passage"]]) for quote in citation["quotes"]]
        cited = {"type": "text", "text": output["answer"][start:end], "citations": locations or None}
        blocks += [{"type": "text", "text": output["answer"][done:start]}, cited]
        done = end
    blocks.append({"type": "text", "text": output["answer"][done:]})
    return [block for block in blocks if block["text"]]


def _location(quote: Quote, number: int, passage: Document) -> dict[str, Any]:
    common = {"cited_text": quote["text"], "document_index": number, "document_title": label_of(passage)}
    if first := quote["page"]:
        last = place_at(passage, quote["end"] - 1)["page"]
        return {"type": "page_location", **common, "start_page_number": first, "end_page_number": last + 1}
    return {"type": "char_location", **common, "start_char_index": quote["start"], "end_char_index": quote["end"]}


def key_of(quote: Quote) -> tuple[str, int, int]:
    """Return the key that identifies a quoted sentence."""
    return quote["passage"], quote["start"], quote["end"]


# ---- documents

_MARK = "[unsupported]"
_ACTIVE = re.compile(r"[\\\[\]<>&]|(?i:(?<=javascript):)")
"""What Markdown reads as a link, a picture or HTML."""
_FORMATTING = re.compile(rf"{_ACTIVE.pattern}|[`*_~|]")
"""The same and all formatting within a line."""
_BLOCK = re.compile(r"^(?P<level>#{1,3}) (?P<heading>[^\n]+)$|(?P<text>(?:^(?!#{1,3} )[^\n]*\S[^\n]*(?:\n|\Z))+)", re.M)
_BASE = """\
:root{color-scheme:light dark;--ink:light-dark(#1d2433,#dde3f0);--dim:light-dark(#5f6880,#97a1b8);
--paper:light-dark(#fff,#13161d);--panel:light-dark(#f5f6fa,#1b202b);--rule:light-dark(#d7dce7,#333b4c);
--link:light-dark(#2c53c0,#92b2ff);--warm:light-dark(#fff5e6,#2c2417);--warm-line:light-dark(#b86a00,#e0a04a);
--bad-line:light-dark(#b04141,#e07a7a)}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;max-width:74rem;
padding:24px;overflow-wrap:anywhere}
h1{font-size:22px;line-height:1.3}h2{font-size:17px;margin:26px 0 8px}a{color:var(--link)}
.dim{color:var(--dim);font-size:13px}summary{cursor:pointer;padding:7px 0}
sup{line-height:0}sup a{text-decoration:none;padding:0 1px}.unsupported{border-bottom:2px dotted var(--bad-line)}
"""
_STYLE = """\
body{max-width:44em}p{white-space:pre-wrap}
ol{border-top:1px solid var(--rule);padding-top:16px;font-size:15px}li{margin:8px 0}li:target{outline:2px solid}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def markdown_report(output: Mapping[str, Any]) -> str:
    """Return a method's output, with citations, as Markdown: the answer with numbers, then the quotes with their places.

    Links, pictures and HTML are shown as text. The answer may have headings, lists and emphasis; quotes are verbatim.
    """
    cited: Sequence[Citation] = output["citations"]
    notes = footnotes(cited, output["passages"])

    def show(text: str, notes: list[Footnote]) -> str:
        return f"{_escaped(_ACTIVE, text)} {''.join(f'[{note.number}]' for note in notes) or _MARK}"

    def verbatim(text: str) -> str:
        return _escaped(_FORMATTING, " ".join(text.split()))

    quotes = "\n".join(f"{note.number}. “{verbatim(note.quote['text'])}” — {verbatim(note.label)}" for note in notes)
    text = annotated(output["answer"], cited, notes, show, partial(_escaped, _ACTIVE))
    return f"{text}\n\n## Quotes\n\n{MEANING}\n\n{quotes}\n" if quotes else f"{text}\n"


def _escaped(marks: re.Pattern[str], text: str) -> str:
    return marks.sub(r"\\\g<0>", text)


def page_html(quote: Quote, evidence: Callable[[Quote], Any] | None) -> str:
    """Return a quote's page as HTML, folded away, by a retriever's or knowledge base's `evidence`."""
    shown = evidence(quote).html() if evidence else ""
    folded = "<img" in shown or "<table" in shown
    return f'<details><summary class="dim">where it stands</summary>{shown}</details>' if folded else shown


def html_report(output: Mapping[str, Any], evidence: Callable[[Quote], Any] | None = None) -> str:
    """Return a method's output, with citations, as a page of HTML that needs no other file.

    By `evidence`, a knowledge base's or a retriever's, each quote has the picture of its page.
    """
    cited: Sequence[Citation] = output["citations"]
    notes = footnotes(cited, output["passages"])
    quoted = sum(bool(citation["quotes"]) for citation in cited)
    counts = (
        f"{quoted} of {len(cited)} sentences are quoted. {MEANING} Underlined ones are supported by no passage."
        if cited
        else ""
    )
    body = "\n".join(_blocks(output["answer"], cited, notes))
    quotes = "\n".join(
        f'<li id="quote-{note.number}">“{escape(note.quote["text"])}” <span class="dim">{escape(note.label)}</span>'
        f"{page_html(note.quote, evidence)}</li>"
        for note in notes
    )
    return html_page(output["question"], _STYLE, f'{body}\n<p class="dim">{counts}</p>\n<ol>\n{quotes}\n</ol>')


def html_page(title: str, style: str, body: str) -> str:
    """Return a page of HTML that runs no script and loads nothing."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_BASE}{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def cited_html(answer: str, citations: Iterable[Citation], notes: Iterable[Footnote]) -> str:
    """Return an answer as HTML, its quotes linked (`#quote-1`) and its unsupported parts marked."""

    def show(text: str, notes: list[Footnote]) -> str:
        if not notes:
            return f'<span class="unsupported" title="no passage supports this">{escape(text)}</span>'
        return escape(text) + "".join(
            f'<sup><a href="#quote-{note.number}" title="{escape(note.quote["text"])}">[{note.number}]</a></sup>'
            for note in notes
        )

    return annotated(answer, citations, notes, show, escape)


def _blocks(answer: str, citations: Sequence[Citation], notes: Sequence[Footnote]) -> Iterator[str]:
    """Yield the headings and paragraphs of a report."""
    for block in _BLOCK.finditer(answer):
        if heading := block["heading"]:
            level = len(block["level"])
            yield f"<h{level}>{escape(heading)}</h{level}>"
        else:
            start, end = block.span()
            cited: list[Citation] = [
                {**citation, "start": citation["start"] - start, "end": citation["end"] - start}
                for citation in citations
                if start <= citation["start"] < end
            ]
            yield f"<p>{cited_html(block[0], cited, notes).rstrip()}</p>"
