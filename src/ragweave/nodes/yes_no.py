"""Reading Yes or No off a reply."""

from __future__ import annotations

import re

from ragweave.nodes.conclusion import CONCLUDES
from ragweave.tools.text.markup import trimmed
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_WORD = re.compile(
    r"^[\W_]*(?:(?:yes|true) ?(?:or|/|\|) ?(?:no|false)\b[\W_]+(?=\w))?(?!yes ?(?:or|/|\|) ?no\b)(?!true ?(?:or|/|\|) ?false\b)(yes|no|true|false)(?![^\W_])",
    re.IGNORECASE,
)
"""The word itself, also behind the choice told again ("Yes/No: Yes"), which alone is none."""
_SAYS_SO = re.compile(r"(?:yes|no)(?:[,;:!]|\.(?! ?\d)|$| ?[-–—])", re.IGNORECASE)
"""A Yes or No with which a sentence begins; what follows is the reason."""
_LACKS = re.compile(
    r"\W*(?:there (?:is|was) |i (?:do not|don['’]t) have |we (?:do not|don['’]t) have )?"
    r"(?:not enough|insufficient|no sufficient|not sufficient) (?:\w+ )?(?:information|evidence|context"
    r"|data|details)\b(?! to (?:convict|support|prove)\b)",
    re.IGNORECASE,
)
"""What follows a No that is the answer to whether the passages tell."""
_LOOKED_AT = 2000
"""Characters at a reply's end in which its last sentence is looked for."""


def begins_with_verdict(text: str) -> bool:
    """Return whether a text begins with Yes, No, True or False."""
    return _WORD.match(text) is not None


def says_so(text: str) -> bool:
    """Return whether a text is Yes or No, or begins with it and a comma or the like."""
    return _SAYS_SO.match(text) is not None


def verdict(text: str) -> str:
    """Return the Yes or No that a text begins with, else Unknown.

    "No, there is not enough information" says neither.
    """
    found = _WORD.match(text)
    if found is None:
        return UNKNOWN
    if found[1].lower() in ("yes", "true"):
        return "Yes"
    return UNKNOWN if _LACKS.match(text, found.end()) else "No"


def reasoned_verdict(text: str) -> str:
    """Return the verdict of a text that `says_so`; Unknown where its reason declines to answer."""
    said_so = _SAYS_SO.match(text)
    told = trimmed(text[said_so.end() :]) if said_so else ""
    return UNKNOWN if told and is_unknown(told) else verdict(text)


def last_verdict(text: str) -> str:
    """Return the Yes or No that the last sentence of a text says first, else Unknown.

    One that answers a question of the text's own is none, and neither is one of several.
    """
    *before, last = [one.text for one in split_sentences(text[-_LOOKED_AT:])] or [""]
    if before and (before[-1].endswith("?") or any(map(says_so, before))):
        return UNKNOWN
    lead = CONCLUDES.match(last)
    bare = trimmed(last[lead.end() if lead else 0 :])
    return verdict(bare) if says_so(bare) else UNKNOWN
