"""Reading a retrieval-necessity judge's reply (SlimPLM section 3.2)."""

from __future__ import annotations

import re

from ragweave.tools.claims.values import reply_text

_CHOICE = re.compile(r"\(?\s?\btrue\s{0,3}(?:[/|]|or)\s{0,3}false\b\s?\)?", re.IGNORECASE)
_VERDICT = re.compile(
    r"(?<![A-Za-z])known[\s:=(<\[{*_`\"']{0,12}(true|false|yes|no)(?![A-Za-z])", re.IGNORECASE
)
_CUT = re.compile(r"(?<![A-Za-z])known\s?\(\s?(t(?:ru?)?|f(?:a(?:ls?)?)?)\s*$", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:not|never|n't)\s+(?:\w+\s+)?$", re.IGNORECASE)
_BARE = re.compile(r"[\W_]*(true|false)[\W_]*", re.IGNORECASE)


def parse_judgement(text: str) -> bool | None:
    """Return what the judge says: True (known), False (not known), None where it can't be read.

    It takes `<Known(True)>` (released models), `Known (False)` (paper), the same with other
    brackets, quotes, markdown or prose around, JSON, a verdict that the reply's end cuts short,
    and the bare word. Verdicts that contradict each other are None, and so is an echo of
    "Known (True / False)".
    """
    plain = _CHOICE.sub(" ", reply_text(text))
    if bare := _BARE.fullmatch(plain):
        return bare[1].lower() == "true"
    found = {
        match[1].lower() in ("true", "yes")
        for match in _VERDICT.finditer(plain)
        if not _NEGATED.search(plain[max(0, match.start() - 30) : match.start()])
    }
    if not found and (cut := _CUT.search(plain)):
        return cut[1].lower().startswith("t")
    return found.pop() if len(found) == 1 else None
