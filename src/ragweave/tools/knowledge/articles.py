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
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from ragweave.errors import MissingExtraError
from ragweave.tools.knowledge.manifest import Settings
from ragweave.tools.knowledge.markdown import markdown
from ragweave.tools.knowledge.markup import (
    Loaded,
    UnreadableError,
    read_html,
    stem,
    visible_html,
)

_LONGEST = 1_000_000
"""Characters of a page that Trafilatura reads."""
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!>|~])")


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
        raise UnreadableError(str(MissingExtraError("Reading the article of a page", "documents")))
    text = _article(source)
    if text:
        made = markdown(text, page.title, title=page.title)
        page = replace(made, metadata={})
    yield page


def _article(source: str) -> str:
    """Return the article of a page as Markdown, or nothing."""
    from trafilatura import extract

    found = extract(
        source,
        output_format="markdown",
        include_comments=False,
        include_tables=True,
        favor_recall=True,
        prune_xpath=["//nav", "//footer"],
    )
    return _ESCAPE.sub(r"\1", found or "")
