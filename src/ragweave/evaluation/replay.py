"""Replay: a chat model and a retriever that give what was recorded, so that routing costs nothing.

`ragweave eval recorded:FILE --methods direct,concat,iter_retgen,slimplm,adaptive` answers each
prompt with what the recorded model said by the route that the method took:

* no passage in the prompt: the answer without retrieval;
* passages found by the question itself: the answer after one round;
* passages found by any other text (a claim, a reasoning): the answer after many rounds.

So replay measures which route a method takes and what that route was worth. It can't show what
another prompt, other passages or another number of rounds would have changed: the passages are
placeholders, and token counts are those of our prompts around them. What was never recorded (a
verdict, a rewrite, a filter's choice) gets an empty reply, whose fallback the method has anyway
(retrieve, search the question itself, keep all passages), or is an error with `?unrecorded=error`; a
question that is not in the file is always an error. Nothing is invented.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from ragweave.datasets import Dataset
from ragweave.datasets.recorded import Recording, read_recordings
from ragweave.errors import ModelError, UsageError
from ragweave.state.records import RouteName
from ragweave.tools.models import ModelProvider
from ragweave.tools.models.tasks import Task, task_of
from ragweave.tools.retrieval import PassageRetriever
from ragweave.tools.text.normalize import normalize_answer

FIRST, LATER = "recorded:first", "recorded:later"
"""Ids of the placeholders: found by a question of the recording, and by any other text."""

_PLACEHOLDER = "(The recording keeps no passages.)"

Replies = Mapping[str, Recording]
"""Recordings by their question, normalised."""


def by_question(recordings: Iterable[Recording]) -> dict[str, Recording]:
    """Return recordings by normalised question.

    Raises:
        UsageError: A question was recorded twice, with different replies.
    """
    found: dict[str, Recording] = {}
    for one in recordings:
        other = found.setdefault(_key(one.question), one)
        if other.replies != one.replies:
            raise UsageError(
                f"the question {one.question!r} was recorded twice, with different replies "
                f"({other.id}, {one.id}): keep one"
            )
    return found


def _key(question: str) -> str:
    return normalize_answer(question) or question.strip()


def route_of(passages: Sequence[Mapping[str, Any]]) -> RouteName:
    """Return the route by which a prompt's passages came."""
    if not passages:
        return "none"
    return "many" if any(one["id"] == LATER for one in passages) else "one"


class ReplayChat(BaseChatModel):
    """Replies with what was recorded for the prompt's question and route; reads no prompt text.

    It works from the structured inputs that ragweave's nodes attach to their prompts, so it
    serves the methods of `build_graph` and nothing else.

    Example:
        >>> graph = build_graph("concat", model=ReplayChat.of(rows), retriever=ReplayRetriever.of(rows))
    """

    replies: Replies = Field(repr=False)
    unrecorded: Literal["empty", "error"] = "empty"
    """What a prompt gets that has no recorded reply: an empty one, or an error."""

    @classmethod
    def of(cls, recordings: Iterable[Recording], **settings: Any) -> Self:
        """Replay these recordings."""
        return cls(replies=by_question(recordings), **settings)

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager, kwargs
        task = task_of(messages)
        if task is None:
            raise ModelError("a recorded model answers the prompts of ragweave's methods alone")
        text = self._said(task)
        if text is None and self.unrecorded == "error":
            raise ModelError(
                f"nothing was recorded for the step {task['task']!r} of {task['question']!r}"
            )
        metadata = {"recorded": text is not None, "finish_reason": "stop"}
        message = AIMessage(text or "", response_metadata=metadata)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _said(self, task: Task) -> str | None:
        one = self.replies.get(_key(task["question"]))
        if one is None:
            raise ModelError(f"the question {task['question']!r} is not in the recording")
        reply = one.replies[route_of(task.get("passages", ()))]
        match task["task"]:
            case "answer":
                return reply.answer
            case "reason":
                return reply.reasoning or f"So the answer is: {reply.answer}"
            case "recall":
                return one.replies["none"].reasoning or one.replies["none"].answer
            case "extract":
                return _answer_of(one, task.get("draft", ""))
        return None


def _answer_of(one: Recording, reasoning: str) -> str | None:
    """Return the answer that was recorded with a reasoning, as this model gave it out."""
    for reply in one.replies.values():
        said = reply.reasoning or f"So the answer is: {reply.answer}"
        if said == reasoning.strip():
            return reply.answer
    return None


class ReplayRetriever(PassageRetriever):
    """Finds a placeholder that says whether the question itself or another text was searched."""

    questions: frozenset[str] = Field(repr=False)
    words: PassageRetriever | None = None
    """What a trained router's first look searches; None: a router that looks is refused."""

    @classmethod
    def of(cls, recordings: Iterable[Recording], words: PassageRetriever | None = None) -> Self:
        """Stand in for the retriever of these recordings.

        Args:
            recordings: The recordings.
            words: What a trained router's first look searches.
        """
        return cls(questions=frozenset(_key(one.question) for one in recordings), words=words)

    def lexical(self) -> PassageRetriever | None:
        """Return what was given for first looks: placeholders have no words of their own."""
        return self.words

    def _find(self, query: str, k: int) -> list[Document]:
        del k
        name = FIRST if _key(query) in self.questions else LATER
        return [Document(page_content=_PLACEHOLDER, id=name, metadata={"title": ""})]


def replay_retriever(dataset: Dataset, words: PassageRetriever | None = None) -> ReplayRetriever:
    """Return the retriever of a recorded data set.

    Args:
        dataset: The data set.
        words: What a trained router's first look searches.
    """
    return ReplayRetriever.of(read_recordings(dataset.path), words)


def _make(name: str, settings: Mapping[str, Any]) -> ReplayChat:
    if not name:
        raise UsageError("the recording's file is missing: write 'recorded:FILE'")
    known = {"unrecorded": settings.get("unrecorded", "empty")}
    if other := settings.keys() - known.keys():
        raise UsageError(f"'recorded' has no setting {sorted(other)[0]!r}")
    return ReplayChat.of(read_recordings(Path(name).expanduser()), **known)


PROVIDER = ModelProvider(
    name="recorded",
    spec="recorded:FILE",
    summary="what a model was recorded to say, by route; no language model",
    make=_make,
)
