"""What a rewriter's reply says: questions and claims, each with a search query."""

from __future__ import annotations

from typing import NamedTuple


class ClaimQuery(NamedTuple):
    """A claim of the heuristic answer and how to search for it."""

    claim: str
    need_search: bool
    """What the rewriter flagged; True where it gave no flag."""
    query: str
    """The search text; the claim itself where a search is due and none was given."""


class QuestionQuery(NamedTuple):
    """A rewrite or part of the user's question and how to search for it."""

    question: str
    need_search: bool
    query: str
    """The search text; the question itself where a search is due and none was given."""


class Rewrite(NamedTuple):
    """A rewriter's reply, read."""

    questions: list[QuestionQuery]
    claims: list[ClaimQuery]
    parsed: bool
    """False: nothing in the reply could be read as a question or claim."""
    cut: int = 0
    """Texts (claims, questions, queries) of these records that were cut to the limits."""
    dropped: int = 0
    """Records left out: duplicates, repeats of the question, those beyond `MAX_RECORDS`."""
    truncated: bool = False
    """The reply breaks off inside a record, or inside a list that it opened."""
