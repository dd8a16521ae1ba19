"""Counting the chat model calls that something else makes, such as a retriever with a model of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

from ragweave.tools.models.replies import tokens_of


class CallCounter(BaseCallbackHandler):
    """Counts chat model calls and their tokens."""

    run_inline = True

    def __init__(self) -> None:
        """Start at none."""
        self.tokens: list[tuple[int, int, bool]] = []
        """Of each call: input, output, and whether they are estimated."""
        self._prompts: dict[Any, list[BaseMessage]] = {}

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **_: Any) -> None:
        """Remember what is sent."""
        del serialized
        self._prompts[run_id] = messages[0]

    def on_llm_end(self, response: LLMResult, *, run_id: Any, **_: Any) -> None:
        """Count the call."""
        prompt, made = self._prompts.pop(run_id, []), response.generations[0][0]
        if isinstance(made, ChatGeneration):
            self.tokens.append(tokens_of(made.message, prompt))


_counter: ContextVar[CallCounter | None] = ContextVar("ragweave_call_counter", default=None)
register_configure_hook(_counter, inheritable=True)


@contextmanager
def counted_calls() -> Iterator[CallCounter]:
    """Yield a counter of the calls that are made meanwhile, in this context and those copied from it."""
    made = CallCounter()
    token = _counter.set(made)
    try:
        yield made
    finally:
        _counter.reset(token)
