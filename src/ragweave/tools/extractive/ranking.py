"""The best answer span of the best sentences, by a linear ranker: its features and its weights.

The weights were fitted by maximum likelihood (a softmax over the spans of a question) on the
tuning half of NQ-open; `python benchmarks/extractive_nq.py --fit` fits and prints them again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ragweave.tools.extractive.evidence import Evidence
from ragweave.tools.extractive.question import Question, Token, stem, terms, tokens
from ragweave.tools.extractive.spans import Span, spans

Features = dict[str, float]

_CUES = {
    "by": "by", "in": "in", "at": "in", "near": "in", "on": "on", "since": "on", "until": "on",
    "is": "is", "was": "is", "are": "is", "were": "is", "be": "is", "as": "as", "called": "as",
    "named": "as", "to": "to", "from": "from", "of": "of", "for": "for", "with": "with",
    "and": "and", ",": "comma", "(": "open", "than": "than", "between": "than", "about": "than",
    "approximately": "than", "through": "with", "that": "that", "which": "that",
}  # fmt: skip
_ARTICLES = frozenset({"the", "a", "an"})


class FeatureExtractor:
    """A sentence prepared once for the features of all its spans."""

    def __init__(self, question: Question, evidence: Evidence, best: float, order: int) -> None:
        """Prepare `evidence`, which stands at `order` (from 0) behind a best score of `best`."""
        self.question = question
        self.evidence = evidence
        self.gap = best - evidence.score
        self.order = order
        self.words: list[Token] = tokens(evidence.text)
        self.stems = [stem(word.text) if word.is_word else word.text for word in self.words]
        self.hits = [i for i, one in enumerate(self.stems) if one in question.terms]
        self.title = frozenset(terms(evidence.title))

    def features(self, span: Span) -> Features:
        """Return the named features of `span`, a candidate of this sentence."""
        first = next(i for i, word in enumerate(self.words) if word.end > span.start)
        last = max(i for i, word in enumerate(self.words) if word.start < span.end)
        return {
            **self._shape(span, first, last),
            **self._overlap(first, last),
            **self._place(first, last),
            **self._cues(first, last),
            "gap": self.gap,
            "order": math.log1p(self.order),
        }

    def _shape(self, span: Span, first: int, last: int) -> Features:
        """Kind of the span for this kind of question, and its length in words."""
        kind = self.question.kind
        length = max(1, sum(word.is_word for word in self.words[first : last + 1]))
        found = {f"kind:{kind}:{span.kind}": 1.0, "length": math.log(length)}
        found[f"length:{kind}:{min(length, 6)}"] = 1.0
        if span.kind in ("date", "number"):
            year = span.kind == "date" and len(span.text) == 4
            found[f"year:{kind}"] = float(year)
            found[f"full:{kind}"] = float(span.kind == "date" and "," in span.text)
        return found

    def _overlap(self, first: int, last: int) -> Features:
        """Words of the span that the question or the title has already."""
        inside = [
            one
            for one, word in zip(
                self.stems[first : last + 1], self.words[first : last + 1], strict=True
            )
            if word.is_word and not word.is_stop
        ]
        size = max(1, len(inside))
        asked = sum(one in self.question.terms for one in inside) / size
        titled = sum(one in self.title for one in inside) / size
        return {
            "asked": asked,
            "asked:all": float(asked == 1.0),
            "asked:some": float(asked > 0),
            f"titled:{self.question.kind}": titled,
            "head:inside": float(self.question.head in inside),
            "head:last": float(bool(inside) and inside[-1] == self.question.head),
        }

    def _place(self, first: int, last: int) -> Features:
        """How near the question's words stand, and where in the sentence the span is."""
        outside = [i for i in self.hits if i < first or i > last]
        near = min((first - i if i < first else i - last for i in outside), default=20)
        before = sum(i < first for i in outside) / max(1, len(outside))
        head = [i for i in outside if self.stems[i] == self.question.head]
        to_head = min((first - i if i < first else i - last for i in head), default=20)
        mean = sum(min(20, abs(i - first)) for i in outside) / len(outside) if outside else 20.0
        return {
            "near": math.log(near),
            "mean": math.log1p(mean),
            "before": before,
            "head:near": math.log(to_head),
            "start": float(first <= 1),
            "late": first / len(self.words),
        }

    def _cues(self, first: int, last: int) -> Features:
        """The words just outside the span, for this kind of question."""
        kind = self.question.kind
        found: Features = {}
        at = first - 1
        if at >= 0 and self.words[at].text.lower() in _ARTICLES:
            found["article:" + self.words[at].text.lower()] = 1.0
            at -= 1
        word = self.words[at].text.lower() if at >= 0 else "^"
        cue = _CUES.get(word, "^" if word == "^" else "other")
        found[f"cue:{cue}"] = 1.0
        found[f"cue:{kind}:{cue}"] = 1.0
        if at >= 1:
            before = self.stems[at - 1]
            found[f"hit:{cue}"] = float(before in self.question.terms)
            found[f"head:{cue}"] = float(before == self.question.head)
        after = self.words[last + 1].text.lower() if last + 1 < len(self.words) else "$"
        found["after:" + (_CUES.get(after) or ("stop" if after in ".;:$" else "other"))] = 1.0
        found["split"] = float(
            last + 1 < len(self.words)
            and self.words[last + 1].is_word
            and not self.words[last + 1].is_stop
        )
        found["split:before"] = float(
            first > 0 and self.words[first - 1].is_word and not self.words[first - 1].is_stop
        )
        return found


WEIGHTS: dict[str, float] = {
    "after:as": 0.12,
    "after:by": -0.13,
    "after:comma": 0.21,
    "after:for": -0.35,
    "after:is": 0.34,
    "after:of": -0.82,
    "after:on": -0.29,
    "after:open": 1.09,
    "after:other": -0.4,
    "after:stop": 0.48,
    "after:than": 0.42,
    "after:to": -0.54,
    "after:with": -0.19,
    "article:a": 0.32,
    "article:the": -0.14,
    "asked": -0.83,
    "asked:all": -1.3,
    "asked:some": -0.43,
    "before": 0.11,
    "cue:^": 0.51,
    "cue:as": -0.13,
    "cue:by": 0.39,
    "cue:comma": 0.19,
    "cue:date:^": -0.2,
    "cue:date:and": -0.36,
    "cue:date:as": -0.2,
    "cue:date:by": -0.28,
    "cue:date:comma": -0.38,
    "cue:date:for": -0.12,
    "cue:date:from": 0.47,
    "cue:date:in": 0.64,
    "cue:date:is": -0.21,
    "cue:date:of": -0.28,
    "cue:date:on": 0.93,
    "cue:date:other": -0.13,
    "cue:definition:other": -0.26,
    "cue:in": 0.13,
    "cue:is": -0.21,
    "cue:list:and": 0.13,
    "cue:list:comma": 0.75,
    "cue:list:in": -0.3,
    "cue:list:is": -0.23,
    "cue:list:of": -0.16,
    "cue:list:other": -0.23,
    "cue:number:^": -0.24,
    "cue:number:and": 0.2,
    "cue:number:in": -0.21,
    "cue:number:of": 0.3,
    "cue:number:on": -0.12,
    "cue:number:open": -0.22,
    "cue:number:other": 0.2,
    "cue:number:to": 0.42,
    "cue:of": -0.3,
    "cue:open": -0.1,
    "cue:other": -0.4,
    "cue:person:^": 0.6,
    "cue:person:and": 0.36,
    "cue:person:as": -0.47,
    "cue:person:by": 0.87,
    "cue:person:comma": 0.31,
    "cue:person:for": -0.32,
    "cue:person:from": -0.35,
    "cue:person:in": -1.07,
    "cue:person:is": 0.36,
    "cue:person:of": -0.28,
    "cue:person:on": -0.52,
    "cue:person:open": 0.32,
    "cue:person:other": 0.12,
    "cue:person:than": -0.17,
    "cue:person:that": 0.14,
    "cue:person:to": -0.15,
    "cue:person:with": 0.25,
    "cue:phrase:^": 0.25,
    "cue:phrase:and": -0.19,
    "cue:phrase:as": 0.66,
    "cue:phrase:comma": -0.13,
    "cue:phrase:for": 0.52,
    "cue:phrase:from": -0.18,
    "cue:phrase:is": 0.14,
    "cue:phrase:of": 0.24,
    "cue:phrase:on": -0.35,
    "cue:phrase:than": -0.13,
    "cue:phrase:that": -0.16,
    "cue:phrase:to": -0.22,
    "cue:phrase:with": -0.41,
    "cue:place:^": -0.14,
    "cue:place:as": -0.25,
    "cue:place:by": -0.27,
    "cue:place:comma": -0.43,
    "cue:place:for": -0.11,
    "cue:place:from": 0.15,
    "cue:place:in": 1.07,
    "cue:place:is": -0.19,
    "cue:place:open": -0.24,
    "cue:place:other": -0.12,
    "cue:place:that": -0.12,
    "cue:place:to": 0.19,
    "cue:place:with": 0.37,
    "cue:than": -0.3,
    "cue:to": 0.12,
    "cue:with": 0.32,
    "full:date": 0.91,
    "gap": -1.06,
    "head:and": -0.17,
    "head:comma": 0.25,
    "head:inside": 0.35,
    "head:last": 0.44,
    "head:near": -0.74,
    "head:of": -0.17,
    "head:other": -0.2,
    "hit:by": 0.14,
    "hit:comma": -0.31,
    "hit:for": 0.11,
    "hit:is": 0.49,
    "hit:of": -0.32,
    "hit:other": 0.32,
    "hit:than": 0.19,
    "kind:date:date": 1.97,
    "kind:date:name": -0.39,
    "kind:date:number": -0.66,
    "kind:date:phrase": -1.2,
    "kind:date:quote": 0.36,
    "kind:definition:phrase": -0.19,
    "kind:list:list": -0.15,
    "kind:list:name": 0.53,
    "kind:list:number": -0.21,
    "kind:number:date": -0.24,
    "kind:number:name": -0.58,
    "kind:number:number": 1.64,
    "kind:number:phrase": -0.78,
    "kind:person:date": -0.29,
    "kind:person:list": -0.16,
    "kind:person:name": 2.04,
    "kind:person:number": -0.6,
    "kind:person:phrase": -0.9,
    "kind:phrase:date": -0.2,
    "kind:phrase:list": -0.32,
    "kind:phrase:name": 0.13,
    "kind:phrase:number": -0.17,
    "kind:phrase:phrase": -0.35,
    "kind:phrase:quote": 0.91,
    "kind:place:date": -0.32,
    "kind:place:list": -0.21,
    "kind:place:name": 1.18,
    "kind:place:number": -0.45,
    "kind:place:phrase": -0.2,
    "late": -0.44,
    "length": -0.58,
    "length:date:1": -0.26,
    "length:date:3": 0.79,
    "length:date:5": -0.15,
    "length:date:6": -0.39,
    "length:definition:1": -0.51,
    "length:definition:2": 0.14,
    "length:definition:3": 0.19,
    "length:list:1": -0.34,
    "length:list:2": 0.37,
    "length:list:3": 0.31,
    "length:list:5": -0.11,
    "length:list:6": -0.26,
    "length:number:1": 0.28,
    "length:number:6": -0.13,
    "length:person:1": -0.81,
    "length:person:2": 0.94,
    "length:person:3": 0.74,
    "length:person:4": -0.21,
    "length:person:6": -0.64,
    "length:phrase:1": -0.32,
    "length:phrase:2": 0.96,
    "length:phrase:4": 0.15,
    "length:phrase:5": -0.11,
    "length:phrase:6": -0.66,
    "length:place:1": -0.7,
    "length:place:2": 0.37,
    "length:place:3": 0.41,
    "length:place:4": 0.32,
    "length:place:5": 0.16,
    "length:place:6": -0.55,
    "mean": -0.21,
    "near": -0.12,
    "order": -0.92,
    "split": -0.11,
    "split:before": 0.13,
    "titled:date": 0.21,
    "titled:definition": 0.48,
    "titled:list": 0.49,
    "titled:number": -0.16,
    "titled:person": 0.75,
    "titled:phrase": 1.59,
    "titled:place": 0.3,
    "year:date": 1.02,
    "year:number": -0.19,
    "year:person": -0.1,
    "year:phrase": -0.23,
    "year:place": -0.18,
}


SENTENCES = 4
"""Best sentences whose spans compete."""

_HAND_SET = {"head:is": 1.5}
"""Set by hand, as too rare to fit: "whose *capital* is …" answers "what is the capital"."""


class RankedSpan(NamedTuple):
    """A span, its sentence, and the ranker's probability for it."""

    text: str
    end: int
    """Where the span ends in its sentence."""
    evidence: Evidence
    confidence: float


def rank_spans(question: Question, found: Sequence[Evidence]) -> list[RankedSpan]:
    """Return the spans of the first sentences of `found` (best first), most probable first."""
    scored: list[tuple[float, Span, Evidence]] = []
    for order, evidence in enumerate(found[:SENTENCES]):
        extractor = FeatureExtractor(question, evidence, found[0].score, order)
        scored += [
            (span_score(extractor.features(span)), span, evidence) for span in spans(evidence.text)
        ]
    if not scored:
        return []
    top = max(score for score, _, _ in scored)
    total = sum(math.exp(score - top) for score, _, _ in scored)
    ordered = sorted(scored, key=lambda one: -one[0])
    return [
        RankedSpan(span.text, span.end, evidence, math.exp(score - top) / total)
        for score, span, evidence in ordered
    ]


def span_score(features: Features) -> float:
    """Return the ranker's score of a span: the weighted sum of its features."""
    fitted = sum(WEIGHTS.get(name, 0.0) * amount for name, amount in features.items())
    return fitted + sum(weight * features.get(name, 0.0) for name, weight in _HAND_SET.items())
