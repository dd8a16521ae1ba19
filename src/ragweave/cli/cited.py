"""Citations in a trace's page: numbers behind the answer's parts, quotes marked in their passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragweave.state import Citation
    from ragweave.tools.footnotes import Footnote


def answer_html(answer: str, citations: Sequence[Citation]) -> str:
    """Return an answer with links to its quotes; parts that nothing supports are marked."""
    from ragweave.tools.footnotes import footnotes, key_of

    numbers = {key_of(one.quote): one.number for one in footnotes(citations, ())}
    pieces: list[str] = []
    done = 0
    for one in citations:
        said = escape(answer[one["start"] : one["end"]])
        if not one["quotes"]:
            said = f'<mark class="unsupported" title="no passage supports this">{said}</mark>'
        links = "".join(_link(numbers[key_of(quote)]) for quote in one["quotes"])
        pieces += [escape(answer[done : one["start"]]), said, links]
        done = one["end"]
    return "".join([*pieces, escape(answer[done:])])


def quoted_html(citations: Sequence[Citation], passages: Sequence[Mapping[str, Any]]) -> str:
    """Return the cited passages with their quotes marked and numbered; empty without any."""
    from ragweave.tools.footnotes import footnotes

    notes = footnotes(citations, ())
    cited = [
        doc
        for doc in passages
        if any(one.quote["passage"] == (doc.get("id") or "") for one in notes)
    ]
    blocks = "\n".join(_passage(doc, notes) for doc in cited)
    return (
        f"<details open><summary><b>Citations</b></summary>\n{blocks}\n</details>" if cited else ""
    )


def _passage(doc: Mapping[str, Any], notes: Sequence[Footnote]) -> str:
    text, name = str(doc.get("text") or ""), doc.get("id") or ""
    own = sorted((one for one in notes if one.quote["passage"] == name), key=_start)
    pieces: list[str] = []
    done = 0
    for one in own:
        start, end = max(done, one.quote["start"]), one.quote["end"]
        mark = f'<mark id="quote-{one.number}"><b>{one.number}</b> {escape(text[start:end])}</mark>'
        pieces += [escape(text[done:start]), mark]
        done = max(done, end)
    body = "".join([*pieces, escape(text[done:])])
    return f'<div class="role">{place_html(doc)}</div>{passage_html(body)}'


def passage_html(body: str) -> str:
    """Return a passage's text, which is escaped already, as a block."""
    return f'<pre class="passage">{body}</pre>'


def place_html(doc: Mapping[str, Any]) -> str:
    """Return where a passage comes from: its title and file; the whole path shows on hovering."""
    metadata = doc.get("metadata") or {}
    title, source = (str(metadata.get(name) or "") for name in ("title", "source"))
    page = f", page {metadata['page']}" if metadata.get("page") else ""
    named = source if "://" in source else PurePath(source).name
    place = f'<span title="{escape(source)}">{escape(named + page)}</span>' if source else ""
    shown = [f"<b>{escape(title)}</b>" if title else "", place]
    return " · ".join(one for one in shown if one) or escape(str(doc.get("id") or ""))


def _link(number: int) -> str:
    return f'<sup><a href="#quote-{number}">[{number}]</a></sup>'


def _start(note: Footnote) -> int:
    return note.quote["start"]
