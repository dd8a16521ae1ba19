"""What flows through a conversation: messages, and the last question with its answer."""

from __future__ import annotations

from typing import Annotated, NotRequired

from langchain_core.documents import Document
from langchain_core.messages import AnyMessage
from langgraph.channels import UntrackedValue
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from ragweave.state.records import (
    Candidate,
    Citation,
    Note,
    Status,
    Usage,
    add_usage,
    merge_notes,
)


class ChatInput(TypedDict):
    """A conversation's input."""

    messages: Annotated[list[AnyMessage], add_messages]
    """The conversation so far; the last human message is the question. With a checkpointer, the
    new messages alone."""


class ChatOutput(ChatInput):
    """A conversation's output: the messages with the answer at their end, and how it came about."""

    question: str
    """The question as it was put to the method: restated so that it stands alone."""
    answer: str
    """The answer, or the literal `Unknown`."""
    status: Status
    truncated: bool
    passages: list[Document]
    citations: list[Citation]
    candidates: dict[str, Candidate]
    usage: Annotated[Usage, add_usage]
    """What this turn cost, the restating included."""


class ChatState(ChatOutput):
    """What flows between the nodes of a conversation."""

    asked: NotRequired[AnyMessage]
    """The user's message that the last turn answered, as it stood then."""
    notes: Annotated[list[Note], merge_notes]
    deadline: Annotated[float, UntrackedValue]
    """Clock time (seconds since the epoch) by which this turn must end; not checkpointed."""
