"""The embedded default model: a LangChain chat model that quotes the passages it is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from ragweave.tools.models.extractive.answers import reader
from ragweave.tools.models.extractive.replies import reply
from ragweave.tools.tasks import Task, task_of

_PIECE = re.compile(r"\s*\S+|\s+")


class ExtractiveChat(BaseChatModel):
    """Answers with what stands in the passages, and says Unknown otherwise.

    It is no language model: it writes no word of its own beyond fixed phrases, knows nothing that
    the passages don't say, and follows no instruction. It finds the best-supported sentence by
    word overlap (and MiniLM's cosine, where installed) and in it the span that fits the question,
    with a linear ranker. It reads a prompt's structured inputs (`ragweave.tools.tasks`), never
    its text; a plain prompt without them is a closed-book question, and gets Unknown.

    The same messages always get the same reply. Tokens in `usage_metadata` are
    whitespace-separated words. `stop` is honoured; `temperature`, `max_tokens` and other settings
    of language models are accepted and have no effect. Safe under threads.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from ragweave.tools.tasks import attach
        >>> passage = {"id": "p", "title": "Eiffel Tower", "text": "It was finished in 1889."}
        >>> task = {"task": "answer", "question": "When was the Eiffel Tower finished?",
        ...         "passages": [passage]}
        >>> ExtractiveChat(similarity="lexical").invoke([attach(HumanMessage("?"), task)]).content
        '1889'
    """

    similarity: Literal["auto", "lexical", "minilm"] = "auto"
    """How sentences are compared with the question: by words, with MiniLM mixed in, or the
    latter only where the `offline` extra is installed."""
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    """Support in [0, 1] that a sentence needs; below it the answer is Unknown. The default is
    chosen on NQ-open: 0.36 by words alone, 0.42 with MiniLM."""

    @property
    def model_name(self) -> str:
        """The name that traces show."""
        return "extractive"

    @property
    def _llm_type(self) -> str:
        return "extractive"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"similarity": self.similarity, "threshold": self.threshold}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,  # noqa: ARG002 - settings of language models, without effect here
    ) -> ChatResult:
        text = self._reply(messages, stop)
        message = AIMessage(
            content=text,
            usage_metadata=_usage(messages, text),
            response_metadata={"model_name": "extractive", "finish_reason": "stop"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002 - as above
    ) -> Iterator[ChatGenerationChunk]:
        text = self._reply(messages, stop)
        for piece in _PIECE.findall(text):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager is not None:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                usage_metadata=_usage(messages, text),
                response_metadata={"model_name": "extractive", "finish_reason": "stop"},
                chunk_position="last",
            )
        )

    def _reply(self, messages: Sequence[BaseMessage], stop: Sequence[str] | None) -> str:
        """Return the reply to the task that `messages` carry, cut before the first stop word."""
        task = task_of(messages) or _closed_book(messages)
        text = reply(task, reader(self.similarity, self.threshold))
        cuts = [at for word in stop or () if word and (at := text.find(word)) >= 0]
        return text[: min(cuts)] if cuts else text


def _closed_book(messages: Sequence[BaseMessage]) -> Task:
    """Take a plain prompt's last human message as a question without passages."""
    asked = next((one.text for one in reversed(messages) if one.type == "human"), "")
    return {"task": "answer", "question": str(asked)}


def _usage(messages: Sequence[BaseMessage], text: str) -> UsageMetadata:
    """Count whitespace-separated words as tokens."""
    read = sum(len(str(message.text).split()) for message in messages)
    written = len(text.split())
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
