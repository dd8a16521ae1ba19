"""FILCO's measures of how much a span helps: STRINC, LEXICAL and CXMI.

Source: Wang et al., "Learning to Filter Context for Retrieval-Augmented Generation", section 2.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from ragweave.tools.filters.forms import generator_input
from ragweave.tools.filters.spans import Span
from ragweave.tools.scorers.protocol import LogprobScorer
from ragweave.tools.text.normalize import words

Unit = Literal["words", "characters"]
"""What LEXICAL counts: words (the paper's unigrams), or characters as the released code does."""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def strinc(span_text: str, answers: Sequence[str]) -> float:
    """Return 1.0 if the span contains an answer, lower-cased, as a substring, else 0.0.

    A blank answer is contained in nothing.
    """
    lowered = span_text.lower()
    return float(any(answer.strip() and answer.lower() in lowered for answer in answers))


def lexical(span_text: str, target: str, unit: Unit = "words") -> float:
    """Return the unigram F1 of the span with the target, in [0, 1].

    Args:
        span_text: The span.
        target: The gold output (QA, dialogue) or the query (fact verification).
        unit: `words` counts lower-cased words; `characters` counts what the released code does:
            every character, spaces and punctuation too, of the lower-cased text without articles.
    """
    span, wanted = _units(span_text, unit), _units(target, unit)
    same = sum((Counter(span) & Counter(wanted)).values())
    return 2 * same / (len(span) + len(wanted)) if same else 0.0


def cxmi(
    spans: Sequence[Span], question: str, output: str, scorer: LogprobScorer, lead: str = ""
) -> list[float]:
    """Return, a span t, log M(o | t ⊕ q) − log M(o | q); above 0 the span helps.

    One call to the scorer: the base log-probability is computed once, all spans with it.

    Args:
        spans: What is scored.
        question: q.
        output: o, the gold output (the released code takes the first gold answer).
        scorer: M.
        lead: Text between the question and the output. The released code, over FLAN-T5, has
            none; a causal model wants one, such as a new line and `answer: `.
    """
    if not spans:
        return []
    prompts = [generator_input(question), *(generator_input(question, s["text"]) for s in spans)]
    base, *scores = scorer.score([(prompt + lead, output) for prompt in prompts])
    return [score - base for score in scores]


def _units(text: str, unit: Unit) -> Sequence[str]:
    """Return what LEXICAL counts of `text`."""
    if unit == "words":
        return words(text)
    return " ".join(_ARTICLES.sub(" ", text.lower()).split())
