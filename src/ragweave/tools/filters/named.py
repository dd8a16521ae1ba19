"""Context filters by name, for graphs and the command line.

A filter is declared by one value, whether ours or a package's:

    FILTER = FilterKind(name="first", summary="The first sentence of each passage.",
                        make=lambda settings: FirstSentence(settings.top))

A package names it as an entry point of the group `ragweave.filters`; `filter="first"` then selects
it in `filco` and `adaptive`. `apply_spans` turns the spans that a filter keeps into passages.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.registry import Registry
from ragweave.state.passages import with_id
from ragweave.tools.filters.encoders import RecompFilter
from ragweave.tools.filters.oracles import (
    CXMI_THRESHOLD,
    CxmiFilter,
    FullFilter,
    LexicalFilter,
    StrincFilter,
    Unit,
)
from ragweave.tools.filters.provence import ProvenceFilter
from ragweave.tools.filters.spans import ContextFilter, Granularity, Span
from ragweave.tools.scorers.specs import LogprobScorer

CHARACTERS_A_TOKEN = 4
"""What an English token takes on average; saved tokens are an estimate from characters."""


class FilteredPassages(NamedTuple):
    """What is left of passages after a filter."""

    passages: list[Document]
    full: bool
    """True: no span was kept, so these are the full passages (the released code's fallback)."""


def apply_spans(passages: Sequence[Document], spans: Iterable[Span]) -> FilteredPassages:
    """Build the filtered passages: of each its kept spans, in reading order.

    A filtered passage keeps its id, rank and other metadata and gains `metadata["spans"]`, a list
    of `[start, end]` into the text that it was filtered from, and `metadata["full_length"]`, that
    text's length in characters. Spans that overlap are merged, offsets beyond the text are
    clipped, spans of other passages are ignored. A passage without spans, or whose id came before,
    is dropped.

    Args:
        passages: Best first; their order is kept.
        spans: What a filter kept, in any order.
    """
    wanted: dict[str, list[tuple[int, int]]] = {}
    for span in spans:
        wanted.setdefault(span["passage_id"], []).append((span["start"], span["end"]))
    named = list(map(with_id, passages))
    kept = [
        _cut(passage, merged)
        for passage in named
        if (merged := _merged(wanted.pop(str(passage.id), ()), len(passage.page_content)))
    ]
    return FilteredPassages(kept or named, full=not kept)


def by_best_span(passages: Sequence[Document], spans: Iterable[Span]) -> list[Document]:
    """Order passages by the score of their best span; those without any come last, as they stand.

    A filter that scores passages as a whole (`passage_score`) orders them by that.
    `metadata["rank"]` follows.
    """
    best: dict[str, float] = {}
    for span in spans:
        name = span["passage_id"]
        score = span.get("passage_score", span.get("score", 0.0))
        best[name] = max(best.get(name, -math.inf), score)
    named = sorted(map(with_id, passages), key=lambda doc: -best.get(str(doc.id), -math.inf))
    return [
        doc.model_copy(update={"metadata": {**doc.metadata, "rank": rank}})
        for rank, doc in enumerate(named)
    ]


def saved_tokens(before: Iterable[Document], after: Iterable[Document]) -> int:
    """Estimate the tokens that a filter kept out of a prompt (characters / 4), at least 0."""
    dropped = _length(before) - _length(after)
    return max(0, dropped // CHARACTERS_A_TOKEN)


def _length(passages: Iterable[Document]) -> int:
    """Return the characters of all texts together."""
    return sum(len(passage.page_content) for passage in passages)


def _merged(pairs: Iterable[tuple[int, int]], length: int) -> list[list[int]]:
    """Clip offsets to the text, sort them and merge those that overlap."""
    merged: list[list[int]] = []
    for start, end in sorted((max(0, start), min(end, length)) for start, end in pairs):
        if start >= end:
            continue
        if merged and start < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def _cut(passage: Document, spans: list[list[int]]) -> Document:
    """Return a copy of `passage` that holds only `spans`."""
    text = passage.page_content
    return passage.model_copy(
        update={
            "page_content": " ".join(text[start:end] for start, end in spans),
            "metadata": {**passage.metadata, "spans": spans, "full_length": len(text)},
        }
    )


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """The settings of a filter; each uses those that apply to it."""

    scorer: LogprobScorer | None = None
    """What scores outputs, where the run has one; `ragweave.tools.scorers.scored` asks it so that
    the run's usage counts the call."""
    granularity: Granularity = "sentence"
    """Sentences, or whole passages (PSG)."""
    top: int | None = 1
    """How many spans to keep; None: all that pass."""
    threshold: float | None = None
    """What a span's score must exceed; None: the filter's own."""
    unit: Unit = "words"
    """What `lexical` counts."""
    encoder: str = ""
    """Bi-encoder of `recomp` (empty: the packaged MiniLM), checkpoint of `provence`."""
    lead: str | None = None
    """Text between question and output for `cxmi`; None takes the scorer's (`scorer_lead`)."""


@dataclass(frozen=True, kw_only=True)
class FilterKind:
    """A context filter: its name, and how it is made."""

    name: str
    summary: str
    """What it keeps, in a line."""
    make: Callable[[FilterSettings], ContextFilter]
    """Makes the filter; raises `UsageError` for a setting that it can't take."""


def _cxmi(settings: FilterSettings) -> ContextFilter:
    if settings.scorer is None:
        raise UsageError("the cxmi filter needs a scorer: scorer=HuggingFaceScorer(model)")
    least = CXMI_THRESHOLD if settings.threshold is None else settings.threshold
    return CxmiFilter(settings.scorer, least, settings.top, settings.granularity, settings.lead)


_OURS = (
    FilterKind(
        name="full",
        summary="Every passage whole: the paper's baseline.",
        make=lambda _settings: FullFilter(),
    ),
    FilterKind(
        name="strinc",
        summary="Spans that contain an answer (STRINC).",
        make=lambda settings: StrincFilter(settings.top, settings.granularity),
    ),
    FilterKind(
        name="lexical",
        summary="Spans that share words with the answer or the question (LEXICAL).",
        make=lambda settings: LexicalFilter(
            settings.threshold,
            settings.top,
            unit=settings.unit,
            granularity=settings.granularity,
        ),
    ),
    FilterKind(
        name="cxmi",
        summary="Spans that raise the output's probability (CXMI); needs a scorer.",
        make=_cxmi,
    ),
    FilterKind(
        name="recomp",
        summary="Sentences that a bi-encoder finds nearest to the question (RECOMP, extractive).",
        make=lambda settings: RecompFilter(
            settings.encoder or "minilm", settings.threshold, settings.top, settings.granularity
        ),
    ),
    FilterKind(
        name="provence",
        summary="Sentences whose tokens a pruning checkpoint finds relevant (Provence).",
        make=lambda settings: ProvenceFilter(
            settings.encoder, settings.threshold, settings.granularity
        ),
    ),
)

FILTERS: Registry[FilterKind] = Registry(
    "ragweave.filters", FilterKind, "context filter", lambda: _OURS
)
"""Every filter by name: ours, then those of other packages (entry points `ragweave.filters`)."""


_KEPT = 8
"""Most filters of one kind that are kept for the settings of later runs."""


class _MadeFilters:
    """The filters of one kind by their settings: each is made once, for it may load a model."""

    def __init__(self, kind: FilterKind) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._made: dict[Hashable, tuple[FilterSettings, ContextFilter]] = {}

    def of(self, settings: FilterSettings) -> ContextFilter:
        """Return the filter of these settings; whoever needs it meanwhile waits for it."""
        # A scorer may have no hash; kept beside its filter, it keeps its identity as well.
        key = id(settings.scorer), replace(settings, scorer=None)
        with self._lock:
            if key not in self._made:
                made = self._kind.make(settings)
                if len(self._made) >= _KEPT:
                    del self._made[next(iter(self._made))]
                self._made[key] = settings, made
            return self._made[key][1]


@dataclass(frozen=True)
class RegisteredFilter:
    """A filter of another package, made once for each of the settings that runs have."""

    kind: FilterKind
    settings: FilterSettings = field(default_factory=FilterSettings)
    _made: _MadeFilters | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Begin without any filter made."""
        if self._made is None:
            object.__setattr__(self, "_made", _MadeFilters(self.kind))

    def made(self) -> ContextFilter:
        """Return the filter itself.

        Raises:
            UsageError: It can't take these settings.
        """
        assert self._made is not None  # noqa: S101 - `__post_init__` sets it
        return self._made.of(self.settings)

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,
    ) -> list[Span]:
        """Return what the filter keeps, best first."""
        return self.made().keep(question, passages, answers=answers)

    def with_settings(self, settings: FilterSettings) -> RegisteredFilter:
        """Return the filter with a run's settings."""
        return replace(self, settings=settings)


def context_filter(
    name: str,
    *,
    scorer: LogprobScorer | None = None,
    granularity: Granularity = "sentence",
    top: int | None = 1,
    threshold: float | None = None,
    unit: Unit = "words",
    lead: str | None = None,
    encoder: str = "",
) -> ContextFilter:
    """Return the filter called `name`; options that it does not have are left aside.

    Args:
        name: One of `FILTERS`.
        scorer: The scoring model that `cxmi` needs.
        granularity: Sentences, or whole passages (PSG).
        top: How many spans to keep; None: all that pass.
        threshold: None takes the measure's own.
        unit: What `lexical` counts.
        lead: Text between question and output for `cxmi`; None takes the scorer's (`scorer_lead`).
        encoder: Bi-encoder of `recomp` (empty: the packaged MiniLM), checkpoint of `provence`.

    Raises:
        UsageError: No such filter, an option out of range, or `cxmi` without a scorer.
    """
    settings = FilterSettings(
        scorer=scorer,
        granularity=granularity,
        top=top,
        threshold=threshold,
        unit=unit,
        lead=lead,
        encoder=encoder,
    )
    return FILTERS.named(name).make(settings)
