"""Context filters: each scores the segments of passages, and the best above a threshold stay.

A filter is declared by one value, whether ours, a trained one's or a package's:

    FILTER = FilterKind(name="first", summary="The first sentence of each passage.", scores=first)

with a function `first(question, segments, answers, settings)` that returns a score for each segment.
A package lists it as an entry point of the group `ragweave.filters`. Any object with a method
`scores(question, segments, answers)` is a filter, too (`ContextFilter`).

Sources: Wang et al. 2023 (FILCO), section 2.2: STRINC, LEXICAL, CXMI; Xu et al. 2024 (RECOMP: Improving
Retrieval-Augmented LMs with Compression and Selective Augmentation), section 3.1: question and sentences
are encoded separately, and the nearest ones stay; the paper trains Contriever for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from langchain_core.documents import Document
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.registry import Registry
from ragweave.tools.filters import measures
from ragweave.tools.filters.measures import Unit
from ragweave.tools.models.scoring import LogprobScorer
from ragweave.tools.retrieval.reranking import BiEncoderScorer

Granularity = Literal["sentence", "passage"]
"""What is kept or dropped: sentences, or whole passages (the paper's PSG)."""

FilterName = Literal["lexical", "strinc", "cxmi", "recomp", "full", "llm", "own"]
"""The filters that a run may choose: ours, a model that names sentences, or the one that the graph was built with."""


class Span(TypedDict):
    """A segment in plain JSON values, as rows of training data hold it: `passage[start:end] == text`."""

    passage_id: str
    start: int
    end: int
    text: str
    score: float


def span_of(segment: Document, score: float = 0.0) -> Span:
    """Return a segment, as `split_passages` makes it, as a span."""
    start, text = segment.metadata["start"], segment.page_content
    return {"passage_id": str(segment.id), "start": start, "end": start + len(text), "text": text, "score": score}


@runtime_checkable
class ContextFilter(Protocol):
    """Says how much each segment of the passages helps."""

    def scores(self, question: str, segments: Sequence[Document], answers: Sequence[str]) -> Sequence[float]:
        """Return a score for each segment; what is not above the option `threshold`, or 0, is dropped.

        Args:
            question: The question.
            segments: Sentences or passages, each with its passage's id and metadata; `metadata["start"]`
                is where it begins in its passage.
            answers: Right answers, if the input brought some: the filter is then FILCO's oracle.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """The settings of a filter; each uses those that apply to it."""

    scorer: LogprobScorer | None = None
    """What scores outputs; the run's usage counts its calls."""
    unit: Unit = "words"
    """What `lexical` counts."""
    encoder: str = ""
    """The bi-encoder of `recomp`; empty: the packaged MiniLM."""
    lead: str | None = None
    """Text between question and output for `cxmi`; None: as the scorer needs it."""


Scores: TypeAlias = Callable[[str, Sequence[Document], Sequence[str], FilterSettings], Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class FilterKind:
    """A context filter: its name, how it scores, and what it keeps by default."""

    name: str
    summary: str
    """What it keeps, in a line."""
    scores: Scores
    """From question, segments and right answers (maybe none) to a score for each segment."""
    threshold: float = 0.0
    """What a score must exceed."""
    oracle_threshold: float | None = None
    """The same if there are answers; None: `threshold`."""
    top: int | None = 1
    """Most segments kept; None: all above the threshold."""
    granularity: Granularity | None = None
    """The only granularity that it has; None: any."""
    reads_answers: bool = True
    """Whether right answers change its scores."""
    untrained: bool = False
    """Whether it only compares with the question, if there is no answer: half of the text then stays."""
    may_drop_all: bool = False
    """Whether it may leave no passage; otherwise all stay if none is kept."""

    def best(
        self, scores: Sequence[float], *, top: int | None = 1, threshold: float | None = None, answers: bool = False
    ) -> list[int]:
        """Return the indices of the segments to keep, best first; of equal ones the first comes first.

        Args:
            scores: A score for each segment.
            top: Most segments; None: all above the threshold.
            threshold: What a score must exceed; None: the filter's own.
            answers: Whether the scores are those against answers.
        """
        usual = self.oracle_threshold if answers else None
        least = threshold if threshold is not None else usual if usual is not None else self.threshold
        above = [at for at, score in enumerate(scores) if score > least]
        return sorted(above, key=lambda at: -scores[at])[:top]


def best_share(segments: Sequence[Document], best: Sequence[int], characters: float) -> list[int]:
    """Return as many of the best segments as make up a number of characters, at least one.

    Args:
        segments: All segments.
        best: Indices of segments, best first.
        characters: The length to reach.
    """
    taken: list[int] = []
    for at in best:
        if characters <= 0:
            break
        taken.append(at)
        characters -= len(segments[at].page_content)
    return taken


def filter_of(own: FilterKind | ContextFilter) -> FilterKind:
    """Return a caller's filter as a `FilterKind`; of an object's segments all above the threshold stay.

    Raises:
        UsageError: It is no filter.
    """
    if isinstance(own, FilterKind):
        return own
    if not isinstance(own, ContextFilter):
        raise UsageError(
            f"a context filter needs a method scores(question, segments, answers), which {type(own).__name__} lacks"
        )
    name = type(own).__name__
    return FilterKind(name=name, summary="", scores=lambda q, segments, a, _: own.scores(q, segments, a), top=None)


def _full(_question: str, segments: Sequence[Document], _answers: Sequence[str], _: FilterSettings) -> list[float]:
    return [1.0] * len(segments)


def _strinc(question: str, segments: Sequence[Document], answers: Sequence[str], _: FilterSettings) -> list[float]:
    outputs = measures.outputs_of(question, answers)
    return [measures.strinc(one.page_content, outputs) for one in segments]


def _lexical(
    question: str, segments: Sequence[Document], answers: Sequence[str], settings: FilterSettings
) -> list[float]:
    targets = measures.outputs_of(question, answers) or [question]
    return [max(measures.lexical(one.page_content, target, settings.unit) for target in targets) for one in segments]


def _cxmi(question: str, segments: Sequence[Document], answers: Sequence[str], settings: FilterSettings) -> list[float]:
    if settings.scorer is None:
        raise UsageError("the cxmi filter needs a scorer: build_graph(…, scorer=scorer_of('llamacpp:model.gguf'))")
    texts, output = [one.page_content for one in segments], measures.outputs_of(question, answers)[0]
    return measures.cxmi(texts, question, output, settings.scorer, settings.lead)


_ENCODING = threading.Lock()
"""Tokenizers and most encoders are not safe under threads."""


def _recomp(
    question: str, segments: Sequence[Document], _answers: Sequence[str], settings: FilterSettings
) -> list[float]:
    with _ENCODING:
        return list(_encoder(settings.encoder or "minilm").predict([(question, one.page_content) for one in segments]))


@lru_cache(maxsize=2)
def _encoder(name: str) -> BiEncoderScorer:
    return BiEncoderScorer(name)


LEXICAL = FilterKind(
    name="lexical",
    summary="Segments that share words with an answer, or with the question (LEXICAL).",
    scores=_lexical,
    oracle_threshold=0.5,
    untrained=True,
)
_OURS = (
    FilterKind(
        name="full",
        summary="Every passage whole (FULL).",
        scores=_full,
        top=None,
        granularity="passage",
        reads_answers=False,
    ),
    FilterKind(name="strinc", summary="Segments that contain an answer (STRINC).", scores=_strinc),
    LEXICAL,
    FilterKind(
        name="cxmi", summary="Segments that make the answer more probable (CXMI); needs a scorer.", scores=_cxmi
    ),
    FilterKind(
        name="recomp",
        summary="Sentences that a bi-encoder finds nearest to the question (RECOMP, extractive).",
        scores=_recomp,
        threshold=-2.0,  # below any cosine
        reads_answers=False,
        untrained=True,
    ),
)
FILTERS: Registry[FilterKind] = Registry("ragweave.filters", FilterKind, "context filter", lambda: _OURS)
"""Every filter by name: ours, then those of other packages (entry points `ragweave.filters`)."""
