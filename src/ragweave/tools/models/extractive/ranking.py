"""The best span of the best sentences, by a linear ranker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ragweave.tools.models.extractive.evidence import Evidence
from ragweave.tools.models.extractive.features import Features, Scene
from ragweave.tools.models.extractive.question import Question
from ragweave.tools.models.extractive.spans import Span, spans
from ragweave.tools.models.extractive.weights import WEIGHTS

SENTENCES = 4
"""Best sentences whose spans compete."""

_SET = {"head:is": 1.5}
"""Set by hand, as too rare to fit: "whose *capital* is …" answers "what is the capital"."""


class Pick(NamedTuple):
    """A span, the sentence it stands in, and the ranker's probability for it."""

    text: str
    end: int
    """Where the span ends in its sentence."""
    evidence: Evidence
    confidence: float


def rank_spans(question: Question, found: Sequence[Evidence]) -> list[Pick]:
    """Return the spans of the first sentences of `found` (best first), most probable first."""
    scored: list[tuple[float, Span, Evidence]] = []
    for order, evidence in enumerate(found[:SENTENCES]):
        scene = Scene(question, evidence, found[0].score, order)
        scored += [(value(scene.features(span)), span, evidence) for span in spans(evidence.text)]
    if not scored:
        return []
    top = max(score for score, _, _ in scored)
    total = sum(math.exp(score - top) for score, _, _ in scored)
    ordered = sorted(scored, key=lambda one: -one[0])
    return [
        Pick(span.text, span.end, evidence, math.exp(score - top) / total)
        for score, span, evidence in ordered
    ]


def value(features: Features) -> float:
    """Return the ranker's score of a span: the weighted sum of its features."""
    fitted = sum(WEIGHTS.get(name, 0.0) * amount for name, amount in features.items())
    return fitted + sum(weight * features.get(name, 0.0) for name, weight in _SET.items())
