"""What flows through every graph: the typed state, its records and its reducers."""

from ragweave.state.passages import (
    as_document,
    by_query,
    content_id,
    interleave,
    ranked,
    unique,
    with_id,
)
from ragweave.state.rag import (
    AnswerType,
    Branch,
    ClaimBranch,
    Passages,
    PassageSet,
    QueryBranch,
    RAGInput,
    RAGOutput,
    RAGState,
    Update,
)
from ragweave.state.records import (
    Candidate,
    Citation,
    Claim,
    Hop,
    Note,
    Quote,
    Status,
    Tokens,
    Usage,
    add_usage,
    merge_by_key,
    merge_candidates,
    merge_notes,
    no_usage,
    take_passages,
)

__all__ = [
    # the state
    "AnswerType",
    "Branch",
    "ClaimBranch",
    "PassageSet",
    "Passages",
    "QueryBranch",
    "RAGInput",
    "RAGOutput",
    "RAGState",
    "Update",
    # records
    "Candidate",
    "Citation",
    "Claim",
    "Hop",
    "Note",
    "Quote",
    "Status",
    "Tokens",
    "Usage",
    # passages
    "as_document",
    "by_query",
    "content_id",
    "interleave",
    "ranked",
    "unique",
    "with_id",
    # reducers
    "add_usage",
    "merge_by_key",
    "merge_candidates",
    "merge_notes",
    "no_usage",
    "take_passages",
]

UNKNOWN = "Unknown"
"""The answer of a run that found none."""
