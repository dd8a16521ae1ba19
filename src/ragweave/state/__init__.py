"""What flows through every graph: the typed state, its records and its reducers."""

from ragweave.state.passages import (
    as_document,
    by_page,
    by_query,
    content_id,
    interleave,
    lowest_ranked,
    ranked,
    unique,
    with_id,
)
from ragweave.state.rag import AnswerType, RAGInput, RAGOutput, RAGState
from ragweave.state.records import (
    ROUTES,
    UNKNOWN,
    Candidate,
    Citation,
    Note,
    Quote,
    RouteName,
    Status,
    Tokens,
    Usage,
    add_usage,
    merge,
    merge_candidates,
    merge_notes,
    no_usage,
    note,
    running,
)

__all__ = [
    "ROUTES",
    "UNKNOWN",
    "AnswerType",
    "Candidate",
    "Citation",
    "Note",
    "Quote",
    "RAGInput",
    "RAGOutput",
    "RAGState",
    "RouteName",
    "Status",
    "Tokens",
    "Usage",
    "add_usage",
    "as_document",
    "by_page",
    "by_query",
    "content_id",
    "interleave",
    "lowest_ranked",
    "merge",
    "merge_candidates",
    "merge_notes",
    "no_usage",
    "note",
    "ranked",
    "running",
    "unique",
    "with_id",
]

UNKNOWN = "Unknown"
"""The answer of a run that found none."""
