"""Context filters (FILCO): spans of passages, measures of them, and what keeps the best."""

from ragweave.tools.filters.encoders import RecompFilter
from ragweave.tools.filters.named import (
    FILTERS,
    FilteredPassages,
    FilterKind,
    FilterSettings,
    RegisteredFilter,
    apply_spans,
    by_best_span,
    context_filter,
    saved_tokens,
)
from ragweave.tools.filters.oracles import (
    CxmiFilter,
    FullFilter,
    LexicalFilter,
    StrincFilter,
    Unit,
    answer_line,
    best_share,
    claim_of,
    context_line,
    cxmi,
    filter_input,
    generator_input,
    labels_of,
    lexical,
    only_verdicts,
    question_line,
    scorer_lead,
    strinc,
)
from ragweave.tools.filters.provence import ProvenceFilter
from ragweave.tools.filters.spans import ContextFilter, Granularity, Span, spans_of

__all__ = [
    # spans and what becomes of them
    "Granularity",
    "Span",
    "spans_of",
    "FilteredPassages",
    "apply_spans",
    "by_best_span",
    "best_share",
    "saved_tokens",
    # measures
    "Unit",
    "strinc",
    "lexical",
    "cxmi",
    # filters
    "ContextFilter",
    "FullFilter",
    "StrincFilter",
    "LexicalFilter",
    "CxmiFilter",
    "RecompFilter",
    "ProvenceFilter",
    "scorer_lead",
    "FILTERS",
    "FilterKind",
    "FilterSettings",
    "RegisteredFilter",
    "context_filter",
    # text forms
    "question_line",
    "context_line",
    "answer_line",
    "filter_input",
    "generator_input",
    # fact verification
    "claim_of",
    "labels_of",
    "only_verdicts",
]
