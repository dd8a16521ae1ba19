"""Is a word of a verdict negated: "not supported", "doesn't show that it is correct"?"""

from __future__ import annotations

import re

SENTENCE = re.compile(
    r"[.;:!?\n→]|[-=]>|\b(?:but|however|yet|so|thus|therefore|hence|because|since|although|though)\b"
    r"|(?<!\bnot )(?<!\bwithout )\bmaking\b"
    r"|(?:\s[-–—/=]+\s|[(\[])(?=\W*\w+\W*(?:[.\n]|\Z))",
    re.I,
)
"""What ends a sentence or a part of one that stands for itself; so does a dash before one word."""
ENDS_CLAUSE = r"(?=[\"'”’*_)\]]*\s*(?:[.,;:!(\[\n–—→/]|-(?!\w)|\Z|\b(?:because|since|but)\b))"
"""Behind a word that ends its clause: a verdict does, an adjective before its noun doesn't."""
CLAUSE = re.compile(r",|\b(?:and|which|who)\b", re.I)
NEGATED = re.compile(
    r"\b(?:not|no|never|cannot|nothing|none|neither|nor|hardly|scarcely|without|lack\w*|missing"
    r"|fail\w*|unable|doubt\w*|far from|less than|short of)\b|n['’]t\b",
    re.I,
)
NEGATES_NOTHING = re.compile(r"\b(?:no|without(?: an?y?)?|not (?:in|a)) doubt\b|\bnot only\b", re.I)


def is_negated(text: str, start: int) -> bool:
    """Return whether the clause of `text` before the position `start` negates what begins there."""
    ends = [one.end() for one in SENTENCE.finditer(text) if one.end() <= start]
    sentence = text[ends[-1] if ends else 0 : start]
    clause = CLAUSE.split(NEGATES_NOTHING.sub("", sentence))[-1]
    return NEGATED.search(clause) is not None
