"""The state of every graph. A node returns an update of some keys: `def node(state) -> RAGState`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from langchain_core.documents import Document
from langgraph.managed import RemainingSteps
from typing_extensions import TypedDict

from ragweave.state.records import (
    Candidate,
    Citation,
    Note,
    Status,
    Usage,
    add_usage,
    merge,
    merge_candidates,
    merge_notes,
)

AnswerType = Literal["short", "long", "yes_no"]
"""The kind of answer wanted: a short phrase, a few sentences, or Yes or No."""


class RAGInput(TypedDict):
    """A graph's input."""

    question: str
    passages: NotRequired[list[Any]]
    """Passages to answer from, best first, instead of retrieval: documents or texts."""
    answer_type: NotRequired[AnswerType | None]
    """None or absent: as the option `answer_type` says."""
    gold_answers: NotRequired[list[str] | None]
    """Correct answers, if known, for FILCO's oracle; no model sees them."""


class RAGOutput(TypedDict):
    """A graph's output, the same for every method."""

    question: str
    answer: str
    """The answer, or `Unknown`."""
    status: Status
    truncated: bool
    """Whether a limit on rounds ended a loop that wanted to go on."""
    passages: list[Document]
    """The passages that the answer was read from, in prompt order."""
    citations: list[Citation]
    candidates: dict[str, Candidate]
    """Every answer that a model gave, by key, in order of round, rank and sample."""
    usage: Usage


class RAGState(TypedDict, total=False):
    """The state of every method; a method with more to remember adds its own keys."""

    question: str
    answer_type: AnswerType
    gold_answers: list[str]
    passages: list[Document]
    """The passages in play, in prompt order; at the end those that the answer was read from."""
    given: bool
    """Whether the input brought the passages, so that nothing is searched for."""
    queries: dict[str, str]
    """Search texts by name, `question` first."""
    retrieved: Annotated[dict[str, list[Document]], merge]
    """What each query found, best first, by its name."""
    answer: str
    status: Status
    truncated: bool
    citations: list[Citation]
    candidates: Annotated[dict[str, Candidate], merge_candidates]
    usage: Annotated[Usage, add_usage]
    notes: Annotated[list[Note], merge_notes]
    remaining_steps: RemainingSteps
    """Supersteps left before LangGraph's recursion limit; LangGraph sets it."""
