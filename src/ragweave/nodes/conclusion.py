"""Where a reply concludes: what stands behind its "So the answer is …" or "Answer:"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragweave.tools.text.markup import EMPHASIS, is_sign, without_backticks

_DRESS = rf"[ \t>*#_{EMPHASIS}]*+(?:(?:[-•]|\d{{1,2}}[.)])[ \t]+[*_{EMPHASIS}]*+)?"
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
ANSWER_LABELS = r"a|antwort|respuesta|resposta|risposta|antwoord|svar|odpowiedź|ответ|答案|回答"
"""What stands before an answer's colon, besides the word itself."""
_LABEL = rf"(?:{_ANSWER}|réponse|{ANSWER_LABELS})"
CONCLUDES = re.compile(
    r"\b(?:so|therefore|thus|hence|in conclusion|overall|consequently|in short)\b,? ?",
    re.IGNORECASE,
)
"""How a sentence begins that concludes."""
_MARKER = re.compile(
    rf"(?:(?:^|(?<=[.!?:;,] )){_DRESS}|\b{_THEREFORE}){_THE_ANSWER}{_TO_IT} is\s*:?"
    rf"|\b{_SO_IT_IS}\s*:?|(?:^|(?<=[.!?:;,] )){_DRESS}final answer is\s*:?"
    r"|\b(?:la respuesta es|die antwort (?:ist|lautet)(?: (?:also|somit|daher|demnach))?"
    r"|la réponse est|la risposta è|a resposta é|het antwoord is|svaret är)\b\s*:?|答案是\s*[:：]?"
    rf"|(?:^|(?<=[.!?] )){_DRESS}{_LABEL}[ \t]*+{_RUN}*+[ \t]*+[:：]"
    rf"|\b(?:so|thus|hence|therefore),? {_ANSWER}[ \t]*:"
    rf"|(?<=[,;] ){_ANSWER}:|^{_DRESS}{_ANSWER}[ \t*_{EMPHASIS}]*$"
    rf"|\bfinal answer[ \t*_{EMPHASIS}]*[:：]"
    rf"|^{_DRESS}final answer[ \t*_{EMPHASIS}]+(?=(?:yes|no|true|false)\b)"
    rf"|^{_DRESS}(?-i:[Ff]inal answer[ \t*_{EMPHASIS}]+(?=[A-Z\d]))",
    re.IGNORECASE | re.MULTILINE,
)
_SEVERAL = re.compile(
    rf"(?:(?:^|(?<=[.!?:;,] )){_DRESS}|\b{_THEREFORE})(?:the|my) (?:[a-z]+ ){{0,2}}answers"
    rf" (?:are|include)\s*:?|^{_DRESS}(?:[a-z]+ )?answers[ \t*_{EMPHASIS}]*[:：]"
    rf"|^{_DRESS}here are (?:[a-z]+ ){{0,4}}answers(?: [^\n:]{{1,60}})?[ \t*_{EMPHASIS}]*[:：]",
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
_GIVEN = r"(?:provided|given|above|first|second|third|retrieved|same|own|general|common)"
_NUMBERS = r"(?: \(?\d{1,3}\)?(?:(?:,| and|, and| or| &)(?: passage)? \d{1,3}){0,9})"
_CLOSES = rf"[)\]*_\"”{EMPHASIS}]{{0,3}}"
_END = (
    rf"{_CLOSES}(?:[.!]?{_CLOSES}\s*(?=\n|\Z)|[.!](?=\s)"
    r"|,? (?:which|where|as|since|because)\b)"
)
_STATED = (
    r"(?:based|stated|given|supported|mentioned|provided|drawn|taken|derived|confirmed|inferred"
    r"|clear|evident|obvious)"
)
_TOLD = rf"(?:{_STATED}|found|contained|located)"
_HOW = r"(?:\w+ly |also )?"
_FROM = r"(?:on|in|by|from|within)\b"
_WORDS = r"(?: (?!not\b)[\w-]+){0,6}?"
_PLACE = (
    rf"{_HOW}{_STATED}\b(?: directly)? {_FROM}{_WORDS} {_SOURCE}{_NUMBERS}?"
    rf"|(?:{_HOW}{_TOLD}\b(?: directly)? )?{_FROM}"
    rf"(?:{_WORDS} (?:passage|knowledge)s?{_NUMBERS}?"
    rf"|(?: (?:the|this|these|both|all|my))?(?: {_GIVEN})?"
    rf"(?: information(?: {_TOLD})? (?:in|by|from|of)(?: the| this)?(?: {_GIVEN})?)? {_SOURCE})"
)
"""Where it says that it was read there; else a place that is no answer: article 5 may be one."""
_STANDS = re.compile(
    rf"[\s*_{EMPHASIS}]*(?:{_PLACE})(?: (?:provided|given|above|itself)"
    rf"|,? and (?:my|general|common) [\w ]{{1,40}})?{_END}",
    re.IGNORECASE,
)
_LACKS = re.compile(
    rf"[\s*_{EMPHASIS}]*not (?:\w+ly )?(?:{_TOLD} )?(?:in|by|on|from) (?:the )?{_SOURCE}{_NUMBERS}"
    rf"{_END}",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?:[^.!\n]|[.!](?!\s|\Z))*[.!]?")
"""What names the source of an answer and not the answer, what says which passage lacks it; and
all that is left of such a sentence."""


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
        if text[: mark.start()].strip() and (_STANDS.match(text, end) or _LACKS.match(text, end)):
            continue
        clause = _THAT.match(text, end)
        return text[clause.end() if clause else end :]
    return None


def without_source(text: str) -> str:
    """Cut the sentences that say behind an answer only where it stands.

    Args:
        text: The reply, without a thinking block.
    """
    for mark in reversed([*_MARKER.finditer(text)]):
        before = text[: mark.start()].rstrip()
        if before and _STANDS.match(text, mark.end()):
            rest = _SENTENCE.match(text, mark.end())
            text = before.rstrip(",;") + text[rest.end() if rest else mark.end() :].rstrip()
    return text


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
