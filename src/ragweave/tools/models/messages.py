"""What a prompt's message carries beside its text, what a model's message says and how it ended, and a counter of calls.

A node attaches a `Task`, the structured inputs of its prompt, to its last message under
`additional_kwargs["ragweave"]`. Hosted models never see it; the embedded `extractive` model and trained components work
from it and so parse no prompt.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any, Literal, NotRequired, TypedDict, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

from ragweave.state import AnswerType
from ragweave.tools.citations import without_marks
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

_HEADERS = re.compile(
    r"(?:\s*+(?:(?:<\|(?:start_header_id|im_start|start|role|header_start)\|>|<start_of_turn>)?\s*+"
    r"(?:<\|)?(?:assistant|model|final)(?:\|>)?\s*+(?:<\|(?:end_header_id|message|header_end)\|>|(?<=\n)|(?=<\|channel))"
    r"|<s>|<\|channel\|>\s*+final\s*+(?:<\|message\|>)?))*+",
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
    text = _HEADERS.sub("", _WRAPPED.sub("", text), count=1)
    text = _END.sub("", text).strip()
    return text if any(char.isprintable() and not char.isspace() for char in text) else ""


_OPEN_MARK = re.compile(r"[<\[◁(【][^>\]▷)】\n]{0,30}\Z")
"""What may become a mark as a reply goes on."""


class ShownReply:
    """A reply as it is streamed, without its thoughts and without the marks of sources that the model writes."""

    def __init__(self, prompt: str = "") -> None:
        """Start with an empty reply to a prompt, whose own marks stay."""
        self.text = ""
        """What has been shown."""
        self._written, self._prompt = "", prompt

    def add(self, piece: str, *, ends: bool = False) -> str:
        """Return what is to be shown after a further piece of the reply; `ends`: no other piece follows."""
        self._written += piece
        text = without_thoughts(self._written if ends else _OPEN_MARK.sub("", self._written))
        text = without_marks(text, self._prompt)
        new = text[len(self.text) :] if text.startswith(self.text) else ""
        self.text += new
        return new


def text_of(message: BaseMessage, *, called: bool = False) -> str:
    """Return a message's text blocks; if it has none and tools were offered (`called`), its tool call's arguments as JSON.

    Thoughts that a client returns separately (`reasoning_content`, blocks) are left out.
    """
    text = str(message.text).strip()
    calls = tool_calls_of(message) if called and not text else []
    return json.dumps(calls[0]["args"]) if calls else text


def tool_calls_of(message: BaseMessage) -> list[Any]:
    """Return the tool calls of a message."""
    return list(message.tool_calls) if isinstance(message, AIMessage) else []


_ECHO_WORDS = 8
"""A shorter text is not an echo: an answer may begin as the prompt does."""


def without_echo(text: str, prompt: Sequence[BaseMessage], quotable: Sequence[str]) -> str:
    """Return a reply without the prompt at its beginning, which some models and servers give back.

    An echo begins as the instructions or the user's message do and goes on, word for word, to the prompt's end or to the
    reply's. What stands in one of the `quotable` texts, such as a passage or the question, is a quote instead.
    """
    ends = [word.end() for word in _WORD.finditer(text)]
    reply, texts = _WORD.findall(text), [_WORD.findall(str(message.text)) for message in prompt]
    for first, message in enumerate(prompt):
        if message.type == "ai" or texts[first][:1] != reply[:1]:
            continue
        rest = list(chain.from_iterable(texts[first:]))
        size = min(len(rest), len(reply))
        copied = " ".join(reply[:size])
        repeats = size >= _ECHO_WORDS and " ".join(rest[:size]).startswith(copied)
        if repeats and not any(copied in " ".join(_WORD.findall(quoted)) for quoted in quotable):
            return text[ends[size - 1] :].lstrip("\n .:;!?\"')>]}*_`")
    return text


_WORD = re.compile(r"\w+")


def tokens_of(message: BaseMessage, prompt: Sequence[BaseMessage]) -> tuple[int, int, bool]:
    """Return a call's input and output tokens, and whether they are estimated.

    A report of no tokens for a prompt that has some, or for a reply that has some, is none. Cached tokens are part of
    the input; where they exceed it, the server has counted them apart.
    """
    usage: Any = getattr(message, "usage_metadata", None) or {}
    sent, written = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
    details = usage.get("input_token_details") or {}
    cached = sum(details.get(name) or 0 for name in ("cache_read", "cache_creation"))
    sent += cached if cached > sent else 0
    read, wrote = estimate_message_tokens(prompt), estimate_tokens(str(message.text))
    if not sent and read:
        return read, wrote, True
    return sent, written or wrote, not written and wrote > 0


# ---- how a reply ended

Ending = Literal["stop", "length", "content_filter", "tool_calls", "failed", ""]
"""Why a reply ended; `failed`: its provider broke it off; "": the provider doesn't say."""

_ENDINGS: Mapping[Ending, str] = {
    "length": "length max_tokens max_output_tokens model_length model_context_window_exceeded token_limit error_limit "
    "incomplete",
    "content_filter": "content_filter content_filtered guardrail_intervened refusal sensitive error_toxic safety "
    "recitation language blocklist prohibited_content spii image_safety model_armor jailbreak",
    "tool_calls": "tool_calls tool_call tool_use function_call",
    "failed": "error abort aborted cancelled canceled user_cancel failed timeout time_limit network_error "
    "insufficient_system_resource malformed_function_call malformed_model_output malformed_tool_use "
    "unexpected_tool_call other load unload",
    "": "none null unknown finish_reason_unspecified",
}
"""The providers' words in lower case; any other is a `stop`. Of OpenAI (Chat Completions and Responses), Azure, Anthropic,
Bedrock, Cohere, DeepSeek, Gemini, Mistral, Ollama, OpenRouter, vLLM, SGLang, watsonx and Zhipu."""
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
"""Where clients put the word; the Responses API says `incomplete` as its status, and why beside it."""


def ending_of(message: BaseMessage) -> Ending:
    """Return how a reply ended, in one vocabulary for all providers."""
    metadata = message.response_metadata
    blocks = message.content if isinstance(message.content, list) else []
    refusal = any(isinstance(block, dict) and block.get("type") == "refusal" for block in blocks)
    if refusal or message.additional_kwargs.get("refusal") or metadata.get("is_blocked"):
        return "content_filter"
    if (metadata.get("prompt_feedback") or {}).get("block_reason") not in _NOT_BLOCKED:
        return "content_filter"
    reason = reason_of(message)
    return next((ending for ending, words in _ENDINGS.items() if reason in words.split()), "stop" if reason else "")


_NOT_BLOCKED = (None, 0, "", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")
"""What Gemini says of a prompt that was not blocked."""


def reason_of(message: BaseMessage) -> str:
    """Return the provider's own word for why a reply ended, in lower case."""
    metadata = message.response_metadata
    incomplete = (metadata.get("incomplete_details") or {}).get("reason")
    reasons = (incomplete, *(metadata.get(name) for name in _REASONS))
    reason = str(next(filter(None, reasons), "")).lower()
    return re.sub(r"\A(.+?)\1+\Z", r"\1", reason)  # LangChain joins the word of one chunk with that of the next


class StreamReport(BaseCallbackHandler):
    """What a call shows that its joined message doesn't."""

    run_inline = True

    def __init__(self) -> None:
        self.streamed = False
        self.asked = ("", "")
        """Provider and name of the model that was asked last: of several, as with fallbacks, the one that replied."""
        self._usages: list[UsageMetadata] = []

    def on_chat_model_start(self, *_: Any, metadata: Any = None, **__: Any) -> None:
        """Take the names of the model."""
        known = metadata or {}
        self.asked = known.get("ls_provider", ""), known.get("ls_model_name", "")

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
        """Take a piece of the reply."""
        del token
        self.streamed = True
        usage = getattr(getattr(chunk, "message", None), "usage_metadata", None)
        if usage and usage["input_tokens"]:
            self._usages.append(usage)

    def corrected(self, message: BaseMessage) -> BaseMessage:
        """Return the message with its last usage, if several chunks report the prompt: each then counts from the start."""
        if len(self._usages) < 2:
            return message
        return message.model_copy(update={"usage_metadata": self._usages[-1]})


class CallCounter(BaseCallbackHandler):
    """Counts chat model calls and their tokens."""

    run_inline = True

    def __init__(self) -> None:
        self.tokens: list[tuple[int, int, bool]] = []
        """For each call: input tokens, output tokens, and whether they are estimated."""
        self.dollars: list[tuple[float, int]] = []
        """What methods among the callers reported: US dollars, and the number of calls whose price is known."""
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


def count_dollars(usd: float, calls: int) -> None:
    """Add the price of calls to the counter of this context, if it has one: callbacks don't know it."""
    if counter := _counter.get():
        counter.dollars.append((usd, calls))


@contextmanager
def counted_calls() -> Iterator[CallCounter]:
    """Yield a counter of the calls inside the `with` block, in this context and its copies."""
    counter = CallCounter()
    token = _counter.set(counter)
    try:
        yield counter
    finally:
        _counter.reset(token)
