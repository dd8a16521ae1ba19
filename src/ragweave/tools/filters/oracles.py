"""FILCO's oracle filters: its three measures of how much a span helps, and FULL, which keeps all.

The measures are STRINC, LEXICAL and CXMI (Wang et al., "Learning to Filter Context for
Retrieval-Augmented Generation", section 2.2). FILCO's models read question, context and answer in
the form of its released code: `question: …`, `context: …`, `answer: …`, one line each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.tools.filters.spans import Granularity, Span, spans_of, with_score
from ragweave.tools.scorers.specs import LogprobScorer, scored
from ragweave.tools.text.normalize import words

_ASKED = "Is this claim true? "
_LABELS = {"yes": "SUPPORTS", "true": "SUPPORTS", "no": "REFUTES", "false": "REFUTES"}
_VERDICTS = frozenset({*_LABELS, "supports", "refutes"})


def claim_of(question: str) -> str:
    """Return the claim that a fact verification question asks about; any other as it is."""
    return question.removeprefix(_ASKED)


def only_verdicts(answers: Iterable[str]) -> bool:
    """Return whether gold answers are verdicts alone, which no sentence can be searched for."""
    plain = [answer.strip().lower() for answer in answers]
    return bool(plain) and all(answer in _VERDICTS for answer in plain)


def labels_of(verdicts: Iterable[str]) -> list[str]:
    """Return verdicts as FEVER's labels, the output that FILCO's measures look for."""
    return [_LABELS.get(verdict.strip().lower(), verdict) for verdict in verdicts]


def question_line(question: str) -> str:
    """Return `question: …`."""
    return f"question: {question}"


def context_line(context: str) -> str:
    """Return `context: …`."""
    return f"context: {context}"


def answer_line(answer: str) -> str:
    """Return `answer: …`, what the trained generator writes."""
    return f"answer: {answer}"


def filter_input(question: str, passages: Iterable[str]) -> str:
    """Return what the context filter M_ctx reads: the question, then the passages' texts."""
    context = "\n".join(passages)
    return f"{question_line(question)}\n{context_line(context)}"


def generator_input(question: str, context: str | None = None) -> str:
    """Return what the generator M_gen reads: the context, where there is one, then the question."""
    line = question_line(question)
    return line if context is None else f"{context_line(context)}\n{line}"


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
    base, *scores = scored(scorer, [(prompt + lead, output) for prompt in prompts])
    return [score - base for score in scores]


def _units(text: str, unit: Unit) -> Sequence[str]:
    """Return what LEXICAL counts of `text`."""
    if unit == "words":
        return words(text)
    return " ".join(_ARTICLES.sub(" ", text.lower()).split())


LEXICAL_THRESHOLD = 0.5
"""The paper's λ for LEXICAL against a gold output (or, in fact verification, the claim)."""

QUESTION_THRESHOLD = 0.0
"""Our λ for LEXICAL against the question alone: any shared word will do, `top` decides."""

CXMI_THRESHOLD = 0.0
"""λ for CXMI as a log-ratio: a span helps if it makes the output likelier.

The paper prints 0.0 and, for the ratio, 1.0; the released code's sigmoid makes it 0.5.
"""

CAUSAL_LEAD = "\nanswer: "
"""What stands between question and output for a causal scorer: FILCO's own line form."""


class FullFilter:
    """Keeps every passage whole: the paper's FULL baseline."""

    def keep(
        self,
        question: str,  # noqa: ARG002
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,  # noqa: ARG002
    ) -> list[Span]:
        """Return each passage as one span, in rank order."""
        return [with_score(span, 1.0) for span in spans_of(passages, "passage")]


class StrincFilter:
    """Keeps the first span, in rank order, that contains an answer (STRINC)."""

    def __init__(self, top: int | None = 1, granularity: Granularity = "sentence") -> None:
        """Set how many spans to keep.

        Args:
            top: The paper keeps the first (1); None keeps every one, as the released code does.
            granularity: Sentences, or passages (PSG).
        """
        self.top, self.granularity = checked_top(top), granularity

    def keep(
        self,
        question: str,  # noqa: ARG002
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,
    ) -> list[Span]:
        """Return the first spans that contain an answer.

        Raises:
            UsageError: No answer is given: STRINC has nothing to look for.
        """
        if not answers:
            raise UsageError(
                "the strinc filter needs answers: pass them, or use lexical or llm instead"
            )
        spans = spans_of(passages, self.granularity)
        return top_spans((with_score(s, strinc(s["text"], answers)) for s in spans), 0.0, self.top)


class LexicalFilter:
    """Keeps the spans with the best unigram F1 above a threshold (LEXICAL)."""

    def __init__(
        self,
        threshold: float | None = None,
        top: int | None = 1,
        target: Literal["answer", "question"] = "answer",
        unit: Unit = "words",
        granularity: Granularity = "sentence",
    ) -> None:
        """Set what spans are compared with and how many are kept.

        Args:
            threshold: F1 that a span must exceed. None takes 0.5 (the paper's) against answers
                and 0.0 against the question. Fact verification as in the paper is
                `threshold=0.5, target="question"`.
            top: How many spans to keep; None keeps all above the threshold.
            target: `answer` takes the best F1 over the answers, and the question where none are
                given (untrained mode); `question` never looks at answers.
            unit: Words, or characters as the released code counts.
            granularity: Sentences, or passages (PSG).

        Raises:
            UsageError: An option is out of range.
        """
        if threshold is not None and not 0 <= threshold <= 1:
            raise UsageError(f"threshold must be between 0 and 1, not {threshold}")
        if target not in ("answer", "question") or unit not in ("words", "characters"):
            raise UsageError(
                f"target must be answer or question, unit words or characters, "
                f"not {target!r} and {unit!r}"
            )
        self.threshold, self.top = threshold, checked_top(top)
        self.target, self.unit, self.granularity = target, unit, granularity

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,
    ) -> list[Span]:
        """Return the best spans above the threshold."""
        gold = self.target == "answer" and bool(answers)
        targets = list(answers or ()) if gold else [question]
        least = LEXICAL_THRESHOLD if gold else QUESTION_THRESHOLD
        spans = spans_of(passages, self.granularity)
        return top_spans(
            (
                with_score(s, max(lexical(s["text"], target, self.unit) for target in targets))
                for s in spans
            ),
            least if self.threshold is None else self.threshold,
            self.top,
        )


class CxmiFilter:
    """Keeps the spans that most raise the probability of the output (CXMI)."""

    def __init__(
        self,
        scorer: LogprobScorer,
        threshold: float = CXMI_THRESHOLD,
        top: int | None = 1,
        granularity: Granularity = "sentence",
        lead: str | None = None,
    ) -> None:
        """Set the scoring model.

        Args:
            scorer: The generator M, or a stand-in.
            threshold: Log-ratio that a span must exceed.
            top: How many spans to keep; None keeps all above the threshold.
            granularity: Sentences, or passages (PSG).
            lead: Text between question and output, see `measures.cxmi`; None takes the scorer's
                (`scorer_lead`).
        """
        self.scorer, self.threshold, self.top = scorer, threshold, checked_top(top)
        self.granularity, self.lead = granularity, lead

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,
    ) -> list[Span]:
        """Return the best spans above the threshold, for the first answer.

        Raises:
            UsageError: There is no answer, gold or heuristic, to measure the probability of.
        """
        if not answers:
            raise UsageError(
                "the cxmi filter needs an output to score: pass a gold or a heuristic answer"
            )
        spans = spans_of(passages, self.granularity)
        lead = scorer_lead(self.scorer) if self.lead is None else self.lead
        ratios = cxmi(spans, question, answers[0], self.scorer, lead)
        return top_spans(map(with_score, spans, ratios), self.threshold, self.top)


def scorer_lead(scorer: LogprobScorer) -> str:
    """Return the text between question and output that a scorer wants.

    A causal model continues the text and needs a lead-in to the answer; a
    sequence-to-sequence model writes it apart, without any (the released code's form). Scorers
    say which they are by `causal`; one that has no such attribute gets the released form.
    """
    return CAUSAL_LEAD if getattr(scorer, "causal", False) is True else ""


def top_spans(spans: Iterable[Span], threshold: float, top: int | None) -> list[Span]:
    """Return the `top` spans whose score exceeds `threshold`, best first, ties in given order."""
    above = [span for span in spans if span["score"] > threshold]
    return sorted(above, key=lambda span: -span["score"])[:top]


def best_share(spans: Iterable[Span], passages: Sequence[Document], share: float) -> list[Span]:
    """Return the best spans until they hold a share of the passages' text, at least one.

    Args:
        spans: Scored; of equal scores the first goes first.
        passages: What they were cut from.
        share: Of the characters, in (0, 1]; the span that reaches it is the last.
    """
    left = share * sum(len(passage.page_content) for passage in passages)
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: -span["score"]):
        if left <= 0:
            break
        kept.append(span)
        left -= span["end"] - span["start"]
    return kept


def checked_top(top: int | None) -> int | None:
    """Return `top`.

    Raises:
        UsageError: It is below 1.
    """
    if top is not None and top < 1:
        raise UsageError(f"top must be at least 1 (or None for all), not {top}")
    return top
