"""The replies of a judge: the forms that they are held to, and how they are read.

What can't be read is None: it is counted and never taken for a verdict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ragweave.nodes.gbnf import literal
from ragweave.nodes.replies import bare_text
from ragweave.nodes.step_grammars import Written

_MOST = 12
"""Statements of an answer that are checked."""
_BULLET = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.):])\s*")
_NUMBERED = re.compile(r"^\W*(?:statement\s*)?(\d{1,2})\b\W*(.*)$", re.I | re.M)
_SAID = r"(?P<no>no|not supported|unsupported)|yes|supported"
_FIRST = re.compile(rf"(?:\d+\W+)?(?:{_SAID})\b", re.I)
_LAST = re.compile(rf"\b(?:{_SAID})\W*$", re.I)
_WORD = re.compile(r"\b(?:yes|no)\b", re.I)
_RATING = re.compile(r"(?<![\d.])([1-5])(?:\.0)?(?:\s*(?:/|out of)\s*5)?(?![\d.]*\d)")
_GRADE = re.compile(
    r"\b(?P<none>not[ _-]attempted)\b"
    r"|(?P<denied>(?:\b(?:not|cannot|never|nothing)|n['’]t)\s+(?:\w+\s+){0,2}(?:incorrect|wrong)\b)"
    r"|(?P<wrong>\b(?:incorrect|wrong)\b"
    r"|(?:\b(?:not|cannot|never|far\s+from)|n['’]t)\s+(?!only\b)(?:\w+\s+){0,2}correct\b)"
    r"|\b(?P<right>correct)\b(?!\s+(?:answers?|one)\b\W*\w)",
    re.I,
)
_RIGHT = re.compile(r"\bcorrect\b", re.I)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_TAKEN_BACK = re.compile(
    r"\b(?:not|cannot|never|only|if|whether|part\w*|mostly|largely|almost|nearly|hardly|barely|"
    r"somewhat|half|might|may|could|should)\b|n['’]t",
    re.I,
)
"""What stands before "correct" in its sentence, where that is no plain verdict."""
_LIMITED = re.compile(
    r"\W*(?:in part|only|except|(?:but|though|although) (?:incomplete|partial\w*|not))\b", re.I
)
_LOOKED_AT = 400
"""Characters of a reply in which a grade or rating is looked for."""

STATEMENT_FORM = Written(
    f"root ::= line ({literal(chr(10))} line){{0,{_MOST - 1}}}\n"
    f"line ::= {literal('- ')} [^\\n-] [^\\n]{{3,240}}"
)
"""Statements, a line each. The break stands between lines: a small model that must write one behind
its last line goes on and repeats itself."""


@dataclass(frozen=True)
class YesOrNoEach:
    """Yes or No for each number from 1 to `count`, a line each."""

    count: int

    @property
    def grammar(self) -> str:
        """The GBNF grammar of the reply."""
        lines = (f"{literal(f'{number}: ')} said" for number in range(1, self.count + 1))
        return f"root ::= {f' {literal(chr(10))} '.join(lines)}\nsaid ::= {_YES_NO}"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the value."""
        return {"type": "array", "items": {"type": "string", "enum": ["Yes", "No"]}}

    def text(self, value: Any) -> str:
        """Return a line for each."""
        listed = value if isinstance(value, list) else [value]
        return "\n".join(f"{number}: {said}" for number, said in enumerate(listed, start=1))


_YES_NO = f"{literal('Yes')} | {literal('No')}"


def parse_statements(reply: str) -> list[str]:
    """Return the statements of a reply, one a line, in order, without bullets and repeats."""
    lines = (_BULLET.sub("", line).strip() for line in bare_text(reply).splitlines())
    found = dict.fromkeys(line for line in lines if len(line) > 3 and not line.endswith(":"))
    return list(found)[:_MOST]


def parse_verdicts(reply: str, count: int) -> list[bool] | None:
    """Return whether each of `count` statements is supported; None unless each has one verdict.

    Lines with numbers are read by their numbers, from the word behind the number, else from the
    line's last word; lines for statements that do not exist are passed over. Of a reply without
    numbers, the words Yes and No count in order, where there are as many.
    """
    text = bare_text(reply)
    by_number: dict[int, bool] = {}
    for number, rest in _NUMBERED.findall(text):
        said = _FIRST.match(rest) or _LAST.search(rest)
        verdict = said is not None and said["no"] is None
        if said is None or int(number) > count:
            continue
        if by_number.setdefault(int(number), verdict) != verdict:
            return None
    if by_number:
        wanted = range(1, count + 1)
        return [by_number[one] for one in wanted] if by_number.keys() == set(wanted) else None
    words = [word.lower() == "yes" for word in _WORD.findall(text)]
    return words if len(words) == count else None


def parse_rating(reply: str) -> int | None:
    """Return the rating from 1 to 5 that a reply gives; None where it gives none, or several."""
    found = set(_RATING.findall(bare_text(reply)[:_LOOKED_AT]))
    return int(found.pop()) if len(found) == 1 else None


def parse_correctness(reply: str) -> str | None:
    """Return the grade: `correct`, `incorrect` or `not attempted`; None where it can't be read.

    "Correct" counts where a sentence says it plainly ("Correct", "Grade: Correct", "The answer is
    correct."), and nothing takes it back: of "partially correct" nobody knows what is meant.
    """
    said = bare_text(reply)[:_LOOKED_AT]
    found = {match.lastgroup for match in _GRADE.finditer(said)}
    if found == {"right"}:
        return "correct" if _plainly_correct(said) else None
    if len(found) != 1:
        return None
    return {"none": "not attempted", "wrong": "incorrect"}.get(found.pop() or "")


def _plainly_correct(said: str) -> bool:
    """Tell whether a sentence says "correct" without a qualification before it, or right behind."""
    for sentence in _SENTENCE.split(said):
        found = _RIGHT.search(sentence)
        if found is None or sentence.rstrip().endswith("?"):
            continue
        if not _TAKEN_BACK.search(sentence[: found.start()]):
            return not _LIMITED.match(sentence, found.end())
    return False
