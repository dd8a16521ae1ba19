"""Reading an answer off a model's reply: forgiving in form, inventing nothing."""

from __future__ import annotations

import re

from ragweave.state import AnswerType
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^\s*```[^\n`]*$", re.MULTILINE)
_MARKER = re.compile(
    r"(?:\bso,? (?:the )?(?:final )?answer is|\bthe (?:final )?answer is|\bfinal answer)\s*:?"
    r"|^[\s>*#_]*(?:short )?answer\s*[*_]*\s*:",
    re.IGNORECASE | re.MULTILINE,
)
_YES_NO = re.compile(r"(?i)^\W*(yes|no|true|false)\b")
_WRAPPING = " \t\n*_`\"'“”‘’"


def parse_answer(reply: str, answer_type: AnswerType) -> str:
    """Return the answer that `reply` gives, or the literal `Unknown`.

    A reply with reasoning is read behind its last "So the answer is …" or "Answer:"; without
    such a mark a short answer is the first line that says anything, a long one the whole reply.
    Code fences, emphasis, quotes and a thinking block are dropped. A yes/no reply that is
    neither counts as unknown.
    """
    text = bare_text(reply)
    if answer_type == "long":
        return UNKNOWN if is_unknown(text) else text
    marked = _behind_marker(text)
    answer = _first_line(text if marked is None else marked)
    if is_unknown(answer) or (marked is None and is_unknown(text)):
        return UNKNOWN
    return _yes_or_no(answer) if answer_type == "yes_no" else answer


def bare_text(reply: str) -> str:
    """Return `reply` without a thinking block and code fences."""
    return _FENCE.sub("", _THOUGHT.sub("", reply)).strip()


def _behind_marker(text: str) -> str | None:
    ends = [match.end() for match in _MARKER.finditer(text)]
    for end in reversed(ends):
        if text[end:].strip(_WRAPPING + ".:"):
            return text[end:]
    return None


def _first_line(text: str) -> str:
    for line in text.splitlines():
        bare = line.strip(_WRAPPING)
        if bare.strip(".:-—"):
            return _without_full_stop(bare).strip(_WRAPPING)
    return ""


def _without_full_stop(line: str) -> str:
    inner = line[:-1]
    if line.endswith(".") and not re.search(r"(?:^|[\s.])\w$", inner):
        return inner
    return line


def _yes_or_no(answer: str) -> str:
    match = _YES_NO.match(answer)
    if match is None:
        return UNKNOWN
    return "Yes" if match.group(1).lower() in ("yes", "true") else "No"
