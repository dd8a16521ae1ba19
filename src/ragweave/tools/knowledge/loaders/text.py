"""Text files: what encoding they are in, and Markdown with its front matter, headings and tables."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ragweave.tools.knowledge.passages import Heading, Loaded, Table, UnreadableError
from ragweave.tools.knowledge.settings import Notice

RESERVED = frozenset(
    ("source", "title", "start", "end", "page", "line", "heading_path", "rank", "score", "breaks")
    + ("lead", "query")
)
"""Metadata that a knowledge base itself gives a passage."""
_SAMPLE = 1_000_000
"""Bytes of which the encoding is guessed."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WITHIN_WORDS = re.compile(r"(?<=[^\W\d_])[^\w\s\x00-\x7f’‘–—…](?=[^\W\d_])")
"""A sign beyond ASCII between two letters, as a wrong code page shows letters."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.{0,65536}?\r?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


def encoding_of(data: bytes) -> tuple[str, str]:
    """Return the encoding of a text and, where it had to be guessed, a line that says so.

    Raises:
        UnreadableError: The bytes are no text.
    """
    if data.startswith(_UTF16):
        return "utf-16", ""
    if b"\0" in data[:_SAMPLE]:
        raise UnreadableError("binary, not text")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)  # a letter may be cut off at the end
        return "utf-8-sig", ""
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace")
        wrong = text.count("\ufffd")
        if wrong <= 0.02 * sum(not one.isascii() for one in text) or (
            wrong <= 3 and wrong < len(data) / 10_000
        ):
            return "utf-8-sig", f"{wrong} bytes are no UTF-8 (first at {error.start})"
    guess = _guessed(data)
    return guess, f"not UTF-8: read as {guess}"


def _guessed(data: bytes) -> str:
    """Return the likeliest encoding: Windows' Western one unless its letters make no words."""
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE]).best()
    try:
        western = data[:_SAMPLE].decode("cp1252")
    except UnicodeDecodeError:
        western = None
    letters = western is not None and not _WITHIN_WORDS.search(western)
    single = best is None or best.encoding.startswith(("cp12", "iso8859", "mac", "latin", "hp_"))
    if western is not None and (best is None or (letters and single)):
        return "cp1252"
    if best is None:
        raise UnreadableError("not text in an encoding that is known")
    return best.encoding


def decode(data: bytes) -> tuple[str, str]:
    """Return the text of bytes, and a line on its encoding where there is something to say.

    Raises:
        UnreadableError: They are no text.
    """
    encoding, told = encoding_of(data)
    text = data.decode(encoding, "replace")
    sample = text[:10_000]
    if len(_UNPRINTABLE.findall(sample)) > 0.1 * len(sample):
        raise UnreadableError("binary, not text")
    return text, told


def utf8(text: str) -> str:
    """Return a text without lone surrogates, which neither UTF-8 nor SQLite can hold."""
    return text.encode("utf-8", "replace").decode()


def load_text(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load a text file of any kind as it stands; its title is the file name."""
    text, told = decode(data)
    if told:
        yield Notice(str(path), told, partly=True)
    yield Loaded(text, path.stem)


def load_markdown(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load a Markdown file; its title is that of its front matter, else the first heading."""
    text, told = decode(data)
    if told:
        yield Notice(str(path), told, partly=True)
    yield markdown(text, path.stem)


def markdown(text: str, name: str, title: str = "") -> Loaded:
    """Read a Markdown text: front matter becomes metadata, headings paths, tables repeat headers.

    Args:
        text: The text; front matter is replaced by blanks, so that offsets stay.
        name: Its title where neither front matter nor a heading gives one.
        title: Its title, whatever it says itself.
    """
    fields: dict[str, Any] = {}
    if found := _FRONT_MATTER.match(text):
        fields = _yaml(found[1])
        text = " " * found.end() + text[found.end() :]
    body = text if text.strip() else text.lstrip()
    headings, tables = structure(body)
    said = " ".join(str(fields.pop("title", "") or "").split())
    title = title or said or (headings[0].text if headings else "") or name
    return Loaded(body, title, metadata=own_fields(fields), headings=headings, tables=tables)


def _yaml(block: str) -> dict[str, Any]:
    """Return the fields of front matter; of what is no YAML those lines that say `name: value`."""
    import yaml

    try:
        # Aliases could make a few lines grow without bound.
        aliases = any(
            isinstance(one, yaml.AliasEvent) for one in yaml.parse(block, yaml.SafeLoader)
        )
        fields = None if aliases else yaml.safe_load(block)
    except (yaml.YAMLError, ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        pairs = re.findall(r"^([\w-]+):[ \t]+(\S.*)$", block, re.MULTILINE)
        fields = {name: value.strip().strip("\"'") for name, value in pairs}
    return {str(name): value for name, value in fields.items()}


def _plain(value: Any) -> Any:
    """Return a value of JSON: dates, infinities and the like become text."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN, and SQLite would read none of the metadata
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def own_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's own fields as metadata: `page_` for `page`, and so for all `RESERVED`."""
    named = ((f"{name}_" if name in RESERVED else name, value) for name, value in fields.items())
    return {name: _plain(value) for name, value in named}


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable(["inline", "link", "image"], True)


def structure(text: str) -> tuple[tuple[Heading, ...], tuple[Table, ...]]:
    """Return the headings and tables of a Markdown text, by CommonMark's rules."""
    if "#" not in text and "|" not in text and "==" not in text and "--" not in text:
        return (), ()
    lines = [0]
    for line in text.split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    lines[-1] = len(text)
    headings: list[Heading] = []
    tables: list[Table] = []
    tokens = _parser().parse(text.replace("\r", " "))
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            shown = " ".join(tokens[at + 1].content.split())
            headings.append(Heading(lines[token.map[0]], int(token.tag[1]), shown))
        elif token.type == "table_open":
            first, end = token.map
            tables.append(Table(lines[first], lines[min(first + 2, end)], lines[end]))
    return tuple(headings), tuple(tables)
