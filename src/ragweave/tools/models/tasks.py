"""The structured inputs of a prompt, which a node attaches to its text.

A node attaches a `Task` to its last message under `additional_kwargs["ragweave"]`. Hosted models
never see it; the embedded `extractive` model works from it and so parses no prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired, TypedDict, cast

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from ragweave.state import AnswerType

KEY = "ragweave"

TaskName = Literal[
    "answer",  # the final answer to `question` from `passages` (closed book where there are none)
    "reason",  # step-by-step reasoning over `passages` that ends in "So the answer is …"
    "extract",  # the short answer that `draft` (a reasoning) arrives at
    "recall",  # a passage or draft answer from the model's own memory, no retrieval
    "judge",  # is `draft` (answer or claim) known well enough? `<Known(True)>` or `<Known(False)>`
    "rewrite",  # claims of `draft` with a search query each
    "topic",  # the general topic of `question`
    "filter",  # the ids of the `passages` that help with `question`; they run from `first`, or 0
    "grade",  # do the `passages` answer `question`? Correct, Ambiguous or Incorrect
    "need",  # does `question` need retrieval? Yes or No
    "step",  # the next step of a multi-step agent (Self-Ask, ReAct)
    "sufficient",  # do the `passages` hold enough to answer `question`? Yes or No
    "restate",  # `question`, a follow-up to the `earlier` ones, so that it stands alone
    "route",  # does `question` take no search, one or several? none, one or several
]
"""What a model is asked for."""


class TaskPassage(TypedDict):
    """A passage as a task carries it."""

    id: str
    title: str
    text: str


class Task(TypedDict):
    """Structured inputs of one model call."""

    task: TaskName
    question: str
    answer_type: NotRequired[AnswerType]
    passages: NotRequired[list[TaskPassage]]
    earlier: NotRequired[list[str]]
    """Earlier questions of a conversation, the last one first."""
    first: NotRequired[int]
    """The number of the first passage, where numbers are asked for."""
    draft: NotRequired[str]
    """Text under judgement: a heuristic answer, a claim, a reasoning."""
    sample: NotRequired[int]
    """Which further draw of the same prompt this is, from 1: a cache of replies, such as LangChain's,
    would else give every draw the words of the first."""


def attach(message: BaseMessage, task: Task) -> BaseMessage:
    """Return a copy of `message` that carries `task`."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, KEY: task}})


def task_of(messages: Sequence[BaseMessage]) -> Task | None:
    """Return the task that the last carrying message holds, or None for a plain prompt."""
    for message in reversed(messages):
        if KEY in message.additional_kwargs:
            return cast("Task", message.additional_kwargs[KEY])
    return None


def task_passages(documents: Sequence[Document]) -> list[TaskPassage]:
    """Render documents as task passages, in order."""
    return [
        {"id": doc.id or "", "title": str(doc.metadata.get("title") or ""), "text": doc.page_content}
        for doc in documents
    ]
