"""OpenAI's chat completions as data: what a caller asks, and the forms of what it gets."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice
from openai.types.chat.chat_completion_chunk import Choice as ChunkChoice
from openai.types.chat.chat_completion_chunk import ChoiceDelta
from pydantic import BaseModel, Field

from ragweave.tools.footnotes import UNSUPPORTED


class Part(BaseModel):
    """A part of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None


class Message(BaseModel):
    """A message of the conversation."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[Any] | None = None
    """An agent's calls of tools: what it says beside them is no answer."""


class StreamOptions(BaseModel):
    """What a stream ends with."""

    include_usage: bool | None = None


class ChatRequest(BaseModel):
    """What a caller asks; OpenAI's other settings are passed over."""

    model: str
    messages: list[Message] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class ApiError(Exception):
    """What a caller is told, in OpenAI's form."""

    def __init__(self, status: int, message: str, *, code: str = "", **headers: str) -> None:
        """Say `message` with an HTTP status."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def body(self) -> dict[str, Any]:
        """The error object."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        said = {"message": str(self), "type": kind, "param": None, "code": self.code or None}
        return {"error": said}


def messages_of(given: Iterable[Message]) -> list[BaseMessage]:
    """Return a request's messages; what tools said is no part of a conversation here.

    Raises:
        ApiError: There is content other than text, or no question, or an answer behind it.
    """
    kinds: dict[str, Callable[[str], BaseMessage]] = {
        "user": HumanMessage,
        "assistant": AIMessage,
        "system": SystemMessage,
        "developer": SystemMessage,
    }
    said = (one for one in given if one.role in kinds and not one.tool_calls)
    made = [kinds[one.role](_text(one)) for one in said]
    asked = max((at for at, one in enumerate(made) if one.type == "human"), default=-1)
    if asked < 0 or not made[asked].text.strip():
        raise ApiError(400, "messages need a question: a message of the user with text")
    if any(one.type == "ai" and one.text.strip() for one in made[asked:]):
        raise ApiError(400, "messages need a new question behind the last answer")
    return made


def _text(message: Message) -> str:
    if not isinstance(message.content, list):
        return message.content or ""
    readable = {"text", "refusal"} if message.role == "assistant" else {"text"}
    for part in message.content:
        if part.type not in readable:
            raise ApiError(400, f"messages hold text alone here, not {part.type!r}")
    return "\n".join(part.text or part.refusal or "" for part in message.content)


def completion(model: str, message: AIMessage, usage: CompletionUsage) -> dict[str, Any]:
    """Return an answer as a chat completion."""
    said = ChatCompletionMessage(role="assistant", content=message.text)
    done = ChatCompletion(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        object="chat.completion",
        created=int(time.time()),
        model=model,
        choices=[Choice(index=0, message=said, finish_reason="stop")],
        usage=usage,
    ).model_dump(exclude_none=True)
    done["choices"][0]["message"] |= cited(message)
    return done


def cited(message: AIMessage) -> dict[str, Any]:
    """Return a message's annotations in OpenAI's form, and which parts nothing supports."""
    notes: list[Any] = [
        note
        for block in message.content_blocks
        if block["type"] == "text"
        for note in block.get("annotations", [])
    ]
    cited = [_annotation(note) for note in notes if note["type"] == "citation"]
    spans = [note["value"] for note in notes if note["type"] == "non_standard_annotation"]
    unsupported = [
        {"start_index": one["start_index"], "end_index": one["end_index"]}
        for one in spans
        if one["kind"] == UNSUPPORTED
    ]
    made = {"annotations": cited, UNSUPPORTED: unsupported}
    return {name: values for name, values in made.items() if values}


def _annotation(note: Mapping[str, Any]) -> dict[str, Any]:
    passage = note["extras"]["passage"]
    cited = {
        "url": note.get("url") or f"urn:ragweave:passage:{passage}",
        "title": note["title"],
        "start_index": note["start_index"],
        "end_index": note["end_index"],
        "cited_text": note["cited_text"],
    }
    return {"type": "url_citation", "url_citation": cited}


class Chunks:
    """The events of one streamed completion."""

    def __init__(self, model: str) -> None:
        """Begin the answer of a served model."""
        self._fields: dict[str, Any] = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }

    def event(self, delta: Mapping[str, Any], end: Any = None) -> str:
        """Return the event of a piece of the message; `end` says why it was the last."""
        choice = ChunkChoice(index=0, delta=ChoiceDelta(), finish_reason=end)
        chunk = ChatCompletionChunk(choices=[choice], **self._fields).model_dump(exclude_none=True)
        chunk["choices"][0] |= {"delta": dict(delta), "finish_reason": end}
        return _sent(chunk)

    def usage(self, usage: CompletionUsage) -> str:
        """Return the event that says what the answer cost."""
        chunk = ChatCompletionChunk(choices=[], usage=usage, **self._fields)
        return _sent(chunk.model_dump(exclude_none=True))


def _sent(chunk: Mapping[str, Any]) -> str:
    # In ASCII: clients that read line by line take U+2028 or U+0085 for the end of one.
    return f"data: {json.dumps(chunk)}\n\n"
