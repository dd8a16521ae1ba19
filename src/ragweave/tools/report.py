"""An answer as a document of its own, Markdown or HTML: each sentence has its quotes, or is marked as unsupported.

The page has no script and loads nothing. Every text is untrusted and escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ragweave.state import Citation
from ragweave.tools.footnotes import Footnote, footnotes, key_of, with_marks

MARK = "[unsupported]"

_BLOCK = re.compile(r"^(?P<level>#{1,3}) (?P<heading>[^\n]+)$|(?P<text>(?:^(?!#{1,3} )[^\n]*\S[^\n]*(?:\n|\Z))+)", re.M)
_STYLE = """\
:root{color-scheme:light dark;--line:light-dark(#d7dce7,#333b4c);--bad:light-dark(#b04141,#e07a7a)}
body{font:17px/1.6 system-ui,sans-serif;margin:0 auto;max-width:44em;padding:24px;overflow-wrap:anywhere}
h1{font-size:26px;line-height:1.3}h2{font-size:20px;margin-top:1.6em}p{white-space:pre-wrap}
.dim{opacity:.7;font-size:14px}sup{line-height:0}sup a{text-decoration:none;padding:0 1px}
.unsupported{border-bottom:2px dotted var(--bad)}
ol{border-top:1px solid var(--line);padding-top:16px;font-size:15px}li{margin:8px 0}li:target{outline:2px solid}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def markdown_report(output: Mapping[str, Any]) -> str:
    """Return a method's output as Markdown: the answer with numbers, and the quotes, with file and page, behind it.

    Args:
        output: A graph's output, with citations.
    """
    cited: Sequence[Citation] = output["citations"]
    notes = footnotes(cited, output["passages"])
    quotes = "\n".join(f"{one.number}. “{' '.join(one.quote['text'].split())}” — {one.label}" for one in notes)
    text = with_marks(output["answer"], cited, MARK)
    return f"{text}\n\n## Quotes\n\n{quotes}\n" if quotes else f"{text}\n"


def html_report(output: Mapping[str, Any]) -> str:
    """Return a method's output as one page of HTML, which needs no other file.

    Args:
        output: A graph's output, with citations.
    """
    cited: Sequence[Citation] = output["citations"]
    notes = footnotes(cited, output["passages"])
    quoted = sum(bool(one["quotes"]) for one in cited)
    counts = (
        f"{quoted} of {len(cited)} sentences are quoted. Underlined ones are supported by no passage." if cited else ""
    )
    body = "\n".join(_blocks(output["answer"], cited, {key_of(one.quote): one for one in notes}))
    quotes = "\n".join(
        f'<li id="quote-{one.number}">“{escape(one.quote["text"])}” <span class="dim">{escape(one.label)}</span></li>'
        for one in notes
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(output['question'])}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f'{body}\n<p class="dim">{counts}</p>\n<ol>\n{quotes}\n</ol>\n</body>\n</html>\n'
    )


def _blocks(answer: str, citations: Sequence[Citation], notes: Mapping[Any, Footnote]) -> list[str]:
    """Return the headings and paragraphs of a report."""
    blocks = []
    for block in _BLOCK.finditer(answer):
        if heading := block["heading"]:
            level = len(block["level"])
            blocks.append(f"<h{level}>{escape(heading)}</h{level}>")
        else:
            blocks.append(f"<p>{_marked(answer, block.start(), block.end(), citations, notes).rstrip()}</p>")
    return blocks


def _marked(answer: str, start: int, end: int, citations: Sequence[Citation], notes: Mapping[Any, Footnote]) -> str:
    """Return `answer[start:end]` with links behind the sentences that have quotes, and the others marked."""
    pieces, done = list[str](), start
    for one in citations:
        if not start <= one["start"] < end:
            continue
        said = escape(one["text"])
        if not one["quotes"]:
            said = f'<span class="unsupported" title="no passage supports this">{said}</span>'
        links = "".join(_link(notes[key_of(quote)]) for quote in one["quotes"])
        pieces += [escape(answer[done : one["start"]]), said, links]
        done = one["end"]
    return "".join([*pieces, escape(answer[done:end])])


def _link(note: Footnote) -> str:
    title = f"{note.quote['text']} ({note.label})"
    return f'<sup><a href="#quote-{note.number}" title="{escape(title)}">{note.number}</a></sup>'
