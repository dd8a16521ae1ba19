"""Scripted chat models and fixed-list retrievers: what a test wants said, and a record of calls.

model = ScriptedChat(replies=["Paris", ValueError("down"), "Rome"])   # in order, last repeats
model = ScriptedChat(replies=lambda seen: "Paris" if seen.passages else "Unknown")
build_graph("concat", model=model, retriever=ListRetriever(documents=[…]))
model.seen[0].task, model.seen[0].text, model.seen[0].settings
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr

from ragweave.testing.scripted import pieces
from ragweave.tools.models.tasks import Task, task_of
from ragweave.tools.retrieval import PassageRetriever

PATIENCE = 20.0
"""Seconds that a call waits for its companions (`together`) before it gives up."""


@dataclass(frozen=True)
class Seen:
    """One call of a scripted model."""

    messages: list[BaseMessage]
    task: Task | None
    settings: dict[str, Any]

    @property
    def text(self) -> str:
        """The text of the last message."""
        return str(self.messages[-1].text)

    @property
    def passages(self) -> list[str]:
        """The texts of the task's passages, in prompt order."""
        return [one["text"] for one in self.task["passages"]] if self.task else []


def nucleus(seen: Seen) -> float:
    """Return the nucleus that a model decodes a call with: 0, greedily, where nothing warms it."""
    return float(seen.settings["top_p"]) if seen.settings.get("temperature") else 0.0


Said: TypeAlias = str | Exception
Script: TypeAlias = Sequence[Said] | Callable[[Seen], Said]


class SyncScriptedChat(BaseChatModel):
    """A scripted chat model that has no async methods of its own, as many models have none."""

    replies: Script = ("Unknown",)
    """Replies in order, the last one repeated, or a function of the call; exceptions are raised."""
    usage: tuple[int, int] | None = None
    """Input and output tokens that each reply reports; None: none reported."""
    delay: float = 0.0
    """Seconds that each call takes."""
    together: int = 1
    """Calls wait until so many are in flight at once; when they never are, they fail."""
    temperature: float | None = None
    """What the model is set to; None: it has no such setting."""
    _seen: list[Seen] = PrivateAttr(default_factory=list)
    _in_flight: int = PrivateAttr(default=0)
    _most: int = PrivateAttr(default=0)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @property
    def seen(self) -> list[Seen]:
        """The calls so far, in order of arrival."""
        return self._seen

    @property
    def most_at_once(self) -> int:
        """The most calls that were in flight together."""
        return self._most

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        said = self._take(messages, kwargs)
        try:
            for seconds in self._pauses():
                time.sleep(seconds)
        finally:
            self._leave()
        return self._result(said)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        result = self._generate(messages, stop, run_manager, **kwargs)
        message = result.generations[0].message
        for piece in pieces(str(message.text)):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        last = AIMessageChunk(
            content="", usage_metadata=self._usage_metadata(), chunk_position="last"
        )
        yield ChatGenerationChunk(message=last)

    def _take(self, messages: list[BaseMessage], settings: dict[str, Any]) -> Said:
        one = Seen(list(messages), task_of(messages), dict(settings))
        with self._lock:
            self._seen.append(one)
            at = len(self._seen) - 1
            self._in_flight += 1
            self._most = max(self._most, self._in_flight)
        if callable(self.replies):
            return self.replies(one)
        return self.replies[min(at, len(self.replies) - 1)]

    def _pauses(self) -> Iterator[float]:
        """Yield the pauses of a call: until its companions are there, then its delay."""
        give_up = time.monotonic() + PATIENCE
        while self._most < self.together:
            if time.monotonic() > give_up:
                raise AssertionError(f"{self._most} calls at once, {self.together} expected")
            yield 0.001
        if self.delay:
            yield self.delay

    def _leave(self) -> None:
        with self._lock:
            self._in_flight -= 1

    def _result(self, said: Said) -> ChatResult:
        if isinstance(said, Exception):
            raise said
        message = AIMessage(content=said, usage_metadata=self._usage_metadata())
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _usage_metadata(self) -> UsageMetadata | None:
        if self.usage is None:
            return None
        read, written = self.usage
        return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


class ScriptedChat(SyncScriptedChat):
    """A scripted chat model that awaits by itself."""

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        said = self._take(messages, kwargs)
        try:
            for seconds in self._pauses():
                await asyncio.sleep(seconds)
        finally:
            self._leave()
        return self._result(said)


class ListRetriever(BaseRetriever):
    """A foreign retriever: the same documents for every query, whatever their number."""

    documents: list[Document] = Field(default_factory=list)
    _queries: list[str] = PrivateAttr(default_factory=list)

    @property
    def queries(self) -> list[str]:
        """The queries so far."""
        return self._queries

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        self._queries.append(query)
        return list(self.documents)


class OwnListRetriever(PassageRetriever):
    """A ragweave retriever over a fixed list, which records the `k` of each call."""

    documents: list[Document] = Field(default_factory=list)
    _asked: list[tuple[str, int]] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[tuple[str, int]]:
        """Query and `k` of the calls so far."""
        return self._asked

    def _find(self, query: str, k: int) -> list[Document]:
        self._asked.append((query, k))
        return self.documents[:k]


def documents(*texts: str) -> list[Document]:
    """Return one document for each text, with ids `p0`, `p1`, …."""
    return [Document(page_content=text, id=f"p{at}") for at, text in enumerate(texts)]
