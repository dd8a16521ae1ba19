"""Exact match and F1 by the SQuAD rule.

Source: Rajpurkar et al. 2016, 2018; the rule of the owners' evaluation scripts. `unigram_f1` is
the same token F1, which KILT (Petroni et al. 2021) and FILCO (Wang et al. 2023, section 3.1) use
for long answers.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ragweave.evaluation.datasets.question import Question
from ragweave.evaluation.metrics.metric import Metric, given_answer

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
    return [gold for gold in golds if squad_normalize(gold)] or [""]


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
