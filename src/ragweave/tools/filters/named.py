"""Context filters by name, for graphs and the command line."""

from __future__ import annotations

from ragweave.errors import UsageError
from ragweave.tools.filters.measures import Unit
from ragweave.tools.filters.oracles import (
    CXMI_THRESHOLD,
    CxmiFilter,
    FullFilter,
    LexicalFilter,
    StrincFilter,
)
from ragweave.tools.filters.protocol import ContextFilter
from ragweave.tools.filters.spans import Granularity
from ragweave.tools.scorers.protocol import LogprobScorer

FILTERS = ("full", "strinc", "lexical", "cxmi")
"""Names that `context_filter` takes."""


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
    if name == "full":
        return FullFilter()
    if name == "strinc":
        return StrincFilter(top, granularity)
    if name == "lexical":
        return LexicalFilter(threshold, top, unit=unit, granularity=granularity)
    if name != "cxmi":
        raise UsageError(f"no context filter is called {name!r}: take {', '.join(FILTERS)}")
    if scorer is None:
        raise UsageError("the cxmi filter needs a scorer: scorer=HuggingFaceScorer(model)")
    least = CXMI_THRESHOLD if threshold is None else threshold
    return CxmiFilter(scorer, least, top, granularity, lead)
