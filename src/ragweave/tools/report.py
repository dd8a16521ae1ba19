"""An answer as a document of its own, Markdown or HTML: each sentence has its quotes, or is marked as unsupported.

The page has no script and loads nothing. Every text is untrusted and escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from ragweave.state import Citation
from ragweave.tools.footnotes import Footnote, annotated, footnotes, with_marks

MARK = "[unsupported]"

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
    """Return a method's output, with citations, as Markdown: the answer with numbers, then the quotes with their places."""
    cited: Sequence[Citation] = output["citations"]
    notes = footnotes(cited, output["passages"])
    quotes = "\n".join(f"{one.number}. “{' '.join(one.quote['text'].split())}” — {one.label}" for one in notes)
    text = with_marks(output["answer"], cited, MARK)
    return f"{text}\n\n## Quotes\n\n{quotes}\n" if quotes else f"{text}\n"


def html_report(output: Mapping[str, Any]) -> str:
    """Return a method's output, with citations, as one page of HTML, which needs no other file."""
    cited: Sequence[Citation] = output["citations"]
    notes = footnotes(cited, output["passages"])
    quoted = sum(bool(one["quotes"]) for one in cited)
    counts = (
        f"{quoted} of {len(cited)} sentences are quoted. Underlined ones are supported by no passage." if cited else ""
    )
    body = "\n".join(_blocks(output["answer"], cited, notes))
    quotes = "\n".join(
        f'<li id="quote-{one.number}">“{escape(one.quote["text"])}” <span class="dim">{escape(one.label)}</span></li>'
        for one in notes
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
    """Return an answer as HTML: its quotes linked (`#quote-1`), and marked what no passage supports."""

    def show(text: str, found: list[Footnote]) -> str:
        if not found:
            return f'<span class="unsupported" title="no passage supports this">{escape(text)}</span>'
        return escape(text) + "".join(
            f'<sup><a href="#quote-{one.number}" title="{escape(one.quote["text"])}">[{one.number}]</a></sup>'
            for one in found
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
                {**one, "start": one["start"] - start, "end": one["end"] - start}
                for one in citations
                if start <= one["start"] < end
            ]
            yield f"<p>{cited_html(block[0], cited, notes).rstrip()}</p>"
