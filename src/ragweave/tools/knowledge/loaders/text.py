"""Text files: their encoding, and Markdown with its front matter, headings and tables."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import accumulate
from typing import Any, BinaryIO, TextIO

from ragweave.state.passages import encodable
from ragweave.tools.knowledge.chunking import Heading, Loaded, Table, UnreadableError

RESERVED = frozenset(re.findall(r"\w+", "source title start end page line heading_path rank score via breaks query"))
"""Metadata that the knowledge base itself sets."""
_SAMPLE = 1_000_000
"""Bytes from which the encoding is guessed, and of a small file."""
_MISREAD = re.compile(r"\ufffd|(?<=[^\W\d_])[^\w\s\x00-\x7f’‘–—…](?=[^\W\d_])")
"""A sign beyond ASCII between two letters: what letters look like in a wrong code page."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_UNREAD = re.compile(r"data:[\w.+/-]{0,80};base64,[A-Za-z0-9+/=%]+|[!-~]{2000,}")
"""Text that nobody reads: data URIs, and long runs without a blank, such as keys."""
_ANCHOR = re.compile(r"[:\[,-]\s*&\w")
"""A YAML anchor, by which a few lines could grow without bound."""
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.{0,65536}?\r?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


def decode(data: bytes) -> tuple[str, str]:
    """Return the text of bytes, and a line on its encoding where it is not UTF-8."""
    encoding, note = "utf-8-sig", ""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in data[:_SAMPLE]:
        raise UnreadableError("binary, not text")
    else:
        text = data.decode("utf-8", "replace")
        wrong = text.count("\ufffd") - data.count("\ufffd".encode())
        foreign = sum(not one.isascii() for one in text) if wrong else 0
        if wrong > 0.02 * foreign and wrong >= min(4, len(data) / 10_000):
            encoding, named = _guess(data[:_SAMPLE])
            note = "" if named else f"not UTF-8: read as {encoding}"
        elif wrong:
            first = text.index("\ufffd")
            note = f"{wrong} bytes are no UTF-8 (the first after {first} characters)"
    text = data.decode(encoding, "replace")
    sample = text[:10_000]
    if len(_UNPRINTABLE.findall(sample)) > 0.1 * len(sample):
        raise UnreadableError("binary, not text")
    return text, note


def text_file(file: BinaryIO) -> tuple[TextIO, str]:
    """Return a file as text, and a line on its encoding where it is not UTF-8.

    A large file in UTF-8 is not read whole.
    """
    text, note = decode(file.read(_SAMPLE))
    if file.read(1):
        try:
            file.seek(0)
            for line in file:
                line.decode()
        except UnicodeDecodeError:
            file.seek(0)
            text, note = decode(file.read())
        else:
            file.seek(0)
            return io.TextIOWrapper(file, "utf-8-sig", newline=""), ""
    return io.StringIO(text, newline=""), note


def _guess(data: bytes) -> tuple[str, bool]:
    """Return the likeliest encoding, and whether the text itself names it, as HTML, XML and Python do.

    charset-normalizer takes short Western texts for one of twenty similar code pages. Where it finds
    Latin letters, Windows' Western code page is likelier, unless its letters make no words.
    """
    from charset_normalizer import from_bytes
    from charset_normalizer.utils import any_specified_encoding

    best = from_bytes(data).best()
    if best is not None and best.encoding == any_specified_encoding(data) != "latin_1":
        return best.encoding, True
    letters = {one for one in str(best or "") if one.isalpha() and not one.isascii()}
    alone = not re.search(rb"[\x80-\xff]{2}", data)  # as in Latin scripts, where most letters are ASCII
    latin = alone or all(unicodedata.name(one, "").startswith("LATIN") for one in letters)
    if latin and not _MISREAD.search(data.decode("cp1252", "replace")):
        return "cp1252", False
    if best is None:
        raise UnreadableError("text in an unknown encoding: convert it to UTF-8")
    return best.encoding, False


def readable(text: str) -> str:
    """Return a text without `_UNREAD`, lone surrogates and NULs.

    A loader that notes offsets in a text calls this before.
    """
    text = encodable(text).replace("\0", "\ufffd")
    return _UNREAD.sub(lambda run: f"[{len(run.group())} characters left out]", text)


def paged(pages: Iterable[str], title: str) -> Loaded:
    """Return texts as the pages of one."""
    texts = [*map(readable, pages)]
    starts = accumulate((len(one) + 1 for one in texts[:-1]), initial=0)
    return Loaded("\n".join(texts), title, pages=tuple(starts))


def markdown(text: str, name: str, title: str = "") -> Loaded:
    """Read a Markdown text with its front matter, headings and tables.

    Blanks replace the front matter, so that offsets stay. The title is `title`, else that of the
    front matter, of a single top heading, or `name`.
    """
    text, fields = readable(text), {}
    if found := _FRONT_MATTER.match(text):
        fields = _yaml(found[1])
        text = " " * (found.end() - 1) + "\n" + text[found.end() :]
    headings, tables = structure(text)
    own = " ".join(str(fields.pop("title", "") or "").split())
    top = [one.text for one in headings if one.level <= headings[0].level]
    title = title or own or (top[0] if len(top) == 1 else "") or name
    return Loaded(text, title, metadata=own_fields(fields), headings=headings, tables=tables)


def _yaml(block: str) -> dict[str, Any]:
    """Return the fields of front matter; if it is no YAML, its lines of the form `name: value`."""
    import yaml

    with suppress(yaml.YAMLError, ValueError, RecursionError):
        fields = None if _ANCHOR.search(block) else yaml.safe_load(block)
        if isinstance(fields, dict):
            return fields
    pairs = re.findall(r"^([\w-]+):[ \t]+(\S.*)$", block, re.MULTILINE)
    return {name: value.strip().strip("\"'") for name, value in pairs}


def own_fields(fields: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a file's own fields as JSON values: `page_` for `page`, and so on for all `RESERVED`."""
    named = {f"{name}_" if name in RESERVED else str(name): value for name, value in fields.items()}
    # JSON has no NaN, and SQLite would read none of the metadata.
    plain: dict[str, Any] = json.loads(json.dumps(named, default=str, skipkeys=True), parse_constant=str)
    return plain


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable(["inline", "link", "image"], True)


def structure(text: str) -> tuple[tuple[Heading, ...], tuple[Table, ...]]:
    """Return the headings and tables of a Markdown text, by CommonMark's rules."""
    if not re.search(r"[#|]|==|--", text):
        return (), ()
    lines = [0, *(match.end() for match in re.finditer(r"\n|\Z", text))]
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
