"""The loader of HTML: the text of a page without what stands around it.

Trafilatura (Barbaresi 2021, "Trafilatura: A Web Scraping Library and Command-Line Tool for Text
Discovery and Extraction") reads the article of a page: on news, documentation and `<div>` pages it
leaves out menus, cookie notices, sidebars and footers, and keeps headings, lists and tables, where
our own reader knows `<nav>` and `<footer>` alone. On short pages and lists of links it falls back to
all text, so these two are cut out before. It takes ten seconds a megabyte, so long pages, and pages
without an article, are read by our own reader, as are all pages where it is not installed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError
from ragweave.tools.knowledge.decoding import read_html
from ragweave.tools.knowledge.manifest import Settings
from ragweave.tools.knowledge.markdown import markdown_headings, without_top_heading
from ragweave.tools.knowledge.markup import (
    Heading,
    Loaded,
    UnreadableError,
    is_permalink,
    needs_caret,
    stem,
    visible_html,
)

_LONGEST = 1_000_000
"""Characters of a page that Trafilatura reads."""
_CODE = re.compile(
    r"(?<![\\`])(?:(?P<fence>`{3,}+)\n(?s:.*?)^(?P=fence)[ \t]*$|(?P<marks>`++).+?(?<!`)(?P=marks)(?!`))",
    re.MULTILINE,
)
_ESCAPES = re.compile(r"(?<!\\)\\(?:\\\\)*(?=[*_`~\[\]<])")
_ESCAPE_OF_A_LINE = re.compile(
    r"^ *(?:(?:-|\d+\.) )?(?:\\(?=(?:#{1,6}|[-+])(?:\s|$)|>)|\d{1,9}\\(?=[.)](?:\s|$)))",
    re.MULTILINE,
)
_ROW = re.compile(r"^\|.*", re.MULTILINE)


def load_html(path: Path, settings: Settings) -> Iterator[Loaded]:
    """Load the text of an HTML file; its title is `<title>`, or the first `<h1>`.

    Raises:
        UnreadableError: The file is empty, binary, or in an unknown encoding; or the knowledge base
            reads articles and Trafilatura is not installed.
    """
    source = read_html(path)
    page = visible_html(source, stem(path))
    if settings.html != "article" or len(source) > _LONGEST:
        yield page
        return
    if find_spec("trafilatura") is None:
        missing = MissingExtraError("Reading the article of a page", "documents")
        raise UnreadableError(str(missing), passing=True)
    text = _article(source)
    yield _read(text, page.title) if text else page


def _article(source: str) -> str:
    """Return the article of a page as Markdown, or nothing."""
    from trafilatura import extract, load_html

    tree = load_html(source)
    if tree is None:
        return ""
    _simplify(tree)
    found = extract(
        tree,
        output_format="markdown",
        include_comments=False,
        include_tables=True,
        favor_recall=True,
        prune_xpath=["//nav", "//footer"],
    )
    return _CODE.sub(_from_its_line, found or "")


def _simplify(tree: Any) -> None:
    """Change what Trafilatura reads as something else, or not at all."""
    for heading in [*tree.iter("h1", "h2", "h3", "h4", "h5", "h6")]:
        _drop_permalinks(heading)
    for small in [*tree.iter("sub", "sup", "u")]:
        if small.tag == "sup" and needs_caret(_first_text(small)):
            small.text = f"^{(small.text or '').lstrip()}"
        small.drop_tag()  # they would stand as tags in the text
    for block in [*tree.iter("pre")]:
        _keep_what_follows(block)
        if block.find(".//code") is None:
            _mark_as_code(block)


def _drop_permalinks(heading: Any) -> None:
    for link in heading.findall(".//a"):
        if is_permalink(link.text_content()):
            link.drop_tree()


def _first_text(element: Any) -> str:
    return next((text for text in element.xpath(".//text()") if text.strip()), "")


def _keep_what_follows(block: Any) -> None:
    """Make a paragraph of the bare text behind a block of code, which would be left out."""
    if (block.tail or "").strip():
        paragraph = block.makeelement("p")
        paragraph.text, block.tail = block.tail, None
        block.addnext(paragraph)


def _mark_as_code(block: Any) -> None:
    """Put `<code>` into a `<pre>`, which would be read as prose, comments as headings."""
    for line in block.iter("br", "div", "p"):
        line.tail = "\n" + (line.tail or "")
    code = block.makeelement("code")
    code.text, tail = block.text_content(), block.tail
    block.clear()
    block.append(code)
    block.tail = tail


def _from_its_line(code: re.Match[str]) -> str:
    """Begin a line with the fence that Trafilatura lets follow other text, as in a list."""
    inside = code["fence"] and code.start() and code.string[code.start() - 1] != "\n"
    return "\n" + code.group() if inside else code.group()


def _read(text: str, title: str) -> Loaded:
    """Read Markdown of Trafilatura's; its headings are found before escapes leave the text."""
    gone = _escapes(text)
    headings = tuple(
        Heading(
            one.start - bisect_left(gone, one.start),
            one.end - bisect_left(gone, one.end),
            one.level,
            _without(one.text, _escapes(one.text)),
        )
        for one in markdown_headings(text)
    )
    shown = without_top_heading(_without(text, gone), headings, title)
    return Loaded(shown, title, headings=headings)


def _escapes(text: str) -> list[int]:
    """Return the offsets of the backslashes that Trafilatura has added, in order.

    It doubles those before a mark and adds one; code stays as it is, but for bars in a table.
    """
    prose = _CODE.sub(_masked, text)
    found: set[int] = set()
    for one in _ESCAPES.finditer(prose):
        found.update(range(one.start(), one.end() - len(one.group()) // 2))
    found.update(one.end() - 1 for one in _ESCAPE_OF_A_LINE.finditer(prose))
    for row in _ROW.finditer(prose):
        bars = re.finditer(r"\\\|", row.group())
        found.update(row.start() + one.start() for one in bars)
    return sorted(found)


def _masked(code: re.Match[str]) -> str:
    kept = r"[^\\|]" if code["marks"] else r"(?s:.)"
    return re.sub(kept, " ", code.group())


def _without(text: str, gone: Sequence[int]) -> str:
    edges = [-1, *gone, len(text)]
    return "".join(text[first + 1 : end] for first, end in pairwise(edges))
