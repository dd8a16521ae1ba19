"""Reading the ids that a knowledge filter's reply names (BlendFilter, sentence filters)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ragweave.tools.claims.id_all import excepted, says_all
from ragweave.tools.claims.id_text import JOIN, LABEL, LIST, expand, id_lines, in_range
from ragweave.tools.claims.values import reply_text
from ragweave.tools.text.normalize import normalize_answer

_ALONE = re.compile(rf"(?:{LABEL})?({LIST})\.?", re.IGNORECASE)
_CONCLUSION = re.compile(
    r"(?:\b(?:relevant|helpful|useful|kept|keep|remaining|output)\b[^.\n0-9:;]{0,60}?"
    rf"(?:\b(?:is|are)\b|:)|\banswers?\s?:)\s*(?:only\s+)?(?:{LABEL})?({LIST})\s*(?:\.|$|\()",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    rf"(?:only\s+)?({LIST})\s+(?:is|are|seems?|looks?)\s+(?:\w+ly\s+)?(?:the\s+)?"
    r"(?:relevant|helpful|useful)",
    re.IGNORECASE,
)
_BRACKETS = re.compile(rf"\[ ?[0-9]{{1,4}}(?!\w)(?:{JOIN}[0-9]{{1,4}}(?!\w))*+ ?\]")
_MENTION = re.compile(rf"{LABEL}({LIST})", re.IGNORECASE)
_POLARITY = re.compile(
    r"(?P<no>\b(?:irrelevant|unrelated|not|none|neither|nor|no|removed?|removing|discard(?:ed)?"
    r"|excluded?|unhelpful|useless|cannot|without|lacks?)\b|n['’]t\b)"
    r"|\b(?:relevant|related|helpful|useful|supports?|mentions?|answers?|contains?|yes|keep|kept)\b",
    re.IGNORECASE,
)
_NONE = re.compile(
    r"\A\W*(?:none|nothing|empty|null|n/?a|no(?:\W|\Z)|-1\W*\Z|\[\s*\])"
    r"|\b(?:none of|no relevant|nothing (?:is )?relevant|no (?:such )?(?:knowledge|passage|sentence"
    r"|document|item)s? (?:is|are|seems?)|all (?:of )?(?:the|them|these)?[\w ]{0,20}irrelevant"
    r"|(?:all|they|these)[\w ]{0,30} not relevant|(?:output|answer|ids?|relevant)\W{1,4}none)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(r"\A\s*(?:[-*•+]|[0-9]{1,3}[.)](?=\s+\S))\s+")
_LIMIT = 6000
_COPIED = re.compile(
    r"(?:[-*•+] )?\**(?:knowledge|passage|sentence|document) ([0-9]{1,3})\** ?[:|-] ?",
    re.IGNORECASE,
)
_ITEM = re.compile(r"\s*(?:[-*•+]|[0-9]{1,3}[.)])\s+")


class _Mention(NamedTuple):
    """Ids that stand behind a word such as `knowledge`, and what is said of them."""

    ids: list[int]
    relevant: bool | None


def parse_ids(text: str, count: int, titles: Sequence[str] = ()) -> list[int] | None:
    """Return the ids that a reply calls relevant, ascending, each in `range(count)`.

    A number is an id only where its place says so; the first of these rules that finds an id in
    range decides:

    1. The last conclusion: "the relevant ones are 0 and 2", "Kept: 0", "Answer: [0, 2]", "0 and
       2 are relevant"; not "the answer is 3", which may answer the question itself.
    2. All or none but for some: "none except 2 is relevant", "all but 2 are relevant".
    3. The last run of lines that hold nothing but ids, joined by commas, "and", or ranges
       ("0-2"), with or without a label ("knowledge 3").
    4. Lists in square brackets.
    5. Ids behind `knowledge`, `passage`, `sentence`, `document`, `id`, …, unless that sentence
       (or the heading above it) says irrelevant, not, none, removed, ….

    6. Titles in the place of ids, where every line names exactly one passage's title.
    7. "All of them are relevant", "all": every id.

    So years, counts, the numbers of a list's items ("1) knowledge 2") and other numbers inside
    prose are never ids. Ids out of range are ignored.

    Args:
        text: The reply, of any length (6,000 characters at its end are read) and shape.
        count: How many ids there are; they run from 0.
        titles: The title that stands beside each id.

    Returns:
        The ids; [] where the reply says that none is relevant; None where nothing can be read.
    """
    said = reply_text(text)[-_LIMIT:]
    if ids := _copied(said, titles):
        return ids
    plain = said.replace("**", "").replace("`", "").replace("_", " ")
    lines = id_lines(plain)
    for found in (_concluded(lines), excepted(lines, count), _listed(lines), _bracketed(lines)):
        if ids := in_range(found, count):
            return ids
    mentions = _mentions(lines)
    if ids := in_range((i for m in mentions if m.relevant is not False for i in m.ids), count):
        return ids
    dropped = in_range((i for m in mentions for i in m.ids), count)
    if dropped:
        return [] if len(dropped) == count else None
    if named := _titled(said, titles):
        return named
    nothing, everything = bool(_NONE.search(plain)), says_all(lines)
    if nothing == everything:
        return None
    return [] if nothing else list(range(count))


def _copied(said: str, titles: Sequence[str]) -> list[int]:
    """Return the ids of a reply that copies the numbered lines, each with its own title."""
    found: set[int] = set()
    for line in filter(None, map(str.strip, said.splitlines())):
        copied = _COPIED.match(line)
        number = int(copied[1]) if copied else len(titles)
        if copied is None or number >= len(titles) or not titles[number]:
            return []
        title = normalize_answer(titles[number])
        if not f"{normalize_answer(line[copied.end() :])} ".startswith(f"{title} "):
            return []
        found.add(number)
    return sorted(found)


def _titled(said: str, titles: Sequence[str]) -> list[int]:
    """Return the ids of the titles that a reply names, one a line or a comma; [] for any other."""
    places: dict[str, list[int]] = {}
    for at, title in enumerate(titles):
        places.setdefault(normalize_answer(title), []).append(at)
    found: set[int] = set()
    for line in filter(None, map(str.strip, said.splitlines())):
        names = [normalize_answer(_ITEM.sub("", one, count=1)) for one in (line, *line.split(","))]
        taken = [names[0]] if names[0] in places else names[1:]
        if line.endswith(":") and names[0] not in places:
            continue
        if any(len(places.get(one, ())) != 1 or not one for one in taken):
            return []
        found.update(places[one][0] for one in taken)
    return sorted(found)


def _concluded(lines: list[str]) -> list[int]:
    """Return the ids of the last line that draws a conclusion."""
    for line in reversed(lines):
        subject = _SUBJECT.match(line)
        found = [*([subject] if subject else ()), *_CONCLUSION.finditer(line)]
        kept = [one for one in found if not _turned(line, one)]
        if kept:
            return list(expand(kept[-1][1]))
    return []


def _says_no(text: str) -> bool:
    """Does `text` hold a word that turns relevance round?"""
    return any(match["no"] for match in _POLARITY.finditer(text))


def _turned(line: str, found: re.Match[str]) -> bool:
    """Do words beside a conclusion's ids turn it round ("irrelevant ones are 3")?"""
    before = re.split(r"[,;.]\s", line[: found.start(1)])[-1]
    return _says_no(before) or _says_no(line[found.end(1) :][:20])


def _listed(lines: list[str]) -> list[int]:
    """Return the ids of the last run of lines that hold nothing else."""
    ids: list[int] = []
    heading = ""
    run = False
    for line in lines:
        bare = _ALONE.fullmatch(line) or _ALONE.fullmatch(_LEAD.sub("", line))
        if bare and not _says_no(heading):
            ids = [*(ids if run else ()), *expand(bare[1])]
        run = bare is not None or (run and not line)
        if line and not bare:
            heading = line if line.endswith(":") else ""
    return ids


def _bracketed(lines: list[str]) -> list[int]:
    """Return the ids of all lists in square brackets, unless their line says no."""
    return [
        one
        for line in lines
        if not _says_no(line)
        for found in _BRACKETS.findall(line)
        for one in expand(found)
    ]


def _mentions(lines: list[str]) -> list[_Mention]:
    """Return the labelled ids of all sentences, with what is said of them."""
    mentions: list[_Mention] = []
    heading: bool | None = None
    for line in lines:
        here = [
            m for part in re.split(r"(?<=[.;!?])\s|\bbut\b|\bexcept\b", line) for m in _said(part)
        ]
        if not here and line.endswith(":"):
            heading = False if _says_no(line) else None
        mentions.extend(m._replace(relevant=heading) if m.relevant is None else m for m in here)
    return mentions


def _said(sentence: str) -> list[_Mention]:
    """Return the mentions of one sentence.

    What is said behind a mention, up to the next one, holds for it; where nothing is said there,
    what is said of the next one, or else before the first.
    """
    found = list(_MENTION.finditer(sentence))
    if not found:
        return []
    before = _POLARITY.search(sentence[: found[0].start()])
    opening = None if before is None else not before["no"]
    ends = [match.start() for match in found[1:]] + [len(sentence)]
    verdicts: list[bool | None] = []
    for match, end in zip(found, ends, strict=True):
        word = _POLARITY.search(sentence[match.end() : end])
        verdicts.append(None if word is None else not word["no"])
    following: bool | None = None
    mentions: list[_Mention] = []
    for match, verdict in zip(reversed(found), reversed(verdicts), strict=True):
        following = verdict if verdict is not None else following
        said = opening if opening is False or following is None else following
        mentions.append(_Mention(list(expand(match[1])), said))
    return mentions[::-1]
