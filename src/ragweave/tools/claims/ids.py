"""Reading the ids that a knowledge filter's reply names (BlendFilter, sentence filters).

Ids are written with labels, as lists and as ranges; the numbers of a list's items are not ids.
Some replies name all ids, or all or none with exceptions. `parse_ids` lists the rules in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ragweave.tools.claims.values import reply_text
from ragweave.tools.text.normalize import normalize_answer

# White space is folded to single spaces first, and repetitions are possessive: no reply can make
# these patterns try many ways to read it.
_ID = r"[#(\[]?(?<!\w)[0-9]{1,4}(?!\w)[)\]]?"
_WORD = r"(?:knowledges?|passages?|documents?|docs?|sentences?|paragraphs?|contexts?|items?|ids?)"
LABEL = rf"\b{_WORD}\b(?: (?:ids?|no\.?|numbers?)(?!\w))? ?(?:[:=] ?)?"
JOIN = r"(?: ?(?:,(?: ?(?:and|&|or)(?!\w))?|;|and|&|or|\+|to|through|-|–|—) ?| )"
LIST = rf"(?<![\w.$/-])\[?{_ID}(?:{JOIN}(?:{LABEL})?{_ID})*+\]?(?![%/]|\.[0-9])"

_RANGE = re.compile(r"([0-9]{1,4})[)\]]? ?(?:-|–|—|to|through) ?[#(\[]?(?:[a-z]+ )?([0-9]{1,4})")
_NUMBER = re.compile(r"[0-9]{1,4}")
_JOINED_LABEL = re.compile(rf"\b({_WORD})(?=[0-9]{{1,4}}(?!\w))", re.IGNORECASE)
_LABELLED = rf"(?={LABEL}[#(\[]?[0-9])"
_LIST_NUMBER = re.compile(
    # a number before a labelled id, as in "Item 1: knowledge 2"
    rf"(?:[-*•+] )?(?:item )?[#(\[]?[0-9]{{1,3}}(?:[)\].:]+| ?[-–—:])? {_LABELLED}"
    # a number before a bare id: only with its mark, as in "- 1) 3"
    r"|(?:[-*•+] )?\(?[0-9]{1,3}[).] (?=[#\[]?[0-9]{1,4}(?![\w)]))",
    re.IGNORECASE,
)
_INLINE_NUMBER = re.compile(
    rf"(?P<label>{LABEL})?(?<!\w)\(?(?P<number>[0-9]{{1,3}})[).:] {_LABELLED}", re.IGNORECASE
)


_ID_WITH_NOTE = re.compile(
    r"(?<![\w.])([0-9]{1,4}) ?[(\[](?=[^()\[\]]{0,200}[^\W\d_])([^()\[\]]{1,200})[)\]]"
    r"(?= ?(?:[,;.&]|and\b|\Z))"
)
_STARTS_WITH_ID = re.compile(rf"(?:[-*•+] )?(?:{LABEL})?[#(\[]?[0-9]", re.IGNORECASE)
_CONCLUDES_WITH_ID = re.compile(
    r"\b(?:relevant|helpful|useful|kept|keep|remaining|output)\b[^.\n0-9:;]{0,60}?(?:\b(?:is|are)\b|:)"
    rf" ?(?:only )?(?:{LABEL})?[#(\[]?[0-9]",
    re.IGNORECASE,
)
_RELEVANCE_WORD = re.compile(r"relevant|related|helpful|useful|\b(?:not|no|yes)\b", re.IGNORECASE)
_MAX_RANGE = 1000
"""Most ids of one range."""


def id_lines(plain: str) -> list[str]:
    """Return a reply's lines without markup, white space folded, list numbers removed."""
    bare = plain.replace("**", "").replace("`", "").replace("_", " ")
    lines = (" ".join(line.split()).strip(" #>\"'") for line in bare.splitlines())
    return [
        _without_list_numbers(_JOINED_LABEL.sub(r"\1 ", _without_notes(line))) for line in lines
    ]


def expand(listed: str) -> Iterator[int]:
    """Yield the numbers of a list, ranges filled in."""
    for first, last in _RANGE.findall(listed.lower()):
        yield from range(int(first), min(int(last), int(first) + _MAX_RANGE) + 1)
    yield from map(int, _NUMBER.findall(listed))


def in_range(numbers: Iterable[int], count: int, first: int = 0) -> list[int]:
    """Return the positions below `count` of numbers that run from `first`, once each, ascending."""
    return sorted({one - first for one in numbers if 0 <= one - first < count})


def counted(numbers: Iterable[int], count: int, first: int = 0) -> list[int]:
    """Return the positions that a list names.

    One that names `count` and no 0 counts from 1, as small models do; and one that names 0, and
    not `count`, counts from 0, whatever the prompt does.
    """
    named = set(numbers)
    ends = (0 in named) - (count in named)
    return in_range(named, count, first if not ends else int(ends < 0))


def _without_notes(line: str) -> str:
    """Remove the text after each id of a list: "0 (its title), 2 (its title)"."""
    concludes = _CONCLUDES_WITH_ID.search(line) and not _negates(line)
    if not (_STARTS_WITH_ID.match(line) or concludes):
        return line
    return _ID_WITH_NOTE.sub(
        lambda one: one.group() if _RELEVANCE_WORD.search(one[2]) else one[1], line
    )


def _without_list_numbers(line: str) -> str:
    """Remove the number that a list gives its item, and those of a list inside the line.

    Inside a line only numbers that count up from 0 or 1, each before a labelled id, are a list's.
    """
    numbers = [int(one["number"]) for one in _INLINE_NUMBER.finditer(line) if not one["label"]]
    if numbers and numbers[0] in (0, 1) and numbers == [*range(numbers[0], numbers[-1] + 1)]:
        line = _INLINE_NUMBER.sub(lambda one: one.group() if one["label"] else "", line)
    return _LIST_NUMBER.sub("", line, count=1) if _LIST_NUMBER.match(line) else line


_RELEVANT = r"(?:relevant|related|helpful|useful|needed)"
_KINDS = r"knowledge|passage|document|sentence|paragraph|context|item|id"
_EXCEPT = r",? ?\b(?:except|excepting|but|besides|apart from|other than|with the exception of)\b"
_EXCEPTION = re.compile(
    rf"(?:\b(?P<all>all|every|each)|\b(?:no|none|nothing|neither))\b(?P<between>[\w ]{{0,60}}?){_EXCEPT}"
    rf"(?: for)? (?:the )?(?:{LABEL})?(?P<ids>{LIST})(?! (?:of|{_KINDS})s?\b)(?P<behind>[^.;]{{0,60}})",
    re.IGNORECASE,
)
_RELEVANCE = re.compile(
    rf"\b(?:(?:ir|un)?{_RELEVANT}|unhelpful|useless|(?:{_KINDS})s?)\b", re.IGNORECASE
)
_IRRELEVANT = re.compile(
    rf"\b(?:irrelevant|unrelated|unhelpful|useless|(?:not|n['’]t) {_RELEVANT})\b", re.IGNORECASE
)
_NOT_ALL = re.compile(r"\b(?:not|if|whether|hardly|nearly|almost|unless)\b|n['’]t\b", re.IGNORECASE)
_OF_THE_ITEMS = (
    rf"(?: of)?(?: (?:the|these|those))?(?: (?:them|above|[0-9]{{1,3}}))?(?: (?:{_KINDS})s?)?"
)
_ONLY_ALL = re.compile(
    rf"\W*(?:(?:[\w ]{{0,30}}\b)?(?:answer|{_RELEVANT}|kept|keep|output|ids)(?: (?:ones|{_KINDS})s?)?"
    rf"(?: ids?)?\W+(?:(?:is|are)\W+)?)?(?:all|everything|every one){_OF_THE_ITEMS}\W*",
    re.IGNORECASE,
)
_ALL_RELEVANT = re.compile(
    rf"\b(?:all{_OF_THE_ITEMS}|everything|(?:every|each)(?: one)?(?: of)?(?: (?:the|these))?"
    rf"(?: (?:{_KINDS})s?| them)?) (?:is|are|seems?|looks?)(?: \w+ly)? {_RELEVANT}\b"
    rf"|\b(?:they|these|(?:{_KINDS})s?) (?:are|seem|look) all {_RELEVANT}\b",
    re.IGNORECASE,
)


def from_exception(lines: list[str], count: int, first: int = 0) -> list[int]:
    """Return the numbers of the last "none except 2 is relevant" or "all but 2 are relevant"."""
    for line in reversed(lines):
        for found in reversed([*_EXCEPTION.finditer(line)]):
            sure = _RELEVANCE.search(found.group()) or found.group() == line.rstrip(".")
            if not sure or _NOT_ALL.search(line[: found.start()]):
                continue
            named = in_range(expand(found["ids"]), count, first)
            bad = bool(_IRRELEVANT.search(found["between"]) or _IRRELEVANT.search(found["behind"]))
            if named and bool(found["all"]) == bad:
                return [one + first for one in named]
            if named:
                return [one + first for one in range(count) if one not in named]
    return []


def says_all(lines: list[str]) -> bool:
    """Return whether a reply calls everything relevant, without a word against it."""
    if len([line for line in lines if line]) == 1 and any(map(_ONLY_ALL.fullmatch, lines)):
        return True
    return any(
        not _NOT_ALL.search(line[: found.start()])
        for line in lines
        for found in _ALL_RELEVANT.finditer(line)
    )


_ONLY_IDS = re.compile(rf"(?:{LABEL})?({LIST})\.?", re.IGNORECASE)
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
_OPENS_WITH_NONE = re.compile(r"\A\W*(?:none|nothing)(?:\.|!|;|:?[ \t]*(?:\n|\Z))", re.IGNORECASE)
_CALLS_RELEVANT = re.compile(
    r"\b(?:is|are|seems?)(?: \w+ly)? (?:relevant|related|helpful|useful)\b"
    r"|\b(?:answers|helps|keep)\b|\bis the answer\b|:\W*(?:relevant|yes)\b"
    r"|[.!?;\n]\W*(?:but|however|actually|except|only|though)\b",
    re.IGNORECASE,
)
"""What takes an opening "None" back."""
_BULLET = re.compile(r"\A\s*(?:[-*•+]|[0-9]{1,3}[.)](?=\s+\S))\s+")
_MAX_CHARACTERS = 6000
_COPIED_LABEL = re.compile(
    r"(?:[-*•+] )?\**(?:knowledge|passage|sentence|document) ([0-9]{1,3})\** ?[:|-] ?",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"\s*(?:[-*•+]|[0-9]{1,3}[.)])\s+")


class _Mention(NamedTuple):
    """Ids after a word such as `knowledge`, and whether they are called relevant."""

    ids: list[int]
    relevant: bool | None


def parse_ids(
    text: str, count: int, titles: Sequence[str] = (), *, first: int = 0
) -> list[int] | None:
    """Return the positions, from 0, of the ids that a reply calls relevant, ascending.

    A number is an id only where its place says so; the first of these rules that finds an id in
    range decides:

    1. The last conclusion: "the relevant ones are 0 and 2", "Kept: 0", "Answer: [0, 2]", "0 and
       2 are relevant"; not "the answer is 3", which may answer the question itself.
    2. All or none but for some: "none except 2 is relevant", "all but 2 are relevant".
    3. The last run of lines that hold nothing but ids, joined by commas, "and", or ranges
       ("0-2"), with or without a label ("knowledge 3").
    4. Lists in square brackets.
    5. Ids behind `knowledge`, `passage`, `sentence`, `document`, `id`, …, unless that sentence
       (or the heading above it) says irrelevant, not, none, removed, …. A reply that opens with
       "None." names none, whatever it goes on to say of them, unless it takes that back ("But …",
       "2 is relevant").

    6. Titles in the place of ids, where every line names exactly one passage's title.
    7. "All of them are relevant", "all": every id.

    A list (rules 1, 3 and 4) that names the number `count` and not 0 counts from 1, and one that
    names 0 and not `count` from 0. So years, counts, the numbers of a list's items ("1) knowledge
    2") and other numbers inside prose are never ids. Ids out of range are ignored.

    Args:
        text: The reply, of any length (6,000 characters at its end are read) and shape.
        count: How many ids there are.
        first: The id of the first, as the prompt numbers them: 0 or 1.
        titles: The title that stands beside each id.

    Returns:
        The positions, each in `range(count)`; [] where the reply says that none is relevant; None
        where nothing can be read.
    """
    said = reply_text(text)[-_MAX_CHARACTERS:]
    if ids := _from_copied_lines(said, titles, first):
        return ids
    plain = said.replace("**", "").replace("`", "").replace("_", " ")
    lines = id_lines(plain)
    for found in (
        _from_conclusion(lines),
        from_exception(lines, count, first),
        _from_id_lines(lines),
        _from_brackets(lines),
    ):
        if ids := counted(found, count, first):
            return ids
    mentions = [] if _rules_out(plain) else _mentions(lines)
    kept = (i for m in mentions if m.relevant is not False for i in m.ids)
    if ids := in_range(kept, count, first):
        return ids
    dropped = in_range((i for m in mentions for i in m.ids), count, first)
    if dropped:
        return [] if len(dropped) == count else None
    if named := _from_titles(said, titles):
        return named
    nothing, everything = bool(_NONE.search(plain)), says_all(lines)
    if nothing == everything:
        return None
    return [] if nothing else list(range(count))


def _rules_out(plain: str) -> bool:
    """Return whether a reply opens with "None." and calls nothing relevant behind it."""
    return bool(_OPENS_WITH_NONE.match(plain)) and not _CALLS_RELEVANT.search(plain)


def _from_copied_lines(said: str, titles: Sequence[str], first: int) -> list[int]:
    """Return the ids of a reply that copies the numbered lines, each with its own title.

    A line that says No to its title ("Knowledge 0: Cedar Bridge - not relevant") names none; what
    stands behind "|" is the passage's.
    """
    found: set[int] = set()
    for line in filter(None, map(str.strip, said.splitlines())):
        copied = _COPIED_LABEL.match(line)
        number = int(copied[1]) - first if copied else len(titles)
        if copied is None or not 0 <= number < len(titles) or not titles[number]:
            return []
        title, rest = normalize_answer(titles[number]), line[copied.end() :]
        if not f"{normalize_answer(rest)} ".startswith(f"{title} "):
            return []
        if _denials(rest.partition("|")[0]) > _denials(titles[number]):
            continue
        found.add(number)
    return sorted(found)


def _from_titles(said: str, titles: Sequence[str]) -> list[int]:
    """Return the ids of the titles that a reply names, one a line or a comma; [] for any other."""
    places: dict[str, list[int]] = {}
    for index, title in enumerate(titles):
        places.setdefault(normalize_answer(title), []).append(index)
    found: set[int] = set()
    for line in filter(None, map(str.strip, said.splitlines())):
        names = [
            normalize_answer(_LIST_MARK.sub("", one, count=1)) for one in (line, *line.split(","))
        ]
        taken = [names[0]] if names[0] in places else names[1:]
        if line.endswith(":") and names[0] not in places:
            continue
        if any(len(places.get(one, ())) != 1 or not one for one in taken):
            return []
        found.update(places[one][0] for one in taken)
    return sorted(found)


def _from_conclusion(lines: list[str]) -> list[int]:
    """Return the ids of the last line that draws a conclusion."""
    for line in reversed(lines):
        subject = _SUBJECT.match(line)
        found = [*([subject] if subject else ()), *_CONCLUSION.finditer(line)]
        kept = [one for one in found if not _is_negated(line, one)]
        if kept:
            return list(expand(kept[-1][1]))
    return []


def _negates(text: str) -> bool:
    """Return whether `text` has a word that negates relevance."""
    return _denials(text) > 0


def _denials(text: str) -> int:
    """Return how many words of `text` negate relevance."""
    return sum(bool(match["no"]) for match in _POLARITY.finditer(text))


def _is_negated(line: str, found: re.Match[str]) -> bool:
    """Return whether the words around a conclusion's ids negate it ("irrelevant ones are 3")."""
    before = re.split(r"[,;.]\s", line[: found.start(1)])[-1]
    behind = re.split(r"[.;]\s", line[found.end(1) :], maxsplit=1)[0]
    return _negates(before) or _negates(behind[:20])


def _from_id_lines(lines: list[str]) -> list[int]:
    """Return the ids of the last run of lines that hold nothing else."""
    ids: list[int] = []
    heading = ""
    run = False
    for line in lines:
        bare = _ONLY_IDS.fullmatch(line) or _ONLY_IDS.fullmatch(_BULLET.sub("", line))
        if bare and not _negates(heading):
            ids = [*(ids if run else ()), *expand(bare[1])]
        run = bare is not None or (run and not line)
        if line and not bare:
            heading = line if line.endswith(":") else ""
    return ids


def _from_brackets(lines: list[str]) -> list[int]:
    """Return the ids of all lists in square brackets, unless their line says no."""
    return [
        one
        for line in lines
        if not _negates(line)
        for found in _BRACKETS.findall(line)
        for one in expand(found)
    ]


def _mentions(lines: list[str]) -> list[_Mention]:
    """Return the labelled ids of all sentences, with what is said of them."""
    mentions: list[_Mention] = []
    heading: bool | None = None
    for line in lines:
        here = [
            m
            for part in re.split(r"(?<=[.;!?])\s|\bbut\b|\bexcept\b", line)
            for m in _sentence_mentions(part)
        ]
        if not here and line.endswith(":"):
            heading = False if _negates(line) else None
        mentions.extend(m._replace(relevant=heading) if m.relevant is None else m for m in here)
    return mentions


def _sentence_mentions(sentence: str) -> list[_Mention]:
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
