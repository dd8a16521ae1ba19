"""Reading SuRe's replies: candidates, validity and preference; and what they add up to."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragweave.nodes.negation import NEGATES_NOTHING, is_negated
from ragweave.nodes.replies import bare_text, read_answer
from ragweave.state import AnswerType
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.reply import NO_PARTS, PromptParts
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_BEGINS = r"(?:^[ \t>*_]*(?:[-•*][ \t]+)?[*_]{0,2}|(?<![^\s,;])[*_]{0,2})"
_LINE = r"^[ \t>*_]*(?:[-•*][ \t]+)?[*_]{0,2}"
_ENDS = r"[*_]{0,2}:?[*_]{0,2}\s*"
_MARKS = (
    re.compile(
        rf"{_BEGINS}(?:candidate|answer|option)(?: answer)? \(?(?P<sign>\d{{1,2}}|[a-h])[):.]{_ENDS}",
        re.IGNORECASE | re.MULTILINE,
    ),
    re.compile(
        rf"{_BEGINS}(?:\((?P<sign>[A-Ha-h])\)|(?P<low>[a-h])\))(?=[\s*_:]){_ENDS}"
        rf"|{_LINE}(?:\[(?P<square>[A-Ha-h])\]|(?P<big>[A-H])\)|(?P<dotted>[A-Ha-h])\.(?=\s)){_ENDS}",
        re.MULTILINE,
    ),
    re.compile(
        rf"{_BEGINS}(?:\(?(?P<sign>\d{{1,2}})\)|(?P<dotted>\d{{1,2}})\.(?=\s)){_ENDS}",
        re.MULTILINE,
    ),
)
"""The marks of candidates by kind: Candidate 1, (a), 1."""
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
    for piece in _pieces(reply):
        answer = read_answer(piece, answer_type, parts).answer
        if answer != UNKNOWN:
            answers.setdefault(normalize_answer(answer) or answer, answer)
    return list(answers.values())[:most]


def knows_no_candidate(reply: str) -> bool:
    """Return whether a reply says Unknown, in one word or for each candidate."""
    pieces = _pieces(reply)
    return is_unknown(reply) or (bool(pieces) and all(map(is_unknown, pieces)))


def _pieces(reply: str) -> list[str]:
    """Return what stands behind each mark, or else on each line that announces nothing."""
    text = bare_text(reply)
    marks = _marks(text)
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    pieces = [text[mark.end() : end] for mark, end in zip(marks, ends, strict=False)]
    bare = (_BULLET.sub("", one).strip().rstrip(",;") for one in pieces or text.splitlines())
    return [one for one in bare if one and (pieces or not one.rstrip("*_ ").endswith(":"))]


def _marks(text: str) -> list[re.Match[str]]:
    """Return the marks of the kind that a text uses first, as far as they count up.

    Within a line a mark counts only where it is the next one: the 12. of "(a) 12. May" is none.
    """
    found = [counted for kind in _MARKS if (counted := _counted(list(kind.finditer(text))))]
    return min(found, key=lambda marks: marks[0].start(), default=[])


def _counted(marks: list[re.Match[str]]) -> list[re.Match[str]]:
    counted: list[re.Match[str]] = []
    for mark in marks:
        follows = _number(mark) == (_number(counted[-1]) if counted else 0) + 1
        starts = mark.start() == 0 or mark.string[mark.start() - 1] == "\n"
        if follows or (starts and not _is_initial(mark)):
            counted.append(mark)
    lone_initial = len(counted) == 1 and _is_initial(counted[0])
    return [] if lone_initial else counted


def _number(mark: re.Match[str]) -> int:
    sign = next(one for one in mark.groups() if one).lower()
    return int(sign) if sign.isdigit() else ord(sign) - ord("a") + 1


def _is_initial(mark: re.Match[str]) -> bool:
    """May a mark be the initial of a name: A. P. J. Abdul Kalam?"""
    dotted = mark.groupdict().get("dotted")
    return bool(dotted) and not str(dotted).isdigit()


_LABEL = re.compile(r"\b(?:(?P<yes>true)|(?P<no>false))\b", re.IGNORECASE)
_SENSE = re.compile(
    r"\b(?:(?P<no>false|no|incorrect|wrong|inaccurate|untrue|unsupported)"
    r"|true|yes|correct|support(?:s|ed|ing)|support(?= (?:the|this|that|it)\b)"
    r"|(?P<only_negated>support))\b",
    re.IGNORECASE,
)
_PASSAGE = re.compile(r"\b(?:passage|summary)[ #*_]{0,3}([12])\b|^\W{0,3}([12])\b", re.IGNORECASE)
_LOOKED_AT = 400
"""Characters of a reply in which a verdict is looked for."""


def parse_validity(reply: str) -> bool | None:
    """Return whether a reply says True; None where it says neither, or repeats the choice.

    The first True or False that nothing negates decides; else the first word that means either,
    turned round by a negation before it ("does not show that the prediction is correct").
    """
    text = bare_text(reply)[:_LOOKED_AT]
    if re.search(r"\btrue (?:or|/) false\b", text, re.IGNORECASE):
        return None
    text = NEGATES_NOTHING.sub("", text)
    for label in _LABEL.finditer(text):
        if not is_negated(text, label.start()):
            return label["yes"] is not None
    for word in _SENSE.finditer(text):
        negated = is_negated(text, word.start())
        if negated if word["only_negated"] else not (word["no"] and negated):
            return word["no"] is None and not negated
    return None


def parse_preference(reply: str) -> int | None:
    """Return 1 or 2, the passage that a reply names; None where it names none, or both."""
    named = {one or two for one, two in _PASSAGE.findall(bare_text(reply)[:_LOOKED_AT])}
    return int(named.pop()) if len(named) == 1 else None


def scores(count: int, valid: Mapping[str, bool], preferred: Mapping[str, str]) -> list[float]:
    """Return `v + r` of each candidate (section 3.3): its validity, and the pairs that it wins.

    A pair is asked in both orders: its point goes to the one that both prefer, else half to each.
    """
    total = [float(valid.get(str(number), False)) for number in range(count)]
    for pair, won in preferred.items():
        for number in map(int, pair.split(":")):
            total[number] += 0.25 if won == "" else 0.5 * (won == str(number))
    return total
