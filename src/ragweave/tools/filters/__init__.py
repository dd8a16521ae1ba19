"""Context filters (FILCO): spans of passages, measures of them, and what keeps the best."""

from ragweave.tools.filters.apply import Filtered, apply_spans, saved_tokens
from ragweave.tools.filters.forms import (
    answer_line,
    claim_of,
    context_line,
    filter_input,
    generator_input,
    only_verdicts,
    question_line,
)
from ragweave.tools.filters.measures import Unit, cxmi, lexical, strinc
from ragweave.tools.filters.named import (
    FILTERS,
    FilterKind,
    FilterSettings,
    RegisteredFilter,
    context_filter,
)
from ragweave.tools.filters.oracles import (
    CxmiFilter,
    FullFilter,
    LexicalFilter,
    StrincFilter,
    lead_of,
)
from ragweave.tools.filters.protocol import ContextFilter
from ragweave.tools.filters.spans import Granularity, Span, spans_of

__all__ = [
    # spans and what becomes of them
    "Granularity",
    "Span",
    "spans_of",
    "Filtered",
    "apply_spans",
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
    "lead_of",
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
    "only_verdicts",
]
