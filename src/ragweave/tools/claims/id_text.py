"""How ids are written in replies: labels, lists and ranges; a list's own numbers are no ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# White space is folded to single spaces first, and repetitions are possessive: no reply can make
# these patterns try many ways to read it.
_ID = r"[#(\[]?(?<!\w)[0-9]{1,4}(?!\w)[)\]]?"
_WORD = r"(?:knowledges?|passages?|documents?|docs?|sentences?|paragraphs?|contexts?|items?|ids?)"
LABEL = rf"\b{_WORD}\b(?: (?:ids?|no\.?|numbers?)(?!\w))? ?(?:[:=] ?)?"
JOIN = r"(?: ?(?:,(?: ?(?:and|&|or)(?!\w))?|;|and|&|or|\+|to|through|-|–|—) ?| )"
LIST = rf"(?<![\w.$/-])\[?{_ID}(?:{JOIN}(?:{LABEL})?{_ID})*+\]?(?![%/]|\.[0-9])"

_RANGE = re.compile(r"([0-9]{1,4})[)\]]? ?(?:-|–|—|to|through) ?[#(\[]?(?:[a-z]+ )?([0-9]{1,4})")
_NUMBER = re.compile(r"[0-9]{1,4}")
_GLUED = re.compile(rf"\b({_WORD})(?=[0-9]{{1,4}}(?!\w))", re.IGNORECASE)
_LABELLED = rf"(?={LABEL}[#(\[]?[0-9])"
_LEAD = re.compile(
    # a number before a labelled id, as in "Item 1: knowledge 2"
    rf"(?:[-*•+] )?(?:item )?[#(\[]?[0-9]{{1,3}}(?:[)\].:]+| ?[-–—:])? {_LABELLED}"
    # a number before a bare id: only with its mark, as in "- 1) 3"
    r"|(?:[-*•+] )?\(?[0-9]{1,3}[).] (?=[#\[]?[0-9]{1,4}(?![\w)]))",
    re.IGNORECASE,
)
_INLINE = re.compile(
    rf"(?P<label>{LABEL})?(?<!\w)\(?(?P<number>[0-9]{{1,3}})[).:] {_LABELLED}", re.IGNORECASE
)


_ANNOTATED = re.compile(
    r"(?<![\w.])([0-9]{1,4}) ?[(\[](?=[^()\[\]]{0,200}[^\W\d_])([^()\[\]]{1,200})[)\]]"
    r"(?= ?(?:[,;.&]|and\b|\Z))"
)
_FIRST = re.compile(rf"(?:[-*•+] )?(?:{LABEL})?[#(\[]?[0-9]", re.IGNORECASE)
_JUDGED = re.compile(r"relevant|related|helpful|useful|\b(?:not|no|yes)\b", re.IGNORECASE)
_MOST = 1000
"""Ids of one range that are told apart."""


def id_lines(plain: str) -> list[str]:
    """Return a reply's lines without markup, white space folded, list numbers taken off."""
    bare = plain.replace("**", "").replace("`", "").replace("_", " ")
    lines = (" ".join(line.split()).strip(" #>\"'") for line in bare.splitlines())
    return [_without_numbering(_GLUED.sub(r"\1 ", _bare_ids(line))) for line in lines]


def expand(listed: str) -> Iterator[int]:
    """Yield the numbers of a list, ranges filled in."""
    for first, last in _RANGE.findall(listed.lower()):
        yield from range(int(first), min(int(last), int(first) + _MOST) + 1)
    yield from map(int, _NUMBER.findall(listed))


def in_range(ids: Iterable[int], count: int) -> list[int]:
    """Return the ids below `count`, once each, ascending."""
    return sorted({one for one in ids if 0 <= one < count})


def _bare_ids(line: str) -> str:
    """Take off what stands behind the ids of a list: "0 (its title), 2 (its title)"."""
    if not _FIRST.match(line):
        return line
    return _ANNOTATED.sub(lambda one: one.group() if _JUDGED.search(one[2]) else one[1], line)


def _without_numbering(line: str) -> str:
    """Take off the number that a list gives its item, and those of a list inside the line.

    Inside a line only numbers that count up from 0 or 1, each before a labelled id, are a list's.
    """
    numbers = [int(one["number"]) for one in _INLINE.finditer(line) if not one["label"]]
    if numbers and numbers[0] in (0, 1) and numbers == [*range(numbers[0], numbers[-1] + 1)]:
        line = _INLINE.sub(lambda one: one.group() if one["label"] else "", line)
    return _LEAD.sub("", line, count=1) if _LEAD.match(line) else line
