"""Loaders of plain text, Markdown and HTML."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from bs4 import BeautifulSoup, MarkupResemblesLocatorWarning, XMLParsedAsHTMLWarning

from ragweave.tools.knowledge.loaded import Loaded, UnreadableError, decode, open_bytes

_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.+?)\s*#*\s*$")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)\s*$")
_UNSEEN = ["script", "style", "noscript", "template", "head"]
_BLOCKS = re.findall(
    r"\w+",
    "address article aside blockquote br caption dd div dl dt figcaption figure footer h1 h2 h3 h4 "
    "h5 h6 header hr li main nav ol p pre section table td th tr ul",
)


def stem(path: Path) -> str:
    """Return the file name without its suffixes, as a title."""
    name = path.name.removesuffix(".gz")
    return Path(name).stem


def load_text(path: Path) -> Iterator[Loaded]:
    """Load a text file; its title is the file name."""
    yield Loaded(_read(path), stem(path))


def load_markdown(path: Path) -> Iterator[Loaded]:
    """Load a Markdown file; its title is the first heading.

    A heading at the top leaves the text, as passages carry the title anyway: white space takes
    its place, so that offsets still point into the file.
    """
    text = _read(path)
    title = markdown_title(text)
    yield Loaded(_without_top_heading(text) if title else text, title or stem(path))


def load_html(path: Path) -> Iterator[Loaded]:
    """Load the visible text of an HTML file; its title is `<title>`, or the first `<h1>`."""
    with open_bytes(path) as file:
        data = file.read()
    if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableError("binary, not HTML")
    with warnings.catch_warnings():
        # XHTML reads well enough as HTML, and a page may hold nothing but a file name.
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        warnings.simplefilter("ignore", MarkupResemblesLocatorWarning)
        soup = BeautifulSoup(data, "html.parser")
    if soup.contains_replacement_characters:
        raise UnreadableError("HTML in an encoding that it does not name")
    heading = soup.title or soup.h1
    title = " ".join(heading.get_text().split()) if heading else ""
    yield Loaded(_visible(soup), title or stem(path))


def markdown_title(text: str) -> str:
    """Return the first heading outside code fences, or an empty text."""
    fenced, before = False, ""
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            if heading := _HEADING.match(line):
                return heading.group(1)
            if before and _UNDERLINE.match(line):
                return before
        before = "" if fenced or line.lstrip().startswith((">", "-", "*", "`")) else line.strip()
    return ""


def _without_top_heading(text: str) -> str:
    top = len(text) - len(text.lstrip())
    first, _, rest = text[top:].partition("\n")
    if not _HEADING.match(first) or not rest.strip():
        return text
    return " " * (top + len(first)) + "\n" + rest


def _visible(soup: BeautifulSoup) -> str:
    for tag in soup(_UNSEEN):
        tag.decompose()
    for tag in soup(_BLOCKS):
        tag.insert_before("\n")
        tag.insert_after("\n")
    lines = (" ".join(line.split()) for line in soup.get_text().splitlines())
    return "\n".join(line for line in lines if line)


def _read(path: Path) -> str:
    with open_bytes(path) as file:
        return decode(file.read())
