"""Choosing a span encoder's threshold on held-out rows, and measuring it there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ragweave.evaluation.metrics.statistics import Interval
from ragweave.tools.parts.spans.scorer import relative
from ragweave.training.calibration import NEUTRAL
from ragweave.training.measures import Marked, as_json, card_measures, filter_measures
from ragweave.training.small.measuring import Measured
from ragweave.training.small.span_rows import Example

_SLACK = 1 - 1e-4
"""Below the last share that is to be kept: scores differ by floating-point noise."""


def span_threshold(
    logits: Sequence[Sequence[float]], golds: Sequence[Sequence[int]], recall: float
) -> float:
    """Return the highest threshold at which the mean recall over questions is `recall`.

    Args:
        logits: Of each question's sentences.
        golds: Numbers of the sentences to keep, at least one a question.
        recall: What is wanted, in [0, 1].

    Returns:
        A share of the best sentence's probability, in (0, 1); 0.5 where there is no question.
    """
    found = sorted(
        (
            (relative(scores)[at], 1 / len(gold) / len(logits))
            for scores, gold in zip(logits, golds, strict=True)
            for at in gold
        ),
        reverse=True,
    )
    reached, least = 0.0, NEUTRAL
    for share, weight in found:
        reached, least = reached + weight, share * _SLACK
        if reached >= recall - 1e-9:
            break
    return least


def span_measures(
    logits: Sequence[Sequence[float]],
    golds: Sequence[Sequence[int]],
    sizes: Sequence[Sequence[int]],
    threshold: float,
) -> dict[str, Any]:
    """Return first hit, hit in two, recall, precision and share of words kept, with intervals.

    Args:
        logits: Of each question's sentences.
        golds: Numbers of the sentences to keep.
        sizes: Words of each sentence.
        threshold: Share of the best one's probability that a sentence must reach; all that do
            are kept.
    """
    return _named(filter_measures(_marked(logits, golds, sizes), _below(threshold)))


def measure_spans(
    examples: Sequence[Example], logits: Sequence[Sequence[float]], recall: float
) -> Measured:
    """Choose the threshold and measure at it; without held-out examples it is 0.5.

    The measures are those of `card_measures`, in words. Rows that keep no sentence or all of them
    are no examples and not in them: `span_encoder` counts them beside.
    """
    if not examples:
        return Measured(NEUTRAL, {})
    golds = [one.gold for one in examples]
    threshold = span_threshold(logits, golds, recall)
    marked = _marked(logits, golds, [one.sizes for one in examples])
    return Measured(threshold, _named(card_measures(marked, _below(threshold))))


def _marked(
    logits: Sequence[Sequence[float]],
    golds: Sequence[Sequence[int]],
    sizes: Sequence[Sequence[int]],
) -> list[Marked]:
    return [
        Marked(relative(scores), [at in set(gold) for at in range(len(scores))], size)
        for scores, gold, size in zip(logits, golds, sizes, strict=True)
    ]


def _below(threshold: float) -> float:
    """Return what a share that reaches the threshold exceeds."""
    return math.nextafter(threshold, -1.0)


def _named(found: Mapping[str, Interval]) -> dict[str, Any]:
    """Name words as words, and leave `empty` out: the best sentence is always kept."""
    return as_json(
        {name.replace("tokens", "words"): one for name, one in found.items() if name != "empty"}
    )
