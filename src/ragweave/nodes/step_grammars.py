"""Grammars of replies that write text in a format: a ReAct step, a Self-Ask step, a rewrite.

A grammar leaves the words to the model and bounds each text, so that a model which runs on or
forgets the format still says what can be read. There is no JSON schema for these replies: servers
with structured output follow the prompts' own formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragweave.nodes.gbnf import literal, one_of
from ragweave.state import AnswerType
from ragweave.tools.text.unknown import UNKNOWN

THOUGHT = 200
"""Characters of a thought: what a model needs for two sentences."""
QUERY = 320
ANSWER = 320
"""Characters of a follow-up, a search or an answer: many say a whole question again."""
_SIGNS = 2
"""Signs before an answer."""
_LONGEST = max(QUERY, ANSWER + _SIGNS)
REWRITTEN = 160
"""Characters of a rewriter's question, claim or query: it writes several."""
QUESTIONS = 4
"""Most ways that a rewriter asks the question, where the caller sets no limit: a small model
repeats one until it is stopped."""
RECORDS = 8
"""Most claims of one rewrite, where the caller sets no limit."""

_FIRST = "[0-9A-Za-z\\u00C0-\\u024F\\u0370-\\u1FFF\\u3040-\\u9FFF\\uAC00-\\uD7A3]"
"""A letter or digit: no text begins with, or is, punctuation alone."""
_BEFORE_ANSWER = "[-+.(\\u00B1\\u2212$\\u00A3\\u00A5\\u20AC\\u00A1\\u00BF]"
"""A sign, a currency's mark, or a mark that opens, which may stand before an answer: -40, $5, .NET."""
_BARE = "[^\\n\\[\\]]"
"""What stands inside of square brackets, or before them on a line."""
_ASKING = "[^\\n?]"
_INSIDE = "[^<>()\\n]"
"""What stands inside of a mark, or of brackets there: a bracket by itself would end either."""
_BRACKETED = 60
_PAIRS = 2
"""Pairs of brackets in a text inside of a mark: Titanic (1997 film)."""
_LINE = "[^\\n]"
_BREAK = "\n"


@dataclass(frozen=True)
class Written:
    """The form of a reply that writes text: a grammar and no schema."""

    grammar: str
    """The GBNF grammar of the reply."""
    most: int = 0
    """Most characters that the grammar allows; 0: too many to wait for."""

    @property
    def schema(self) -> dict[str, Any]:
        """None."""
        return {}

    def text(self, value: Any) -> str:
        """Return the value as text."""
        return str(value)


def react_form(number: int, answer_type: AnswerType, *, last: bool) -> Written:
    """Return the form of ReAct's step `number`: a thought and one action; the last one finishes.

    Args:
        number: The step, from 1.
        answer_type: The kind of answer asked for; no long one.
        last: Whether the step must finish.
    """
    finish = f'{literal("Finish[")} answer "]"'
    actions = finish if last else f'{literal("Search[")} query "]" | {finish}'
    think, act = f"Thought {number}: ", f"{_BREAK}Action {number}: "
    return Written(
        "\n".join(
            [
                f"root ::= {literal(think)} thought {literal(act)} action",
                f"action ::= {actions}",
                f"thought ::= {_text(_BARE, THOUGHT)}",
                *([] if last else [f"query ::= {_text(_BARE, QUERY)}"]),
                _answer(answer_type, _BARE),
            ]
        ),
        len(think) + THOUGHT + len(act) + len("Search[]") + _LONGEST,
    )


def self_ask_form(answer_type: AnswerType, *, first: bool) -> Written:
    """Return the form of a Self-Ask step: a follow-up question, or the final answer.

    Args:
        answer_type: The kind of answer asked for; no long one.
        first: Whether the reply completes "Are follow up questions needed here:".
    """
    yes, no = ("Yes.\n", "No.\n") if first else ("", "")
    ends = f"{no}So the final answer is: "
    return Written(
        "\n".join(
            [
                f'root ::= {literal(f"{yes}Follow up: ")} query "?" | {literal(ends)} answer',
                f"query ::= {_text(_ASKING, QUERY)}",
                _answer(answer_type, _LINE),
            ]
        ),
        len(ends) + _LONGEST,
    )


def notes_form(passages: int, answer_type: AnswerType) -> Written:
    """Return the form of Chain-of-Note's reply: a note on each passage, then the answer.

    Args:
        passages: How many passages the prompt shows.
        answer_type: The kind of answer asked for; no long one.
    """
    marks = [f"Note {number}: " for number in range(1, passages + 1)]
    notes = " ".join(f"{literal(mark)} note" for mark in marks)
    return Written(
        "\n".join(
            [
                f"root ::= {notes} {literal('Answer: ')} answer",
                f"note ::= {_text(_LINE, THOUGHT)} {literal(_BREAK)}",
                _answer(answer_type, _LINE),
            ]
        ),
        sum(len(mark) + THOUGHT + 1 for mark in marks) + len("Answer: ") + _LONGEST,
    )


def rewrite_form(questions: int = QUESTIONS, claims: int = RECORDS) -> Written:
    """Return the form of a rewriter's reply: questions, then claims, each with flag and query.

    Args:
        questions: Most ways of asking the question.
        claims: Most claims.
    """
    return Written(
        "\n".join(
            [
                f"root ::= {literal('<Questions> ')} question{{1,{questions}}} "
                f'{literal("</Questions>" + _BREAK + "<Claims> ")} claim{{0,{claims}}} "</Claims>"',
                _record("question", "Question", "NeedSearch"),
                _record("claim", "Claim", "Search"),
                f"text ::= {_text(_INSIDE, REWRITTEN)} pair{{0,{_PAIRS}}}",
                f'pair ::= "(" {_INSIDE}{{1,{_BRACKETED}}} ")" {_INSIDE}{{0,{_BRACKETED}}}',
                'flag ::= "True" | "False"',
            ]
        )
    )


def _record(rule: str, label: str, flag: str) -> str:
    before, behind = literal(f"<{label}("), literal(f")> <{flag}(")
    return f'{rule} ::= {before} text {behind} flag {literal(")> <Query(")} text? ")> "'


def _answer(answer_type: AnswerType, letter: str) -> str:
    if answer_type == "yes_no":
        return one_of(("Yes", "No", UNKNOWN)).replace("root", "answer", 1)
    return f"answer ::= {_BEFORE_ANSWER}{{0,{_SIGNS}}} {_text(letter, ANSWER)}"


def _text(letter: str, most: int) -> str:
    """Return a text of 1 to `most` characters that begins with a letter or digit."""
    return f"{_FIRST} {letter}{{0,{most - 1}}}"
