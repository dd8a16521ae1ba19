"""What a prompt's message carries beside its text, what a model's message says, and a counter of calls.

A node attaches a `Task`, the structured inputs of its prompt, to its last message under
`additional_kwargs["ragweave"]`. Hosted models never see it; the embedded `extractive` model and trained components work
from it and so parse no prompt.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NotRequired, TypedDict, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

from ragweave.state import AnswerType
from ragweave.tools.text.words import estimate_message_tokens, estimate_tokens

_KEY = "ragweave"

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
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, _KEY: task}})


def task_of(messages: Sequence[BaseMessage]) -> Task | None:
    """Return the task that the last carrying message holds, or None for a plain prompt."""
    for message in reversed(messages):
        if _KEY in message.additional_kwargs:
            return cast("Task", message.additional_kwargs[_KEY])
    return None


def task_passage(document: Document) -> TaskPassage:
    """Return a passage as a task carries it."""
    title = str(document.metadata.get("title") or "")
    return {"id": document.id or "", "title": title, "text": document.page_content}


# ---- replies

_THOUGHTS = re.compile(
    r"<(?P<tag>(?:\w+[:_])?think(?:ing)?|thoughts?|reasoning)>.*?(?:</(?P=tag)>|\Z)"
    r"|\[THINK\].*?(?:\[/THINK\]|\Z)"
    r"|◁think▷.*?(?:◁/think▷|\Z)"
    r"|<\|START_THINKING\|>.*?(?:<\|END_THINKING\|>|\Z)"
    r"|<\|begin_of_thought\|>.*?(?:<\|end_of_thought\|>|\Z)"
    r"|<\|inner_prefix\|>.*?(?:<\|inner_suffix\|>|\Z)"
    r"|<unused94>.*?(?:<unused95>|\Z)"
    r"|<\|channel\|>\s*(?:analysis|commentary)\b.*?(?:<\|end\|>|(?=<\|channel\|>\s*final)|\Z)"
    r"|\A\s*Here (?:are my reasoning steps|is my thought process):.*?"
    r"(?:\[BEGIN FINAL RESPONSE\]|Here is my response:|\Z)",
    re.S | re.I,
)
"""Thoughts, in the marks of the model families; they may be cut off before their end."""

_OPENED_BEFORE = re.compile(
    r"\A(?:(?!<(?:\w+[:_])?think)[^\n]|\n)*?</(?:\w+[:_])?think(?:ing)?>|\A[^\[]*\[/THINK\]|\A[^◁]*◁/think▷", re.I
)
"""Thoughts whose opening tag is in the prompt, where the chat template wrote it."""

_HEADER = re.compile(
    r"(?:<\|(?:start_header_id|im_start|start|role|header_start)\|>|<start_of_turn>)?\s*+"
    r"(?:<\|)?(?:assistant|model|final)(?:\|>)?\s*+(?:<\|(?:end_header_id|message|header_end)\|>|(?<=\n)|(?=<\|channel))"
    r"|<s>|<\|channel\|>\s*+final\s*+(?:<\|message\|>)?",
    re.I,
)
"""What a template writes before a reply."""

_END = re.compile(
    r"(?:<\|(?:im_end|eot_id|end|endoftext|end_of_text|end_of_turn_token|return|end_of_msg|eom_id|im_start"
    r"|start_header_id)\|>|<end_of_turn>|<start_of_turn>|</s>|<｜end▁of▁sentence｜>|\[/?INST\]).*\Z",
    re.S | re.I,
)
"""The end of a turn, and what a server that does not stop there lets the model write after it."""

_WRAPPED = re.compile(
    r"</?(?:response)>|<\|(?:START_RESPONSE|END_RESPONSE|begin_of_solution|end_of_solution)\|>"
    r"|\[(?:BEGIN|END) FINAL RESPONSE\]",
    re.I,
)
"""Marks around the reply proper."""


def without_thoughts(text: str) -> str:
    """Return a reply without its thoughts and the marks of its chat template."""
    text = _OPENED_BEFORE.sub("", _THOUGHTS.sub("", text), count=1)
    text = _WRAPPED.sub("", text).strip()
    while header := _HEADER.match(text):
        text = text[header.end() :].strip()
    return _END.sub("", text).strip()


def text_of(message: BaseMessage) -> str:
    """Return a message's text blocks, or else the arguments of its tool call as JSON.

    Thoughts that a client returns separately (`reasoning_content`, blocks) are left out.
    """
    if text := str(message.text).strip():
        return text
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return json.dumps(calls[0]["args"]) if calls else ""


def tokens_of(message: BaseMessage, prompt: Sequence[BaseMessage]) -> tuple[int, int, bool]:
    """Return a call's input and output tokens, and whether they are estimated."""
    usage = getattr(message, "usage_metadata", None)
    if usage and "input_tokens" in usage:
        return usage["input_tokens"], usage["output_tokens"], False
    return estimate_message_tokens(prompt), estimate_tokens(str(message.text)), True


def finish_of(message: BaseMessage) -> str:
    """Return why a reply ended: `length`, `content_filter`, or the provider's own word."""
    metadata = message.response_metadata
    if message.additional_kwargs.get("refusal"):
        return "content_filter"
    reasons = (metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason"))
    reason = str(next(filter(None, reasons), "")).lower()
    if reason in ("length", "max_tokens", "max_output_tokens"):
        return "length"
    return "content_filter" if reason in _FILTERED else reason


_FILTERED = ("content_filter", "safety", "refusal", "recitation", "prohibited_content", "blocklist")


class CallCounter(BaseCallbackHandler):
    """Counts chat model calls and their tokens."""

    run_inline = True

    def __init__(self) -> None:
        """Start without calls."""
        self.tokens: list[tuple[int, int, bool]] = []
        """For each call: input tokens, output tokens, and whether they are estimated."""
        self._prompts: dict[Any, list[BaseMessage]] = {}

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **_: Any) -> None:
        """Remember the prompt."""
        del serialized
        self._prompts[run_id] = messages[0]

    def on_llm_end(self, response: LLMResult, *, run_id: Any, **_: Any) -> None:
        """Count the call."""
        prompt, generation = self._prompts.pop(run_id, []), response.generations[0][0]
        if isinstance(generation, ChatGeneration):
            self.tokens.append(tokens_of(generation.message, prompt))


_counter: ContextVar[CallCounter | None] = ContextVar("ragweave_call_counter", default=None)
register_configure_hook(_counter, inheritable=True)


@contextmanager
def counted_calls() -> Iterator[CallCounter]:
    """Yield a counter of the calls inside the `with` block, in this context and its copies."""
    counter = CallCounter()
    token = _counter.set(counter)
    try:
        yield counter
    finally:
        _counter.reset(token)
