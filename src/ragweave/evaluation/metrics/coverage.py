"""How many of several short answers a text covers: ASQA's string EM and Hit@1; Yes/No accuracy.

Source: Stelmakh et al. 2022 (ASQA), as SlimPLM (Tan et al. 2024, section 4.2) uses them: EM is the
share of short answers that stand in the text, Hit@1 whether at least one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
