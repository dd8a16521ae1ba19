"""Reading a retrieval-necessity judge's reply (SlimPLM section 3.2)."""

from __future__ import annotations

import re

from ragweave.tools.claims.values import reply_text

_CHOICE = re.compile(r"\(?\s?\btrue\s{0,3}(?:[/|]|or)\s{0,3}false\b\s?\)?", re.IGNORECASE)
_VERDICT = re.compile(
    r"(?<![A-Za-z])known[\s:=(<\[{*_`\"']{0,12}(true|false|yes|no)(?![A-Za-z])", re.IGNORECASE
)
_CUT = re.compile(r"(?<![A-Za-z])known\s?\(\s?(t(?:ru?)?|f(?:a(?:ls?)?)?)\s*$", re.IGNORECASE)
_CLAUSE = re.compile(r"[.,;:!?\n{}]|\b(?:but|so|thus|hence|therefore)\b", re.IGNORECASE)
_NEGATED = re.compile(
    r"\b(?:not|never|cannot|nor|neither|hardly|unable|(?:i|we) doubt)\b|n['’]t\b", re.IGNORECASE
)
_TAKEN_BACK = re.compile(
    r"\W{0,6}(?:is|are|was|seems?|(?:would|can|could) be)\s?(?:not\b|n['’]t\b|wrong\b|incorrect\b)",
    re.IGNORECASE,
)
_BEFORE = 200
_BARE = re.compile(r"[\W_]*(true|false)[\W_]*", re.IGNORECASE)


def parse_judgement(text: str) -> bool | None:
    """Return what the judge says: True (known), False (not known), None where it can't be read.

    It takes `<Known(True)>` (released models), `Known (False)` (paper), the same with other
    brackets, quotes, markdown or prose around, JSON, a verdict that the reply's end cuts short,
    and the bare word. Verdicts that contradict each other are None, and so is an echo of
    "Known (True / False)". A negated verdict ("I can't say it is Known(True)") says nothing.
    """
    plain = _CHOICE.sub(" ", reply_text(text))
    if bare := _BARE.fullmatch(plain):
        return bare[1].lower() == "true"
    found = {
        match[1].lower() in ("true", "yes")
        for match in _VERDICT.finditer(plain)
        if not _negated(plain, match)
    }
    cut = _CUT.search(plain)
    if not found and cut and not _negated(plain, cut):
        return cut[1].lower().startswith("t")
    return found.pop() if len(found) == 1 else None


def _negated(text: str, verdict: re.Match[str]) -> bool:
    """Does the clause before a verdict deny it, or what follows take it back?"""
    before = _CLAUSE.split(text[max(0, verdict.start() - _BEFORE) : verdict.start()])[-1]
    behind = text[verdict.end() : verdict.end() + 40]
    return bool(_NEGATED.search(before) or _TAKEN_BACK.match(behind))
