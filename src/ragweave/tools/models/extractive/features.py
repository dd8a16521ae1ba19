"""What speaks for a span as the answer: the features of the span ranker."""

from __future__ import annotations

import math

from ragweave.tools.models.extractive.evidence import Evidence
from ragweave.tools.models.extractive.question import Question
from ragweave.tools.models.extractive.spans import Span
from ragweave.tools.models.extractive.words import Token, stem, terms, tokens

Features = dict[str, float]

_CUES = {
    "by": "by", "in": "in", "at": "in", "near": "in", "on": "on", "since": "on", "until": "on",
    "is": "is", "was": "is", "are": "is", "were": "is", "be": "is", "as": "as", "called": "as",
    "named": "as", "to": "to", "from": "from", "of": "of", "for": "for", "with": "with",
    "and": "and", ",": "comma", "(": "open", "than": "than", "between": "than", "about": "than",
    "approximately": "than", "through": "with", "that": "that", "which": "that",
}  # fmt: skip
_ARTICLES = frozenset({"the", "a", "an"})


class Scene:
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
