"""Context filters by name, for graphs and the command line.

A filter is declared by one value, ours and other people's alike:

    FILTER = FilterKind(name="first", summary="The first sentence of each passage.",
                        make=lambda settings: FirstSentence(settings.top))

A package names it as an entry point of the group `ragweave.filters`; it is then what
`filter="first"` asks for in `filco` and `adaptive`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.registry import Registry
from ragweave.tools.filters.measures import Unit
from ragweave.tools.filters.oracles import (
    CXMI_THRESHOLD,
    CxmiFilter,
    FullFilter,
    LexicalFilter,
    StrincFilter,
)
from ragweave.tools.filters.protocol import ContextFilter
from ragweave.tools.filters.spans import Granularity, Span
from ragweave.tools.scorers.protocol import LogprobScorer


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """What a filter may be told; it leaves aside what it doesn't have."""

    scorer: LogprobScorer | None = None
    """What scores outputs, where the run has one."""
    granularity: Granularity = "sentence"
    """Sentences, or whole passages (PSG)."""
    top: int | None = 1
    """How many spans to keep; None: all that pass."""
    threshold: float | None = None
    """What a span's score must exceed; None: the filter's own."""
    unit: Unit = "words"
    """What `lexical` counts."""
    lead: str | None = None
    """Text between question and output for `cxmi`; None takes the scorer's (`lead_of`)."""


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
)

FILTERS: Registry[FilterKind] = Registry(
    "ragweave.filters", FilterKind, "context filter", lambda: _OURS
)
"""Every filter by name: ours, then those of other packages (entry points `ragweave.filters`)."""


@dataclass(frozen=True)
class RegisteredFilter:
    """A filter of another package, made anew for each run's options."""

    kind: FilterKind
    settings: FilterSettings = field(default_factory=FilterSettings)

    def keep(
        self,
        question: str,
        passages: Sequence[Document],
        *,
        answers: Sequence[str] | None = None,
    ) -> list[Span]:
        """Return what the filter keeps, best first."""
        return self.kind.make(self.settings).keep(question, passages, answers=answers)

    def followed(self, settings: FilterSettings) -> RegisteredFilter:
        """Return the filter with a run's settings."""
        return RegisteredFilter(self.kind, settings)


def context_filter(
    name: str,
    *,
    scorer: LogprobScorer | None = None,
    granularity: Granularity = "sentence",
    top: int | None = 1,
    threshold: float | None = None,
    unit: Unit = "words",
    lead: str | None = None,
) -> ContextFilter:
    """Return the filter called `name`; options that it does not have are left aside.

    Args:
        name: One of `FILTERS`.
        scorer: The scoring model that `cxmi` needs.
        granularity: Sentences, or whole passages (PSG).
        top: How many spans to keep; None: all that pass.
        threshold: None takes the measure's own.
        unit: What `lexical` counts.
        lead: Text between question and output for `cxmi`; None takes the scorer's (`lead_of`).

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
    )
    return FILTERS.named(name).make(settings)
