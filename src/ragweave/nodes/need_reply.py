"""Reading whether a model says that it needs retrieval (Self-Eval)."""

from __future__ import annotations

import re

from ragweave.nodes.replies import bare_text, parse_answer
from ragweave.tools.claims import parse_judgement

_LEADING = re.compile(
    r"\A\W*(?P<said>yes|no)\b(?=\W*\Z|\W*[,.;:!\n–—-]|\s+(?:i|it|we|this|that|because|since|need)\b)",
    re.IGNORECASE,
)
_NO_ONE = re.compile(r"\W*no\s+\w", re.IGNORECASE)
_VERDICT = re.compile(r"\bknown[\s*_`]*[(\[{<]|[\"']known[\"']\s*:", re.IGNORECASE)
_CLAUSE = re.compile(r"[.,;:!?\n]|\b(?:and|but|so|because|since|as)\b", re.IGNORECASE)
_LOOK = r"(?:look\w*|search\w*|retriev\w*|check\w*|verif\w*|consult\w*|find\b|more information)"
_NEED = re.compile(
    r"\b(?:needs?|needed|required?|requires|necessary|must|should|have to|has to|want to|will|would"
    rf"|let me|going to|i['’](?:d|ll))\b[\w ]{{0,20}}?\b{_LOOK}"
    r"|\b(?:look(?:ing)?[\w ]{0,12}\bup|search(?:ing)?|retrieval|retrieving)\b[\w '’]{0,20}?"
    r"\b(?:needed|required|necessary)\b",
    re.IGNORECASE,
)
_WITHOUT = re.compile(rf"\bwithout\b[\w ]{{0,20}}?\b{_LOOK}", re.IGNORECASE)
_NEGATED = re.compile(
    r"\b(?:not|no|never|cannot|nothing|hardly|unnecessary|unneeded)\b|n['’]t\b", re.IGNORECASE
)
_DOUBTFUL = re.compile(r"\b(?:if|whether|unless)\b", re.IGNORECASE)


def parse_need(reply: str) -> bool | None:
    """Return whether a reply says that retrieval is needed; None where it can't be read.

    In this order: Yes or No at its start or behind "Answer:" or "the answer is"; a verdict
    `Known(…)` with its brackets; what it says of a need to look something up ("I need to search",
    "there is no need to", "not without looking it up"), where all that it says agrees.
    """
    text = bare_text(reply)
    if leading := _LEADING.match(text):
        return leading["said"].lower() == "yes"
    marked = parse_answer(reply, "yes_no")
    if marked in ("Yes", "No") and not _NO_ONE.match(text):
        return marked == "Yes"
    if _VERDICT.search(text):
        known = parse_judgement(text)
        return None if known is None else not known
    said = {need for clause in _CLAUSE.split(text) if (need := _said(clause)) is not None}
    return said.pop() if len(said) == 1 else None


def _said(clause: str) -> bool | None:
    """Return whether one clause says that looking something up is needed."""
    if _DOUBTFUL.search(clause):
        return None
    if without := _WITHOUT.search(clause):
        return bool(_NEGATED.search(clause[: without.start()]))
    return not _NEGATED.search(clause) if _NEED.search(clause) else None
