"""Loaders of plain text and Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ragweave.tools.knowledge.loaded import Loaded, decode, open_bytes

_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_HEADING = re.compile(r"^ {0,3}#{1,6}(?=\s)")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)\s*$")


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


def markdown_title(text: str) -> str:
    """Return the first heading outside code fences, or an empty text."""
    fenced, before = False, ""
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            if heading := _heading(line):
                return heading
            if before and _UNDERLINE.match(line):
                return before
        before = "" if fenced or line.lstrip().startswith((">", "-", "*", "`")) else line.strip()
    return ""


def _without_top_heading(text: str) -> str:
    top = len(text) - len(text.lstrip())
    first = next(iter(text[top:].splitlines()), "")
    rest = text[top + len(first) :]
    if not _heading(first) or not rest.strip():
        return text
    return " " * (top + len(first)) + rest


def _heading(line: str) -> str:
    """Return the text of a heading without its marks, or nothing for any other line."""
    mark = _HEADING.match(line)
    return line[mark.end() :].strip().rstrip("#").rstrip() if mark else ""


def _read(path: Path) -> str:
    with open_bytes(path) as file:
        return decode(file.read())
