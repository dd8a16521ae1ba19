"""What stands around an answer in a reply: an opening before it, further questions behind it."""

from __future__ import annotations

import re

from ragweave.nodes.conclusion import ANSWER_LABELS, behind_marker
from ragweave.nodes.reply_lists import is_item
from ragweave.nodes.yes_no import begins_with_verdict
from ragweave.state import AnswerType
from ragweave.tools.text.words import STOP_WORDS
from ragweave.tools.text.markup import as_written
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.unknown import is_unknown

_QUESTION = (
    r"(?:question|q|frage|pregunta|pergunta|domanda|vraag|fråga|pytanie|вопрос|问题|問題|问|質問)"
)
_TURN = re.compile(
    rf"^[ \t>*_#]*(?:(?P<label>(?:next )?{_QUESTION}(?: ?#?(?P<number>\d{{1,2}}))?)|(?P<role>human|user))"
    r"[*_ \t]*[:：](?P<asked>[^\n]*)"
    rf"|^#{{1,6}} ?(?:next )?{_QUESTION}[ \t]*\n+(?P<below>[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with another question: models trained on lists of them go on to the next one."""
_ANSWERED = re.compile(
    rf"\s*(?:[^\n]*\n\s*)?[*_#> \t]*(?:answer|{ANSWER_LABELS})(?: ?\d{{1,2}})?[*_ \t]*(?:[:：]|\n)",
    re.IGNORECASE,
)
_REPLIED = re.compile(r"\s*[*_#> \t]*(?:assistant|ai|bot|model)[*_ \t]*[:：]", re.IGNORECASE)
_CONCLUDES = re.compile(
    r"\b(?:so|thus|hence|therefore),? (?:the|my) (?:\w+ )?answers? (?:is|are)\b|\bfinal answers?\b"
    r"|\banswers are\b|<answer>|\\boxed\{|^\s*\{",
    re.IGNORECASE | re.MULTILINE,
)
"""What a reply arrives at further on."""
_PREFACE = re.compile(
    r"\W*(?:let(?:['’]s| me| us)\b|(?:i|we)(?: will|['’]ll| need| have| must| can| should)\b|to (?:answer|find"
    r"|determine)\b|first\b|sure\b|okay\b|ok\b|certainly\b|of course\b|here\b|based on\b|great\b"
    r"|(?:the|this) question\b|thinking\b|step\b|(?:breakdown|decomposition|reasoning|solution|thought"
    r"|explanation|context|text|knowledge|passages?|documents?|rephrased)\b|[^\n.]{0,40}\b(?:questions?|hops?)\b)"
    r"|\W*\[(?:passage|document)|[^\n]*:\W*\Z",
    re.IGNORECASE,
)
"""How a text begins or ends that answers nothing yet."""
_HERE = re.compile(
    r"\A\W*here(?: is|['’]s) (?:\w+ ){0,3}answer\b[^\n]{0,60}:[*_ ]*\n+(?=.*\w)", re.IGNORECASE
)
_PLEASANTRY = re.compile(
    r"\A\W*(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|(?:great|good) question"
    r"|i(?: would|['’]d| am|['’]m) (?:be )?(?:happy|glad) to [^.!\n]{1,40})"
    r"(?:!+\s+|[.,]?\s+(?=here\b))(?=\W{0,9}\w)",
    re.IGNORECASE,
)
_ANNOUNCES = re.compile(
    r"\W*(?:based on|according to|here(?: is|['’]s| are)?|from)\b[^\n]*|[^\n]*\b(?:is|was|are|were|by"
    r"|called|named|as follows)",
    re.IGNORECASE,
)
"""A line that says only that the answer follows, up to its colon."""
_COUNTS = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|several)\b", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?](?:\s|\Z)")
_INSTRUCTS = re.compile(
    r"\W*(?:(?:answer|use|please|give|write|base|provide|respond|think|do not|don['’]t)\b"
    r"|(?:passage|document|knowledge|context|question)s?\b)",
    re.IGNORECASE,
)
"""How a prompt goes on behind its question."""
_SHORT = 4
"""Words of a text that is an answer, whatever follows."""
_STEM = 5
"""Letters by which words are compared."""
_SAME = 0.6
"""Share of the words of two questions that they have in common where they ask the same."""


def before_another_question(
    text: str, question: str, *, answer_type: AnswerType = "short", reasons: bool = False
) -> str:
    """Cut what a reply goes on with behind its answer: another question, and its answer.

    "Steven Spielberg", then "Question: Who wrote Jaws?", then "Answer: Peter Benchley" answers
    with the first line. The question itself, told again, is none, and a reply that breaks it down
    is left whole: one that begins with another question or with a number 1, that has only opened
    so far, that concludes further on, or, where it was to reason, has concluded nothing before.

    Args:
        text: The reply, without a thinking block.
        question: What was asked; "" where that is not known.
        answer_type: The kind of answer asked for; of a long one lines "Q:" are a part.
        reasons: Whether the reply was to reason first.
    """
    for turn in _TURN.finditer(text):
        if _asks_same(_asked(turn), question):
            continue
        before = text[: turn.start()].rstrip()
        if not re.search(r"\w", before) or turn["number"] == "1":
            return text
        if not _is_turn(turn, answer_type):
            continue
        if behind_marker(before) is not None:
            return before
        later = _CONCLUDES.search(text, turn.end())
        words, lines = len(before.split()), before.strip().count("\n") + 1
        answers = (lines == 1 or not reasons) and _may_answer(before, turn, question, answer_type)
        return before if answers and (words <= _SHORT or not later) else text
    return text


def _may_answer(before: str, turn: re.Match[str], question: str, answer_type: AnswerType) -> bool:
    """Is what stands before another question no preface, and no step that this one goes on from?

    It is a step where the other question asks for most of what the text lacks of the question.
    """
    if _PREFACE.match(before) or (answer_type == "yes_no" and not begins_with_verdict(before)):
        return False
    if len(before.split()) < _SHORT:
        return True
    stems = [_stems(one) for one in (question, before, _asked(turn))]
    left = stems[0] - stems[1]
    return 2 * len(left & stems[2]) < max(len(left), 1)


def _stems(text: str) -> set[str]:
    """Return the beginnings of the words of a text that tell something."""
    words = normalize_answer(as_written(text)).split()
    return {word[:_STEM] for word in words if word not in STOP_WORDS}


def _is_turn(turn: re.Match[str], answer_type: AnswerType) -> bool:
    """Does a line ask somebody something, and is no name of a quarter, a species or a quantity?"""
    if turn["role"]:
        return _REPLIED.match(turn.string, turn.end()) is not None or "?" in _asked(turn)
    asks = any(mark in _asked(turn) for mark in "?？")
    answered = _ANSWERED.match(turn.string, turn.end()) is not None
    if answer_type == "long":
        return asks and answered and (turn["label"] or "question").lower() != "q"
    return asks or answered


def _asked(turn: re.Match[str]) -> str:
    """Return the question on a turn's line, or on the one below its heading; "" of an empty one."""
    return turn["asked"] or turn["below"] or ""


def _asks_same(asked: str, question: str) -> bool:
    """Is a line the question, or nearly? Of a question of several lines, one of these."""
    told = set(normalize_answer(as_written(asked)).split())
    for line in question.splitlines():
        words = set(normalize_answer(line).split())
        if told and words and len(told & words) >= _SAME * len(told | words):
            return True
    return False


def without_opening(said: str, question: str, *, reasons: bool = False) -> str:
    """Cut what a reply says before its answer: a pleasantry, the question, an announcement.

    An announcement ("Based on the passages:") is cut where one line or paragraph of one line
    follows, and nothing else says that this is the answer.

    Args:
        said: The reply, without a thinking block.
        question: What was asked; "" where that is not known.
        reasons: Whether the reply was to reason first: what it announces may then be a reasoning,
            unless one line follows.
    """
    said = _PLEASANTRY.sub("", said, count=1)
    said = _HERE.sub("", _without_question(said, question), count=1)
    line, rest = _parted(said)
    if not rest or not _only_announces(line, question):
        return said
    first, _, behind = rest.partition("\n")
    goes_on = bool(behind.strip()) and (reasons or bool(behind.partition("\n")[0].strip()))
    return said if goes_on or is_item(first) else rest


def _parted(said: str) -> tuple[str, str]:
    """Return the first line that says anything, and what follows it, without blank lines between."""
    line, _, rest = said.lstrip().partition("\n")
    return line, rest.lstrip("\n") if re.search(r"\w", rest) else ""


def _only_announces(line: str, question: str) -> bool:
    bare = as_written(line).rstrip(" \t*_")
    if not bare.endswith(":"):
        return False
    told = bare[:-1].rstrip("*_ ")
    if not _ANNOUNCES.fullmatch(told) or _SENTENCE_END.search(told) or is_unknown(told):
        return False
    return not ("how many" in question.lower() and _COUNTS.search(told))


def _without_question(said: str, question: str) -> str:
    """Cut the question above an answer; what it echoes of the prompt behind it is no answer."""
    line, rest = _parted(said)
    turn = _TURN.match(line)
    told = normalize_answer(as_written(turn["asked"] if turn and turn["asked"] else line))
    first = rest.partition("\n")[0]
    if not rest or not told or told != normalize_answer(question):
        return said
    return said if "?" in first or _INSTRUCTS.match(first) else rest
