"""How many of several short answers a text covers: ASQA's string EM and Hit@1; Yes/No accuracy.

Source: Stelmakh et al. 2022 (ASQA), as SlimPLM (Tan et al. 2024, section 4.2) uses them: EM is the
share of short answers that stand in the text, Hit@1 whether at least one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragweave.evaluation.datasets.question import Question
from ragweave.evaluation.metrics.metric import Metric, given_answer
from ragweave.evaluation.metrics.squad import squad_normalize


def contains(text: str, aliases: Iterable[str]) -> float:
    """Return 1.0 where any alias stands in `text`, both normalised, else 0.0."""
    whole = squad_normalize(text)
    return float(any(key in whole for alias in aliases if (key := squad_normalize(alias))))


def coverage_em(text: str, answer_sets: Sequence[Iterable[str]]) -> float:
    """Return the share of answer sets of which an alias stands in `text`, 0 to 1."""
    if not answer_sets:
        return 0.0
    return sum(contains(text, aliases) for aliases in answer_sets) / len(answer_sets)


def answer_share(text: str, golds: Iterable[str]) -> float:
    """Return the share of the gold answers, aliases among them, that stand in `text`, 0 to 1.

    Source: SlimPLM (Tan et al. 2024, table 1): its EM on NQ and TriviaQA, beside Hit@1.
    """
    return coverage_em(text, [(gold,) for gold in golds])


def hit_at_1(text: str, answer_sets: Sequence[Iterable[str]]) -> float:
    """Return 1.0 where at least one answer set is covered, else 0.0."""
    return float(coverage_em(text, answer_sets) > 0)


def accuracy(answer: str, golds: Iterable[str]) -> float:
    """Return 1.0 where the answer's first word is that of a gold answer, else 0.0.

    For answers out of a few words, such as Yes and No (StrategyQA, FEVER).
    """
    given = squad_normalize(answer).split()[:1]
    return float(bool(given) and any(given == squad_normalize(one).split()[:1] for one in golds))


def _answer_share(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring != "short" or not question.answers:
        return None
    return answer_share(given_answer(state), question.answers)


def _contains(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring != "short" or not question.answers:
        return None
    return contains(given_answer(state), question.answers)


def _accuracy(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring != "accuracy":
        return None
    said = given_answer(state)
    return accuracy(said, question.answers) if question.answers else float(not said)


def _coverage_em(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring != "coverage":
        return None
    return coverage_em(given_answer(state), question.answer_sets)


def _hit_at_1(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring != "coverage":
        return None
    return hit_at_1(given_answer(state), question.answer_sets)


CONTAINS = Metric(
    name="contains",
    label="Contains",
    summary="A gold answer stands in the answer, both normalised.",
    compute=_contains,
)
ANSWER_SHARE = Metric(
    name="answer_share",
    label="EM (share)",
    summary="Share of the gold answers, aliases among them, that stand in the answer.",
    compute=_answer_share,
    source="Tan et al. 2024, SlimPLM, table 1",
)
ACCURACY = Metric(
    name="accuracy",
    label="Accuracy",
    summary="The answer's first word is that of a gold answer, such as Yes.",
    compute=_accuracy,
    primary=("accuracy",),
)
COVERAGE_EM = Metric(
    name="coverage_em",
    label="EM (ASQA)",
    summary="Share of the short answers that stand in the text.",
    compute=_coverage_em,
    primary=("coverage",),
    source="Stelmakh et al. 2022, ASQA",
)
HIT_AT_1 = Metric(
    name="hit_at_1",
    label="Hit@1",
    summary="At least one of the short answers stands in the text.",
    compute=_hit_at_1,
    source="Tan et al. 2024, SlimPLM, section 4.2",
)
