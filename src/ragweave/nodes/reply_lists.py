"""Reading a list that is a reply's answer: its items, one a line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from textwrap import dedent

from ragweave.nodes.conclusion import CONCLUDES
from ragweave.tools.text.markup import EMPHASIS, trimmed, without_backticks
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_ANNOUNCES = re.compile(
    r"\A(?!\W*(?:yes|no|true|false)\b)(?![^:]*\b(?:reason|step|fact|source|passage)s?\b)[^.;:]*"
    r"\b(?:includ(?:ing|es?|ed)|were|was|are|is|as follows|following(?: \w+){0,3}|such as|these"
    r"|answers?|by):\Z",
    re.IGNORECASE,
)
_SOURCE = re.compile(r"(?:based on|according to|from|in)\b[^,:]{1,80}, ?", re.IGNORECASE)
"""Where the items were found, as a line begins that announces them."""
_NO_MORE = re.compile(r"\b(?:other|others|more|else|further)\b", re.IGNORECASE)
"""A caveat behind a list: that there may be others."""
_ITEM = re.compile(r"(?:\(?(?P<number>\d{1,2})[.)]|[-•*+–])[ \t]+(?P<text>\S.*)\Z")
_ANY_ITEM = re.compile(r"\s*(?:\(?(?:\d{1,2}|[A-Za-z])[.)]|[-•*+–])[ \t]+\S")
_EXPLAINED = re.compile(r":\s|\s[–—-]\s")
_EXPLAINS_FROM = 6
"""Words behind a colon that explain an item; fewer may be a part of its name."""
_NAMES = 5
"""Most words of an item that is a name; a longer one may be a step of a reasoning."""
_NO_NAME = re.compile(
    r":|\b(?:passage|document|knowledge)s? \d|\b(?:is|was|born|directed)\b"
    r"|\A\W*(?:yes|no|true|false|he|she|it|not|final|confidence)\b",
    re.IGNORECASE,
)
"""What an item has that is no name: a heading of its own, a source, a verdict, a verb."""


def listed(said: str) -> str:
    """Return the items of a list that is the whole answer, joined by commas; "" of any other text.

    It stands behind a line that announces it ("They were:"), one item a line, and nothing that
    concludes follows; Unknown where what follows declines. A list of names alone needs no such
    line. What is listed twice counts once.
    """
    announced, *lines = [line for line in said.splitlines() if line.strip()] or [""]
    if names := _names([announced, *lines]):
        return ", ".join(dict.fromkeys(names))
    lines = dedent("\n".join(lines)).splitlines()
    items = items_of(lines)
    rest = "\n".join(lines[len(items) :])
    announces = _ANNOUNCES.search(_SOURCE.sub("", trimmed(announced), count=1))
    if len(items) < 2 or CONCLUDES.search(rest) or not announces:
        return ""
    if rest and is_unknown(rest) and not _NO_MORE.search(rest):
        return UNKNOWN
    return ", ".join(dict.fromkeys(map(_head, items)))


def items_of(lines: Iterable[str]) -> list[str]:
    """Return the items of the list that `lines` begin with, without their numbers or bullets."""
    found = itertools.takewhile(bool, map(_ITEM.match, lines))
    return [one["text"] for one in found if one]


def is_item(line: str) -> bool:
    """Return whether a line begins as an item of a list does, of whatever form."""
    return _ANY_ITEM.match(line) is not None


def _names(lines: Sequence[str]) -> list[str]:
    """Return the items of a text that is nothing but a list of names, else none.

    Its numbers, if any, run from 1.
    """
    found = [one for one in map(_ITEM.match, lines) if one]
    numbers = [int(one["number"]) for one in found if one["number"]]
    if not 1 < len(found) == len(lines) or numbers != [*range(1, len(numbers) + 1)]:
        return []
    items = [one["text"] for one in found]
    named = all(len(one.split()) <= _NAMES and not _NO_NAME.search(one) for one in items)
    return [*map(_head, items)] if named and not any(map(is_unknown, items)) else []


def _head(item: str) -> str:
    """Return what a list's item names, without what is said of it behind a colon or a dash."""
    bare = item.translate(dict.fromkeys(map(ord, EMPHASIS)))
    named, *told = _EXPLAINED.split(bare, maxsplit=1)
    explained = bool(told) and len(told[0].split()) >= _EXPLAINS_FROM
    head = trimmed(trimmed(named if explained else bare).strip(".,;: "))
    return without_backticks(head)
