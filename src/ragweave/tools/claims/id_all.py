"""Replies that name all ids, or all or none of them but for some."""

from __future__ import annotations

import re

from ragweave.tools.claims.id_text import LABEL, LIST, expand, in_range

_GOOD = r"(?:relevant|related|helpful|useful|needed)"
_KINDS = r"knowledge|passage|document|sentence|paragraph|context|item|id"
_EXCEPT = r",? ?\b(?:except|excepting|but|besides|apart from|other than|with the exception of)\b"
_EXCEPTED = re.compile(
    rf"(?:\b(?P<all>all|every|each)|\b(?:no|none|nothing|neither))\b(?P<between>[\w ]{{0,60}}?){_EXCEPT}"
    rf"(?: for)? (?:the )?(?:{LABEL})?(?P<ids>{LIST})(?! (?:of|{_KINDS})s?\b)(?P<behind>[^.;]{{0,60}})",
    re.IGNORECASE,
)
_ABOUT_IDS = re.compile(
    rf"\b(?:(?:ir|un)?{_GOOD}|unhelpful|useless|(?:{_KINDS})s?)\b", re.IGNORECASE
)
_BAD = re.compile(
    rf"\b(?:irrelevant|unrelated|unhelpful|useless|(?:not|n['’]t) {_GOOD})\b", re.IGNORECASE
)
_NOT_ALL = re.compile(r"\b(?:not|if|whether|hardly|nearly|almost|unless)\b|n['’]t\b", re.IGNORECASE)
_WHAT = rf"(?: of)?(?: (?:the|these|those))?(?: (?:them|above|[0-9]{{1,3}}))?(?: (?:{_KINDS})s?)?"
_ALL_ALONE = re.compile(
    rf"\W*(?:(?:[\w ]{{0,30}}\b)?(?:answer|{_GOOD}|kept|keep|output|ids)(?: (?:ones|{_KINDS})s?)?"
    rf"(?: ids?)?\W+(?:(?:is|are)\W+)?)?(?:all|everything|every one){_WHAT}\W*",
    re.IGNORECASE,
)
_ALL_GOOD = re.compile(
    rf"\b(?:all{_WHAT}|everything|(?:every|each)(?: one)?(?: of)?(?: (?:the|these))?"
    rf"(?: (?:{_KINDS})s?| them)?) (?:is|are|seems?|looks?)(?: \w+ly)? {_GOOD}\b"
    rf"|\b(?:they|these|(?:{_KINDS})s?) (?:are|seem|look) all {_GOOD}\b",
    re.IGNORECASE,
)


def excepted(lines: list[str], count: int) -> list[int]:
    """Return the ids of the last "none except 2 is relevant" or "all but 2 are relevant"."""
    for line in reversed(lines):
        for found in reversed([*_EXCEPTED.finditer(line)]):
            sure = _ABOUT_IDS.search(found.group()) or found.group() == line.rstrip(".")
            if not sure or _NOT_ALL.search(line[: found.start()]):
                continue
            named = in_range(expand(found["ids"]), count)
            bad = bool(_BAD.search(found["between"]) or _BAD.search(found["behind"]))
            if named and bool(found["all"]) == bad:
                return named
            if named:
                return [one for one in range(count) if one not in named]
    return []


def says_all(lines: list[str]) -> bool:
    """Tell whether a reply calls everything relevant, without a word against it."""
    if len([line for line in lines if line]) == 1 and any(map(_ALL_ALONE.fullmatch, lines)):
        return True
    return any(
        not _NOT_ALL.search(line[: found.start()])
        for line in lines
        for found in _ALL_GOOD.finditer(line)
    )
