"""Metrics of answers: exact match and F1, coverage, accuracy, %Unk and %NM.

* Exact match and F1 follow the SQuAD rule (Rajpurkar et al. 2016, 2018, and the authors' evaluation
  scripts). `unigram_f1` is the same token F1, which KILT (Petroni et al. 2021) and FILCO (Wang et
  al. 2023, section 3.1) use for long answers.
* Coverage of several short answers is that of ASQA (Stelmakh et al. 2022): the share of short answers
  of which the text contains a name. SlimPLM (Tan et al. 2024, section 4.2 and released code) counts
  each name as an answer of its own (`answer_share`); Hit@1 is whether the text contains at least one.
* %Unk counts answers not given, %NM right answers that a vote passed over (Liu et al. 2024,
  Modeling Uncertainty and Using Post-fusion as Fallback, section 4).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ragweave.datasets.question import Question
from ragweave.evaluation.metrics.metric import Metric, given_answer
from ragweave.tools.listed import listed

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_normalize(text: str) -> str:
    """Lower-case, drop ASCII punctuation, then articles, then fold white space.

    Unlike `ragweave.tools.text.normalize`, it leaves typographic quotes alone, as the script does.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Iterable[str]) -> float:
    """Return 1.0 where `answer` equals any gold answer normalised, else 0.0.

    Gold answers of which nothing is left normalised don't count; with none left, the question has
    no answer, and "" is the right one.
    """
    given = squad_normalize(answer)
    return float(any(given == squad_normalize(gold) for gold in _usable(golds)))


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return the best token F1 of `answer` with any gold answer, 0 to 1.

    Where either has no token, it is 1.0 if both have none, else 0.0.
    """
    return max(_f1(answer, gold) for gold in _usable(golds))


unigram_f1 = f1


def output_precision(context: str, golds: Iterable[str]) -> float:
    """Return the share of the context's tokens that stand in a gold answer, at best, 0 to 1.

    Source: FILCO (Wang et al. 2023), table 3: unigram precision of gold outputs in a context.
    """
    tokens = squad_normalize(context).split()
    if not tokens:
        return 0.0
    best = max(_common(tokens, squad_normalize(gold).split()) for gold in _usable(golds))
    return best / len(tokens)


def _usable(golds: Iterable[str]) -> list[str]:
    return [gold for gold in listed(golds) if squad_normalize(gold)] or [""]


def _f1(answer: str, gold: str) -> float:
    given, right = squad_normalize(answer).split(), squad_normalize(gold).split()
    if not given or not right:
        return float(given == right)
    common = _common(given, right)
    return 2 * common / (len(given) + len(right))


def _common(one: list[str], other: list[str]) -> int:
    return sum((Counter(one) & Counter(other)).values())


def _em(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring != "short":
        return None
    return exact_match(given_answer(state), question.answers)


def _short_f1(question: Question, state: Mapping[str, Any]) -> float | None:
    return f1(given_answer(state), question.answers) if question.scoring == "short" else None


def _unigram_f1(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring not in ("long", "coverage") or not question.answers:
        return None
    return unigram_f1(given_answer(state), question.answers)


def _output_precision(question: Question, state: Mapping[str, Any]) -> float | None:
    if not question.answers or not (state["passages"] or state["retrieved"]):
        return None
    context = "\n".join(doc.page_content for doc in state["passages"])
    return output_precision(context, question.answers)


EM = Metric(
    name="em",
    label="EM",
    summary="The answer equals a gold answer, normalised.",
    compute=_em,
    primary=("short",),
    source="Rajpurkar et al. 2016, SQuAD",
)
F1 = Metric(
    name="f1",
    label="F1",
    summary="Tokens shared with the best gold answer.",
    compute=_short_f1,
    source="Rajpurkar et al. 2016, SQuAD",
)
UNIGRAM_F1 = Metric(
    name="unigram_f1",
    label="Unigram F1",
    summary="Tokens shared with the best reference, for long answers.",
    compute=_unigram_f1,
    source="Petroni et al. 2021, KILT",
)
OUTPUT_PRECISION = Metric(
    name="output_precision",
    label="Output precision",
    summary="Share of the context's tokens that stand in a gold answer.",
    compute=_output_precision,
    group="passages",
    source="Wang et al. 2023, FILCO, table 3",
)


def contains(text: str, aliases: Iterable[str]) -> float:
    """Return 1.0 where any alias stands in `text`, both normalised, else 0.0."""
    whole = squad_normalize(text)
    return float(any(key in whole for alias in listed(aliases) if (key := squad_normalize(alias))))


def coverage_em(text: str, answer_sets: Sequence[Iterable[str]]) -> float:
    """Return the share of answer sets of which an alias stands in `text`, 0 to 1."""
    if not answer_sets:
        return 0.0
    return sum(contains(text, aliases) for aliases in answer_sets) / len(answer_sets)


def answer_share(text: str, golds: Iterable[str]) -> float:
    """Return the share of the gold answers, aliases among them, that stand in `text`, 0 to 1.

    Source: SlimPLM (Tan et al. 2024, table 1): its EM on ASQA, NQ and TriviaQA, beside Hit@1.
    """
    return coverage_em(text, [(gold,) for gold in listed(golds)])


def hit_at_1(text: str, answer_sets: Sequence[Iterable[str]]) -> float:
    """Return 1.0 where at least one answer set is covered, else 0.0."""
    return float(coverage_em(text, answer_sets) > 0)


def accuracy(answer: str, golds: Iterable[str]) -> float:
    """Return 1.0 where the answer's first word is that of a gold answer, else 0.0.

    For answers out of a few words, such as Yes and No (StrategyQA, FEVER).
    """
    given = squad_normalize(answer).split()[:1]
    return float(
        bool(given) and any(given == squad_normalize(one).split()[:1] for one in listed(golds))
    )


def _answer_share(question: Question, state: Mapping[str, Any]) -> float | None:
    if question.scoring not in ("short", "coverage"):
        return None
    sets = question.answer_sets if question.scoring == "coverage" else [question.answers]
    names = [name for one in sets for name in one]
    return answer_share(given_answer(state), names) if names else None


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


Right = Callable[[str], float]
"""Whether an answer is right: 1.0 or 0.0."""


def unknown(status: str) -> float:
    """Return 1.0 where the method gave no answer (`status` is `unknown`), else 0.0."""
    return float(status == "unknown")


def not_majority(answer: str, pool: Iterable[str], right: Right) -> float:
    """Return 1.0 where a right answer is in the pool and the final answer is not right."""
    return float(not right(answer) and any(right(one) for one in pool))


def _unknown(question: Question, state: Mapping[str, Any]) -> float:  # noqa: ARG001 - a Compute
    return unknown(state["status"])


def _not_majority(question: Question, state: Mapping[str, Any]) -> float | None:
    golds = question.answers
    pool = [one["answer"] for one in state["candidates"].values()]
    if question.scoring == "short":
        return not_majority(given_answer(state), pool, lambda one: exact_match(one, golds))
    if question.scoring == "accuracy" and golds:
        return not_majority(given_answer(state), pool, lambda one: accuracy(one, golds))
    return None


UNKNOWN = Metric(
    name="unknown",
    label="%Unk",
    summary="No answer was given.",
    compute=_unknown,
    higher_is_better=False,
    source="Liu et al. 2024, Post-fusion as Fallback, section 4",
)
NM = Metric(
    name="nm",
    label="%NM",
    summary="A candidate was right, and the final answer is not.",
    compute=_not_majority,
    higher_is_better=False,
    source="Liu et al. 2024, Post-fusion as Fallback, section 4",
)
