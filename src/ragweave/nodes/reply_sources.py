"""Where a reply says that it found its answer, which is no part of the answer."""

from __future__ import annotations

import re
from itertools import pairwise

_ATTRIBUTED = re.compile(
    r"(?:,? ?[(\[]|, )(?:(?:as )?(?:stated|mentioned|given|said|found|written|described)"
    r" (?:in|by)|(?:see|source:?|from|according to|based on)) ?(?:the )?"
    r"(?:passage|context|text|document|article|knowledge)s?[ \d,and]{0,20}[)\]]?\.?\Z"
    r"| ?[(\[](?:passage|document|knowledge)s? ?[\d, and]{1,20}[)\]]\.?\Z"
    r"| ?[(\[](?:my )?final answer[)\]]\.?\Z",
    re.IGNORECASE,
)
_BY_SOURCE = re.compile(
    r"(?:according to|based on|as stated in|from|in) (?:the )?"
    r"(?:information (?:provided|given|contained|found) (?:in|by) (?:the )?)?"
    r"(?:(?:given|provided|above|first|second|third) )?"
    r"(?:passage|context|text|document|article|knowledge|information|reference)s?(?: \d{1,3})?"
    r"(?: provided| given| above)?, ?(?=\S)",
    re.IGNORECASE,
)
_ABOUT_SOURCE = re.compile(
    r"(?:this|that|it|the answer|as|see|source|the information|both|all)\b.{0,60}?\b(?:stated|mentioned"
    r"|found|given|said|based|according|supported|comes?|described|written|passages?|context|text)\b",
    re.IGNORECASE,
)
_CITES = re.compile(r"(?<=\S) \[(?P<cited>\d{1,2}(?:, ?\d{1,2}){0,9})\]\.?\Z")
_COUNTED = re.compile(
    r".*:|output|list|array|numbers|indices|returns|psalm|chapter|article|table|room", re.IGNORECASE
)
"""A word that such numbers belong to."""
_LOOKED_AT = 2000
"""Characters of a line in which its source is looked for."""


def without_attribution(line: str) -> str:
    """Cut "According to passage 1, " before an answer, and "(passage 2)" or "[1, 3]" behind it."""
    named = _BY_SOURCE.sub("", line[:_LOOKED_AT], count=1) + line[_LOOKED_AT:]
    return _without_citation(_ATTRIBUTED.sub("", named))


def is_about_source(sentence: str) -> bool:
    """Return whether a sentence says only where the answer of the one before it stands."""
    return _ABOUT_SOURCE.match(sentence) is not None


def _without_citation(line: str) -> str:
    """Cut the numbers in brackets with which a line cites passages: "Ada Brenner [1, 3]".

    An interval, a list that a program prints and an index stand behind other words, and not behind
    a name or a number.
    """
    found = _CITES.search(line)
    if found is None:
        return line
    numbers = [int(one) for one in re.findall(r"\d+", found["cited"])]
    name = line[: found.start()].split()[-1]
    rising = all(low < high for low, high in pairwise(numbers))
    names = (name[:1].isupper() or name[:1].isdigit()) and not _COUNTED.fullmatch(name)
    cites = numbers[0] > 0 and rising and names
    return line[: found.start()] if cites else line
