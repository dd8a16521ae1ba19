"""Where a reply concludes: what stands behind its "So the answer is …" or "Answer:"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragweave.tools.text.markup import EMPHASIS, is_sign, without_backticks

_DRESS = rf"[ \t>*#_{EMPHASIS}]*"
_RUN = rf"[*_{EMPHASIS}]"
_THEREFORE = r"(?:so|thus|hence|therefore|and),? "
_KIND = r"(?:(?:final|correct|short) )?"
_THE_ANSWER = rf"(?:the|my) {_KIND}answer"
_SO_IT_IS = r"so,? (?:final )?answer is"
_TO_IT = (
    rf"(?: to (?:the|this|that|your) question(?:[^\n?]{{0,300}}\?[\"”'’*_{EMPHASIS}]{{0,4}},?"
    r"|[ :,]{0,2}[\"“][^\"”\n]{1,300}[\"”],?|[^\n]{0,300}?))?"
)
"""To the question, which may be told once more: its "is" is not the conclusion's."""
_ANSWER = rf"(?:(?:the|my) )?{_KIND}answer"
_LABEL = rf"(?:{_ANSWER}|antwort|respuesta|réponse|risposta|a|答案)"
_MARKER = re.compile(
    rf"(?:(?:^|(?<=[.!?:;,] )){_DRESS}|\b{_THEREFORE}){_THE_ANSWER}{_TO_IT} is\s*:?"
    rf"|\b{_SO_IT_IS}\s*:?|(?:^|(?<=[.!?:;,] )){_DRESS}final answer is\s*:?"
    r"|\b(?:la respuesta es|die antwort (?:ist|lautet)|la réponse est|la risposta è|答案是)\s*:?"
    rf"|(?:^|(?<=[.!?] )){_DRESS}{_LABEL}[ \t]*+{_RUN}*+[ \t]*+[:：]"
    rf"|\b(?:so|thus|hence|therefore),? {_ANSWER}[ \t]*:"
    rf"|(?<=[,;] ){_ANSWER}:|^{_DRESS}{_ANSWER}[ \t*_{EMPHASIS}]*$",
    re.IGNORECASE | re.MULTILINE,
)
_SEVERAL = re.compile(
    rf"(?:(?:^|(?<=[.!?:;,] )){_DRESS}|\b{_THEREFORE})(?:the|my) (?:[a-z]+ ){{0,2}}answers"
    rf" (?:are|include)\s*:?|^{_DRESS}(?:[a-z]+ )?answers[ \t*_{EMPHASIS}]*[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_OPENS = re.compile(
    rf"(?:\A|(?<=[\s.!?:;,]))(?:{_THEREFORE})?(?:{_THE_ANSWER} is|{_SO_IT_IS}"
    rf"|(?:(?<=\n)|\A)(?:(?:final|short) )?answer(?=[ \t*_{EMPHASIS}]*:))",
    re.IGNORECASE,
)
"""What promises an answer; it may stop there."""
_NOTHING = re.compile(rf"[\s:.*_{EMPHASIS}]*")
_ENDS = (".", "!", "?", "。")
_RUNS_AWAY = 3
"""Conclusions; fewer may differ by what the last one leaves out."""
_THAT = re.compile(r"(?<=\bis\s)that (?!of\b|which\b|who\b|one\b)(?=\S+ \S+ \S)")
"""A conclusion that is a clause: "So the answer is that the pulmonary veins return it"."""
_SOURCE = (
    r"(?:passage|context|text|document|article|paragraph|knowledge|information|source|reference)s?"
)
_NUMBERS = r"(?: \(?\d{1,3}\)?(?:(?:,| and|, and| or| &)(?: passage)? \d{1,3}){0,9})"
_CLOSES = rf"[)\]*_\"”{EMPHASIS}]{{0,3}}"
_END = (
    rf"{_CLOSES}(?:[.!]?{_CLOSES}\s*(?=\n|\Z)|[.!](?=\s)"
    r"|,? (?:which|where|as|since|because)\b)"
)
_TOLD = (
    r"(?:based|found|stated|given|supported|mentioned|contained|provided|drawn|taken|derived"
    r"|confirmed|inferred|located|clear|evident|obvious)"
)
_WHERE_IT_STANDS = re.compile(
    rf"[\s*_{EMPHASIS}]*(?:(?:\w+ly |also )?{_TOLD}\b(?: directly)? )?(?:on|in|by|from|within)\b"
    rf"(?: (?!not\b)[\w-]+){{0,6}}? {_SOURCE}{_NUMBERS}?(?: (?:provided|given|above|itself)"
    rf"|,? and (?:my|general|common) [\w ]{{1,40}})?{_END}"
    rf"|[\s*_{EMPHASIS}]*not (?:\w+ly )?(?:{_TOLD} )?(?:in|by|on|from) (?:the )?{_SOURCE}{_NUMBERS}"
    rf"{_END}",
    re.IGNORECASE,
)
"""What names the source of an answer and not the answer; or says which passage lacks it."""


def behind_marker(text: str) -> str | None:
    """Return what stands behind a reply's last conclusion; None where there is none.

    A sentence that only says where the answer stands ("The answer is in passage 2.") concludes
    nothing where something was said before.

    Args:
        text: The reply, without a thinking block.
    """
    found = [*_MARKER.finditer(text)]
    if repeated := _repeated(text, found):
        return repeated
    for mark in reversed(found):
        end = mark.end()
        if not _says_something(text[end:]):
            continue
        if text[: mark.start()].strip() and _WHERE_IT_STANDS.match(text, end):
            continue
        clause = _THAT.match(text, end)
        return text[clause.end() if clause else end :]
    return None


def answers_behind(text: str) -> str | None:
    """Return all that stands behind a reply's conclusion, which may be several answers.

    Args:
        text: The reply, without a thinking block.
    """
    several = [one.end() for one in _SEVERAL.finditer(text)]
    one = behind_marker(text)
    if several and text[several[-1] :].strip(f" \t\n*_.:{EMPHASIS}"):
        rest = text[several[-1] :]
        return rest if one is None or len(rest) < len(one) else one
    return one


def without_open_end(text: str) -> str:
    """Cut a conclusion that stops before its answer: "It ended in 1978. So the answer is."."""
    end = len(text)
    for opening in reversed([*_OPENS.finditer(text)]):
        if not _NOTHING.fullmatch(text, opening.end(), end):
            break
        end = opening.start()
    return text if end == len(text) else text[:end].rstrip()


def _says_something(rest: str) -> bool:
    return bool(rest.strip(f" \t\n*_`\"'“”‘’.:{EMPHASIS}")) or is_sign(
        without_backticks(rest.strip())
    )


def _repeated(text: str, conclusions: Sequence[re.Match[str]]) -> str:
    """Return a conclusion that a reply says again and again until its limit cuts it, else ""."""
    if len(conclusions) < _RUNS_AWAY:
        return ""
    *_, first, second, cut = conclusions
    said, again = text[first.end() : second.start()], text[second.end() : cut.start()]
    last = text[cut.end() :].rstrip()
    whole = last == said.rstrip() or last.endswith(_ENDS)
    if whole or said != again or not said.startswith(last):
        return ""
    clause = _THAT.match(text, first.end())
    return text[clause.end() if clause else first.end() : second.start()]
