"""What a question asks for, and its shape."""

from __future__ import annotations

import re

from ragweave.tools.parts.judge.values import flag, log_count
from ragweave.tools.parts.judge.words import YEAR, asked_names, words

_SHAPE = ("words", "names", "quoted", "commas", "year", "digit")
_ASKS = {
    "who": r"\bwho\b|\bwhose\b|\bwhom\b",
    "when": r"\bwhen\b|\bwhat (?:year|date|day)|\bwhich year|what (?:\w+ )?(?:century|decade)",
    "where": r"\bwhere\b|\b(?:what|which) (?:city|country|state|county|continent|town|nationality)",
    "how_many": r"\bhow many\b|\bhow much\b|\bnumber of\b|\bhow (?:long|old|tall|far|big|large)",
    "how": r"^how\b",
    "why": r"\bwhy\b",
    "what": r"\bwhat\b",
    "which": r"\bwhich\b",
    "yes_no": r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b",
    "either_or": r"\bor\b",
    "both": r"\bboth\b|in common|\bsame\b",
    "nationality": r"nationalit|country of origin",
    "kind": r"(?:what|which) (?:type|kind|sort|form|genre|sport|language|colou?r|religion)"
    r"|profession|occupation",
    "superlative": r"\bmost\b|\b(?:high|larg|bigg|tall|long|great|old|small|low|fast|strong|rich"
    r"|young|popul)\w*est\b|\brecord\b|\bbest\b",
    "recent": r"\blast\b|\blatest\b|\bcurrent(?:ly)?\b|\bnow\b|\bnext\b|\bnew\b|\btoday\b"
    r"|\bthis year\b|20(?:1[5-9]|2\d)",
    "first": r"\bfirst\b|\boriginal",
    "plays": r"\bplay(?:s|ed|ing)?\b|\bvoice|\bstar(?:s|red)?\b|\bportray|\bactor|\bactress"
    r"|\bcast\b|\bcharacter",
    "release": r"come[s]? out|came out|release|air(?:ed)?\b|\bpremi",
    "several": r"^(?:what|which|who) (?:are|were)\b|\bname the\b|\bones\b|\ball\b|\bactors\b"
    r"|\bsongs\b|\bmembers\b",
}
_FORMS = tuple(re.compile(pattern) for pattern in _ASKS.values())

NAMES = (*(f"question.{name}" for name in _SHAPE), *(f"asks.{name}" for name in _ASKS))
"""Names of `asking`, in order."""


def asking(question: str) -> list[float]:
    """Return the shape of a question and what it asks for."""
    lowered = question.lower()
    return [
        log_count(words(question)),
        log_count(asked_names(question)),
        flag('"' in question),
        float(question.count(",")),
        flag(YEAR.search(question)),
        flag(re.search(r"\d", question)),
        *(flag(pattern.search(lowered)) for pattern in _FORMS),
    ]
