"""The loader of Markdown: front matter becomes metadata, headings become paths."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ragweave.tools.knowledge.decoding import read_text
from ragweave.tools.knowledge.markup import Heading, Loaded, stem

RESERVED = frozenset(
    re.findall(
        r"\w+",
        "source title start end page line heading_path rank score query position merged_rank of_run "
        "gold",
    )
)
"""Metadata that ragweave itself gives a passage, and reads again as its own."""

_COMMENT = "<!--"
_FENCE = re.compile(rf"^ {{0,3}}(~{{3,}}|`{{3,}}(?=[^`]*$)|{_COMMENT})")
_FENCE_END = re.compile(r"^ {0,3}(~{3,}|`{3,})$")
_HEADING = re.compile(r"^ {0,3}#{1,6}(?=\s)")
_CLOSING = re.compile(r"\s#+\s*$")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)\s*$")
_OPENING = re.compile(r"(---|\+\+\+)[ \t]*\r?\n")
_NO_TEXT = (">", "-", "*", "`", "#", "|", _COMMENT)
_LONGEST = 65_536
"""Characters of front matter that are read; a longer block is text."""
_LONGEST_NUMBER = 2**13
"""Bits of a whole number; Python refuses to write a few thousand more as decimals."""


def load_markdown(path: Path) -> Iterator[Loaded]:
    """Load a Markdown file; its title is that of its front matter, else the first heading.

    Front matter (YAML between lines of `---`, TOML between lines of `+++`) becomes metadata. It
    and a heading at the top leave the text, as passages carry them anyway: white space takes their
    place, so that offsets still point into the file.
    """
    yield markdown(read_text(path), stem(path))


def markdown(text: str, name: str, title: str = "") -> Loaded:
    """Read a Markdown text.

    Args:
        text: The text.
        name: Its title where it names none.
        title: Its title whatever it names.
    """
    end, fields = front_matter(text)
    body = _blank(text, end) if text[end:].strip() else text
    headings = markdown_headings(body)
    title = title or " ".join(str(fields.get("title") or "").split())
    if not title and headings:
        title = headings[0].text
    given = {str(_plain(key)): _plain(one) for key, one in fields.items() if key != "title"}
    shown = without_top_heading(body, headings, title)
    return Loaded(shown, title or name, metadata=own_fields(given), headings=headings)


def own_fields(fields: Mapping[str, Any], reserved: Collection[str] = RESERVED) -> dict[str, Any]:
    """Return a file's own fields as metadata: `source_` for `source`, and so for all `reserved`.

    Under the name itself a file could forge a citation, a page, or a place in the ranking.
    """
    return {_unreserved(key, fields, reserved): value for key, value in fields.items()}


def _unreserved(key: str, fields: Mapping[str, Any], reserved: Collection[str]) -> str:
    if key not in reserved:
        return key
    key = f"{key}_"
    while key in fields:
        key = f"{key}_"
    return key


def front_matter(text: str) -> tuple[int, dict[Any, Any]]:
    """Return where a text's front matter ends (0: it has none), and its fields.

    A block that is no valid mapping is no front matter: a rule and what follows it are text.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return 0, {}
    closing = re.compile(rf"^{re.escape(opening[1])}[ \t]*\r?$", re.MULTILINE)
    found = closing.search(text, opening.end(), opening.end() + _LONGEST)
    if found is None:
        return 0, {}
    block = text[opening.end() : found.start()]
    fields = _yaml(block) if opening[1] == "---" else _toml(block)
    return (found.end(), fields) if isinstance(fields, dict) else (0, {})


def _yaml(block: str) -> Any:
    """Read YAML; None for what is invalid, or refers to itself: aliases can grow without bound."""
    import yaml

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(block, yaml.SafeLoader)):
            return None
        return yaml.safe_load(block) or {}
    except Exception:  # noqa: BLE001 - what builds a tagged value raises what it likes
        return None


def _toml(block: str) -> Any:
    try:
        return tomllib.loads(block)
    except (ValueError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    """Return a value of JSON: dates and the like become text, and numbers too long for decimals."""
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER:
        return hex(value)
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def markdown_headings(text: str) -> tuple[Heading, ...]:
    """Return the headings outside code fences and comments, in order."""
    found: list[Heading] = []
    fence, before, start, at = "", "", 0, 0
    for line in text.splitlines(keepends=True):
        above, fence = fence, _fence_after(line, fence)
        code = above or fence
        first, end = at + len(line) - len(line.lstrip()), at + len(line.rstrip())
        heading = "" if code else _heading(line)
        under = None if code or not before else _UNDERLINE.match(line)
        if heading:
            found.append(Heading(first, end, _level(line), heading))
        elif under:
            found.append(Heading(start, end, 1 if under[1].startswith("=") else 2, before))
        no_text = code or under or line.lstrip().startswith(_NO_TEXT)
        before, start = "" if no_text else line.strip(), first
        at += len(line)
    return tuple(found)


def _fence_after(line: str, fence: str) -> str:
    """Return the mark of the code fence or the comment that is open after a line, if any.

    Source: CommonMark 0.31.2. Section 4.5: a fence ends at as many of its own marks or more, alone
    on their line, and backticks with another after them are code within a line. Section 4.6: a
    comment begins with its line, and ends with the line that holds its end.

    Args:
        line: The line, its end included.
        fence: The mark of what is open before it; "" for nothing.
    """
    shown = line.rstrip()
    opening = None if fence else _FENCE.match(shown)
    fence = opening[1] if opening else fence
    if fence == _COMMENT:
        return "" if "-->" in shown else fence
    if opening or not fence:
        return fence
    closing = _FENCE_END.match(shown)
    return "" if closing and closing[1].startswith(fence) else fence


def _level(line: str) -> int:
    shown = line.lstrip()
    return len(shown) - len(shown.lstrip("#"))


def _heading(line: str) -> str:
    """Return the text of a heading without its marks, or nothing for any other line."""
    mark = _HEADING.match(line)
    return _CLOSING.sub("", line[mark.end() :]).strip() if mark else ""


def _blank(text: str, end: int) -> str:
    return " " * end + text[end:]


def without_top_heading(text: str, headings: tuple[Heading, ...], title: str) -> str:
    """Blank the first heading where it is the title and nothing stands before it."""
    if not headings or headings[0].text != title or not text.lstrip().startswith("#"):
        return text
    first = headings[0]
    alone = not text[: first.start].strip() and text[first.end :].strip()
    return _blank(text, first.end) if alone else text
