"""Reading SuRe's replies: candidates, validity and preference; and what they add up to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from ragweave.nodes.negation import ENDS_CLAUSE, NEGATES_NOTHING, SENTENCE, is_negated
from ragweave.nodes.replies import bare_text, read_answer
from ragweave.state import AnswerType
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.reply import NO_PARTS, PromptParts
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_BEGINS = r"(?:^[ \t>*_]*(?:[-•*][ \t]+)?[*_]{0,2}|(?<![^\s,;])[*_]{0,2})"
_LINE = r"^[ \t>*_]*(?:[-•*][ \t]+)?[*_]{0,2}"
_ENDS = r"[*_]{0,2}:?[*_]{0,2}\s*"
MOST_CANDIDATES = 26
"""Candidates that have a letter."""
_USUAL = 8
"""Candidates whose letters are read however few were asked for."""


@cache
def _marks_to(last: str) -> tuple[re.Pattern[str], ...]:
    """Return the marks of candidates by kind, letters up to `last`: Candidate 1, (a), 1.

    Of letters no further than were asked for: "(s)" may stand in an answer.
    """
    letter = f"[A-{last.upper()}a-{last}]"
    return (
        re.compile(
            rf"{_BEGINS}(?:candidate|answer|option)(?: answer)?"
            rf" \(?(?P<sign>\d{{1,2}}|{letter})[):.]{_ENDS}",
            re.IGNORECASE | re.MULTILINE,
        ),
        re.compile(
            rf"{_BEGINS}(?:\((?P<round>{letter})\)(?![,;)])|(?P<half>{letter})\)(?=[\s*_:])){_ENDS}"
            rf"|{_LINE}(?:\[(?P<square>{letter})\]|(?P<dotted>{letter})\.(?=\s)){_ENDS}",
            re.MULTILINE,
        ),
        re.compile(
            rf"{_BEGINS}(?:\(?(?P<sign>\d{{1,2}})\)|(?P<dotted>\d{{1,2}})\.(?=\s)){_ENDS}",
            re.MULTILINE,
        ),
    )


_INITIAL = re.compile(r"[A-Z]\.")
_BULLET = re.compile(r"^\s*[-•*]\s+")


def parse_candidates(
    reply: str, answer_type: AnswerType, most: int, parts: PromptParts = NO_PARTS
) -> list[str]:
    """Return the candidate answers of a reply, each once, in its order.

    They stand behind (a), (b), A., B., Candidate 1, Candidate 2 or 1., 2., marks of one kind;
    without such marks, a line each, but for a heading. What says Unknown or is an echo of the
    prompt is none.

    Args:
        reply: The model's reply, of any text.
        answer_type: The kind of answer asked for.
        most: How many were asked for; more are left out.
        parts: What the prompt said.
    """
    answers: dict[str, str] = {}
    for piece in _pieces(reply, most):
        answer = read_answer(piece, answer_type, parts).answer
        if answer != UNKNOWN:
            answers.setdefault(normalize_answer(answer) or answer, answer)
    return list(answers.values())[:most]


def knows_no_candidate(reply: str, most: int = _USUAL) -> bool:
    """Return whether a reply says Unknown, in one word or for each of `most` candidates."""
    pieces = _pieces(reply, most)
    return is_unknown(reply) or (bool(pieces) and all(map(is_unknown, pieces)))


def _pieces(reply: str, most: int) -> list[str]:
    """Return what stands behind each mark, or else on each line that announces nothing."""
    text = bare_text(reply)
    marks = _marks(text, most)
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    pieces = [text[mark.end() : end] for mark, end in zip(marks, ends, strict=False)]
    bare = (_BULLET.sub("", one).strip().rstrip(",;") for one in pieces or text.splitlines())
    return [one for one in bare if one and (pieces or not one.rstrip("*_ ").endswith(":"))]


def _marks(text: str, most: int) -> list[re.Match[str]]:
    """Return the marks of the kind that a text uses first.

    Within a line a mark is one of the first one's form, and the next one: the 12. of
    "(a) 12. May" is none. Letters in brackets may stand in any order.
    """
    last = chr(ord("a") + min(max(most, _USUAL), MOST_CANDIDATES) - 1)
    kinds = (_counted(list(kind.finditer(text))) for kind in _marks_to(last))
    found = [counted for counted in kinds if counted]
    return min(found, key=lambda marks: marks[0].start(), default=[])


def _counted(marks: list[re.Match[str]]) -> list[re.Match[str]]:
    counted: list[re.Match[str]] = []
    for mark in marks:
        follows = _number(mark) == (_number(counted[-1]) if counted else 0) + 1
        starts = mark.start() == 0 or mark.string[mark.start() - 1] == "\n"
        alike = not counted or _form(mark) == _form(counted[0])
        in_line = alike and (follows or (bool(counted) and mark.lastgroup == "round"))
        if in_line or (starts and (follows or not _is_letter(mark))):
            counted.append(mark)
    letters = bool(counted) and all(map(_is_letter, counted))
    initials = len(counted) == 1 or all(map(_before_initial, counted))
    return [] if letters and initials else counted


def _form(mark: re.Match[str]) -> tuple[str | None, bool]:
    return mark.lastgroup, _sign(mark).isupper()


def _number(mark: re.Match[str]) -> int:
    sign = _sign(mark).lower()
    return int(sign) if sign.isdigit() else ord(sign) - ord("a") + 1


def _sign(mark: re.Match[str]) -> str:
    return str(mark[mark.lastgroup or 0])


def _is_letter(mark: re.Match[str]) -> bool:
    """May a mark be the initial of a name: A. P. J. Abdul Kalam?"""
    return mark.lastgroup == "dotted" and not _sign(mark).isdigit()


def _before_initial(mark: re.Match[str]) -> bool:
    return _INITIAL.match(mark.string, mark.end()) is not None


_LABEL = re.compile(r"\b(?:(?P<yes>true)|(?P<no>false))\b" + ENDS_CLAUSE, re.IGNORECASE)
_NAMED = r"(?:final |correct )?(?:answer|verdict|judge?ment)"
_OF_PREDICTION = re.compile(
    rf"\W*(?:(?:(?:it|this)(?: is|['’]s)|(?:the|my) (?:{_NAMED}|prediction|statement|claim) is|it)"
    r"(?: (?:therefore|thus|hence|also|clearly))?)?\W*",
    re.IGNORECASE,
)
"""What may stand between a sentence's begin and a True or False that is the reply's verdict."""
_CONCLUDED = re.compile(
    r"\b(?:since|because|as)\b[^.;!?\n]*"
    rf"(?<!\bthat )(?<!\bwhether )(?<!\bif )\bthe {_NAMED} is\W*\Z",
    re.IGNORECASE,
)
"""A conclusion that no comma parts from its reason, whose negation is not its own."""
_EARLIER = re.compile(r".*[.;!?\n]|\W*\w+,", re.DOTALL)
"""The sentences before a word's own, or the Yes or No that opens it."""
_SENSE = re.compile(
    r"\b(?:(?P<no>false|no|incorrect|wrong|inaccurate|untrue|unsupported)"
    r"|true|yes|correct|support(?:s|ed|ing)|support(?= (?:the|this|that|it)\b)"
    r"|(?P<only_negated>support))\b",
    re.IGNORECASE,
)
_PASSAGE = re.compile(r"\b(?:passage|summary)[ #*_]{0,3}([12])\b|^\W{0,3}([12])\b", re.IGNORECASE)
_COMPARED_WITH = re.compile(
    r"\b(?:than|over|unlike|prefer\b[^.\n]{0,40}\bto|(?:compared|opposed) (?:to|with)|instead of)\W{1,3}"
    r"(?:(?:the|that of|those of|in) )?\Z",
    re.IGNORECASE,
)
_LACKS = re.compile(
    r"[*_ ]{0,4}(?:(?:(?:does|did)(?: not\b|n['’]t\b)|cannot\b)(?: \w+ly)? (?:mention|say|state|answer|address"
    r"|provide|give|name|discuss|include|specify|support|relate|tell|identify)\b"
    r"|only (?:mentions?|says?|states?|discusses|gives?|talks|describes)\b"
    r"|(?:lacks|omits|fails|says nothing|has no|gives no|contains no|mentions no)\b"
    r"|is (?:irrelevant|incorrect|wrong)\b)",
    re.IGNORECASE,
)
_REVERSES = re.compile(
    r"\b(?:worse|less|inferior|lower|weaker|fewer|poorer|vaguer|shorter|further|neither|nor|both|either"
    r"|also|too|so is|silent|(?:no|not|isn['’]t|cannot be|can['’]t be) (?:better|more|ranked|preferred))\b",
    re.IGNORECASE,
)
"""What makes the one that is compared the loser, or both alike."""
_LOOKED_AT = 400
"""Characters of a reply in which a verdict is looked for."""


def parse_validity(reply: str) -> bool | None:
    """Return whether a reply says True; None where it says neither, or repeats the choice.

    The first True or False decides that ends its clause, and that nothing negates; where it is
    said of another thing than the prediction, a verdict of an earlier sentence goes before it
    ("Supported. The opposite would be false."). Else the first word that means either decides,
    turned round by a negation before it ("does not show that the prediction is correct").
    """
    text = bare_text(reply)[:_LOOKED_AT]
    text = re.sub(r"\A\W*true ?(?:or|/) ?false\W+(?=\w)", "", text, flags=re.IGNORECASE)
    if re.search(r"\btrue ?(?:or|/) ?false\b", text, re.IGNORECASE):
        return None
    text = NEGATES_NOTHING.sub("", text)
    labels = [one for one in _LABEL.finditer(text) if _is_said(text, one.start())]
    verdict = next((one for one in labels if _is_verdict(text, one.start())), None)
    if verdict is None and labels:
        earlier = _EARLIER.match(text, 0, labels[0].start())
        sense = _sense(earlier[0]) if earlier else None
        if sense is not None:
            return sense
    label = verdict or next(iter(labels), None)
    return _sense(text) if label is None else label["yes"] is not None


def _is_said(text: str, start: int) -> bool:
    return not is_negated(text, start) or _CONCLUDED.search(text, 0, start) is not None


def _is_verdict(text: str, start: int) -> bool:
    """Is a True or False the reply's verdict, and no predicate of another thing?"""
    *_, sentence = SENTENCE.split(text[:start])
    return bool(_OF_PREDICTION.fullmatch(sentence) or _CONCLUDED.search(text, 0, start))


def _sense(text: str) -> bool | None:
    for word in _SENSE.finditer(text):
        negated = is_negated(text, word.start())
        if negated if word["only_negated"] else not (word["no"] and negated):
            return word["no"] is None and not negated
    return None


def parse_preference(reply: str) -> int | None:
    """Return 1 or 2, the passage that a reply prefers; None where it prefers none, or both.

    Where it names both, the one counts that is neither compared with ("better than passage 2") nor
    said to lack something ("passage 1 does not mention it").
    """
    text = bare_text(reply)[:_LOOKED_AT]
    found = [*_PASSAGE.finditer(text)]
    named = {one[1] or one[2] for one in found}
    if len(named) > 1 and not _REVERSES.search(text):
        named -= {one[1] or one[2] for one in found if _loses(text, one)}
    return int(named.pop()) if len(named) == 1 else None


def _loses(text: str, passage: re.Match[str]) -> bool:
    if _COMPARED_WITH.search(text[: passage.start()]):
        return True
    return _LACKS.match(text, passage.end()) is not None


def scores(count: int, valid: Mapping[str, bool], preferred: Mapping[str, str]) -> list[float]:
    """Return `v + r` of each candidate (section 3.3): its validity, and the pairs that it wins.

    A pair is asked in both orders: its point goes to the one that both prefer, else half to each.
    """
    total = [float(valid.get(str(number), False)) for number in range(count)]
    for pair, won in preferred.items():
        for number in map(int, pair.split(":")):
            total[number] += 0.25 if won == "" else 0.5 * (won == str(number))
    return total
