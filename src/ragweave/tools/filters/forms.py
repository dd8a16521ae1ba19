"""The text forms in which FILCO's models read question, context and answer.

Source: FILCO, released code: `question: …`, `context: …`, `answer: …`, a line each.
"""

from __future__ import annotations

from collections.abc import Iterable

_ASKED = "Is this claim true? "
_VERDICTS = frozenset({"yes", "no", "true", "false", "supports", "refutes"})


def claim_of(question: str) -> str:
    """Return the claim that a fact verification question asks about; any other as it is."""
    return question.removeprefix(_ASKED)


def only_verdicts(answers: Iterable[str]) -> bool:
    """Tell whether gold answers are verdicts alone, which no sentence can be searched for."""
    plain = [answer.strip().lower() for answer in answers]
    return bool(plain) and all(answer in _VERDICTS for answer in plain)


def question_line(question: str) -> str:
    """Return `question: …`."""
    return f"question: {question}"


def context_line(context: str) -> str:
    """Return `context: …`."""
    return f"context: {context}"


def answer_line(answer: str) -> str:
    """Return `answer: …`, what the trained generator writes."""
    return f"answer: {answer}"


def filter_input(question: str, passages: Iterable[str]) -> str:
    """Return what the context filter M_ctx reads: the question, then the passages' texts."""
    context = "\n".join(passages)
    return f"{question_line(question)}\n{context_line(context)}"


def generator_input(question: str, context: str | None = None) -> str:
    """Return what the generator M_gen reads: the context, where there is one, then the question."""
    line = question_line(question)
    return line if context is None else f"{context_line(context)}\n{line}"
