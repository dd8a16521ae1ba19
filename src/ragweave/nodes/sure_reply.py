"""Reading SuRe's replies: candidates, validity and preference; and what they add up to."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragweave.nodes.replies import bare_text, read_answer
from ragweave.state import AnswerType
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.reply import NO_PARTS, PromptParts
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_MARKED = re.compile(
    r"(?<![^\s,;])[*_]{0,2}(?:\(?[a-h]\)|\(?\d{1,2}\)|\d{1,2}\.(?=\s))[*_]{0,2}:?\s*"
)
_BULLET = re.compile(r"^\s*[-•*]\s+")


def parse_candidates(
    reply: str, answer_type: AnswerType, most: int, parts: PromptParts = NO_PARTS
) -> list[str]:
    """Return the candidate answers of a reply, each once, in its order.

    They stand behind (a), (b) or 1., 2.; without such marks, a line each. What says Unknown or is
    an echo of the prompt is none.

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
    return is_unknown(reply) or all(map(is_unknown, _pieces(reply)))


def _pieces(reply: str) -> list[str]:
    """Return what stands behind each mark, or else on each line."""
    text = bare_text(reply)
    marks = list(_MARKED.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    pieces = [text[mark.end() : end] for mark, end in zip(marks, ends, strict=False)]
    bare = (_BULLET.sub("", one).strip().rstrip(",;") for one in pieces or text.splitlines())
    return [one for one in bare if one]


_TRUTH = re.compile(
    r"\b(?:(?P<no>false|no|incorrect|(?:not|n't)\b[^.\n]{0,20}\b(?:support|true)\w*)"
    r"|(?P<yes>true|yes|correct|supports|supported))\b",
    re.IGNORECASE,
)
_PASSAGE = re.compile(r"\b(?:passage|summary)[ #*_]{0,3}([12])\b|^\W{0,3}([12])\b", re.IGNORECASE)
_LOOKED_AT = 400
"""Characters of a reply in which a verdict is looked for."""


def parse_validity(reply: str) -> bool | None:
    """Return whether a reply says True; None where it says neither, or repeats the choice."""
    text = bare_text(reply)[:_LOOKED_AT]
    if re.search(r"\btrue (?:or|/) false\b", text, re.IGNORECASE):
        return None
    found = _TRUTH.search(text)
    return None if found is None else found.lastgroup == "yes"


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
