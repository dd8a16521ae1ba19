"""Choosing a small part's threshold on held-out rows, and measuring it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ragweave.tools.parts import PartRole
from ragweave.training.calibration import NEUTRAL, best_accuracy, best_f1, wanted_recall
from ragweave.training.measures import Marked, as_json, card_measures, judge_measures
from ragweave.training.small.pairs import Pair


class Measured(NamedTuple):
    """What held-out rows gave."""

    threshold: float
    metrics: Mapping[str, Any]


def chosen_on(held_out: Sequence[object]) -> str:
    """Return what the card says of where a threshold was chosen."""
    return "the held-out rows measured below" if held_out else "nothing: no rows were held out"


def measure(
    role: PartRole, pairs: Sequence[Pair], probabilities: Sequence[float], recall: float = 0.0
) -> Measured:
    """Choose the threshold and measure at it; without held-out pairs it is 0.5.

    What depends on the threshold (accuracy, recall, precision, tokens kept) is measured on the
    rows that it was chosen on, and so flatters a little; AUC and hits do not.

    Args:
        role: A judge's threshold has the best accuracy, a filter's the best F1 of kept sentences.
        pairs: Held-out pairs.
        probabilities: One a pair.
        recall: Above 0: the recall that a filter's threshold must reach instead.
    """
    if not pairs:
        return Measured(NEUTRAL, {})
    labels = [pair.label for pair in pairs]
    if role == "judge":
        threshold = best_accuracy(probabilities, labels) if len(set(labels)) == 2 else NEUTRAL
        return Measured(threshold, as_json(judge_measures(probabilities, labels, threshold)))
    threshold = NEUTRAL
    if any(labels):
        threshold = (
            wanted_recall(probabilities, labels, recall)
            if recall
            else best_f1(probabilities, labels)
        )
    found = card_measures(marked(pairs, probabilities), threshold)
    return Measured(threshold, as_json(found))


def marked(pairs: Sequence[Pair], probabilities: Sequence[float]) -> list[Marked]:
    """Gather a filter's pairs by question."""
    both = zip(pairs, probabilities, strict=True)
    groups = (list(group) for _, group in groupby(both, key=lambda one: one[0].row))
    return [
        Marked(
            [chance for _, chance in group],
            [pair.label for pair, _ in group],
            [pair.size for pair, _ in group],
        )
        for group in groups
    ]
