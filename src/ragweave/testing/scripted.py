"""A scripted chat model and a retriever over a few passages, both of which record what they were asked.

`ODD_MODELS` are what broken servers and small models reply, each a script of `ScriptedModel`.
"""

from __future__ import annotations

import math
import re
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field, PrivateAttr
from typing_extensions import override

from ragweave.tools.text.words import words

CARDS = tuple(
    Document(page_content=text, id=f"doc{number}", metadata={"title": f"Card {number}"})
    for number, text in enumerate(
        (
            "The bridge at Alden was built by Ada Brenner in 1931. Its five arches are of grey granite.",
            "The river Sorre runs under the bridge at Alden. In spring it carries ice from the hills.",
            "Ada Brenner studied in Norhaven and wrote two books on stone arches.",
            "Norhaven has had a school of engineering since 1874.",
            "The town hall at Alden was designed by Karl Oster. It burned down in 1902.",
            "A ferry crossed the Sorre before there was a bridge, and it was the ferryman who rang a bell.",
            "Granite for many bridges came from the quarry at Veld. The quarry closed in 1950.",
            "The lighthouse of Norhaven was lit in 1891.",
        )
    )
)
"""Eight made-up passages. The first answers "Who built the bridge at Alden?"."""


@dataclass(frozen=True)
class ModelCall:
    """One call of a scripted model."""

    role: str
    """The role of the model that was called (`ROLES`)."""
    node: str
    """The graph's node that called."""
    messages: Sequence[BaseMessage]
    settings: Mapping[str, Any]
    """Settings of this call, such as `temperature` and `stop`."""
    form: str = ""
    """The name of the form that the reply had to fill; "" for free text."""

    @property
    def text(self) -> str:
        """All messages, one below the other."""
        return "\n".join(str(message.text) for message in self.messages)

    @property
    def last(self) -> str:
        """The last message."""
        return str(self.messages[-1].text)


Reply: TypeAlias = str | AIMessage
Script: TypeAlias = Callable[[ModelCall], Reply] | Mapping[str, Reply] | Sequence[Reply]
"""Replies: a function of the call, a text for each node, or texts in order (the last repeats)."""


@dataclass
class Record:
    """What the models and the retriever of a run were asked."""

    calls: list[ModelCall] = field(default_factory=list)
    searches: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, script: Script, call: ModelCall) -> Reply:
        """Record a call and return the script's reply.

        Raises:
            LookupError: The script is a mapping that has no reply for the call's node.
        """
        with self.lock:
            self.calls.append(call)
            number = len(self.calls)
        if callable(script):
            return script(call)
        if isinstance(script, Mapping):
            if call.node not in script:
                raise LookupError(f"the script has no reply for the node {call.node!r}")
            return script[call.node]
        return script[min(number, len(script)) - 1]


def unsure(text: str, **probabilities: float) -> AIMessage:
    """Return a reply that reports some words as improbable: `unsure("In Rome.", Rome=0.3)`.

    Words are named without punctuation; all others have a probability of 0.99. In each place there is one
    other candidate, which has the rest.
    """
    tokens = re.findall(r"\s*\S+", text)
    content = [_place(token, probabilities.get(token.strip(" \n.,;:!?"), 0.99)) for token in tokens]
    return AIMessage(text, response_metadata={"logprobs": {"content": content}})


def _place(token: str, probability: float) -> dict[str, Any]:
    chosen = {"token": token, "logprob": math.log(probability), "bytes": None}
    other = {"token": "…", "logprob": math.log(1 - probability) if probability < 1 else -100.0}
    return {**chosen, "top_logprobs": [chosen, other]}


class ScriptedModel(BaseChatModel):
    """Replies by a script, with log-probabilities and counted tokens, and records every call.

    With `profile={"structured_output": True}` it fills forms, and the script's replies are their JSON.
    """

    script: Any = ("Unknown",)
    """The `Script`."""
    role: str = "generator"
    profile: Any = Field(default={"structured_output": False, "tool_calling": False})
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    form: str = ""
    _record: Record = PrivateAttr(default_factory=Record)

    @property
    def calls(self) -> list[ModelCall]:
        """The calls so far."""
        return self._record.calls

    def recording(self, record: Record) -> ScriptedModel:
        """Return this model, its calls written to `record`."""
        self._record = record
        return self

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, **_: Any
    ) -> Runnable[Any, dict[str, Any] | BaseModel]:
        """Return this model, whose replies fill a pydantic form."""
        model = self.model_copy(update={"form": schema.__name__})
        parsed = RunnablePassthrough.assign(
            parsed=lambda out: schema.model_validate_json(out["raw"].text), parsing_error=lambda _out: None
        )
        raw_and_parsed = RunnableMap(raw=model) | parsed
        return raw_and_parsed if include_raw else raw_and_parsed | RunnableLambda(lambda out: out["parsed"])

    @override
    def bind_tools(self, tools: Sequence[Any], **settings: Any) -> Runnable[Any, AIMessage]:
        """Return this model, whose settings name the tools."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **settings)

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **settings: Any
    ) -> ChatResult:
        names = ("temperature", "top_p", "max_tokens", "seed", "logprobs", "top_logprobs")
        own = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        settings = {**own, **settings, **({"stop": stop} if stop else {})}
        node = str((run_manager.metadata if run_manager else {}).get("langgraph_node", ""))
        call = ModelCall(self.role, node, list(messages), settings, self.form)
        reply = self._record.reply(self.script, call)
        message = reply if isinstance(reply, AIMessage) else unsure(reply)
        # Counts that depend on the texts: a call that is counted twice, or in place of another, changes the sum.
        read, written = 3 + len(call.text.split()), 1 + len(str(message.text).split())
        usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
        message = message.model_copy(update={"usage_metadata": message.usage_metadata or usage})
        return ChatResult(generations=[ChatGeneration(message=message)])


class RecordingRetriever(BaseRetriever):
    """Ranks a few passages by the words that they share with the query, and records every search.

    The order of passages that share equally many words depends on the query, so that two queries find different
    passages.
    """

    documents: list[Document] = Field(default_factory=lambda: list(CARDS))
    _record: Record = PrivateAttr(default_factory=Record)

    @property
    def searches(self) -> list[str]:
        """The queries so far."""
        return self._record.searches

    def recording(self, record: Record) -> RecordingRetriever:
        """Return this retriever, its searches written to `record`."""
        self._record = record
        return self

    def _get_relevant_documents(self, query: str, *, run_manager: Any, k: int = 5) -> list[Document]:
        del run_manager
        with self._record.lock:
            self._record.searches.append(query)
        asked = set(words(query))

        def place(doc: Document) -> tuple[int, int]:
            return -len(asked & set(words(doc.page_content))), zlib.crc32(f"{query} {doc.id}".encode())

        return sorted(self.documents, key=place)[:k]


# ---- odd models

HIDDEN = "zqxv"
"""A word that no answer may hold: it stands where a model thinks, calls a tool or breaks off."""

_NONE = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
_TOOL = {"name": "web_search", "args": {"query": HIDDEN}, "id": "1"}


@dataclass(frozen=True)
class OddModel:
    """A kind of model: how it replies, and what a run with it shows."""

    reply: Callable[[ModelCall], AIMessage]
    note: str = ""
    """What is noted of each reply."""
    answers: bool = False
    """Whether its replies hold an answer; if not, the run's is Unknown."""
    estimated: bool = False
    """Whether its tokens are estimated."""
    error: str = ""
    """The name of the error that ends the run."""


def _says(content: Any, **fields: Any) -> Callable[[ModelCall], AIMessage]:
    return lambda _call: AIMessage(content, **fields)


def _ended(reason: str, content: str = f"Ada Brenner {HIDDEN}") -> Callable[[ModelCall], AIMessage]:
    return _says(content, response_metadata={"finish_reason": reason})


def _dropping(text: str) -> Callable[[ModelCall], AIMessage]:
    prompts, number = dict[str, int](), count(1)

    def reply(call: ModelCall) -> AIMessage:
        # Not every third call: of parallel branches, one could lose all its attempts.
        is_new = call.text not in prompts
        if is_new and prompts.setdefault(call.text, next(number)) % 3 == 0:
            raise ConnectionError("connection reset by peer")
        return AIMessage(text)

    return reply


_BLOCKS = [
    {"type": "reasoning", "reasoning": HIDDEN},
    {"type": "text", "text": "Ada "},
    {"type": "text", "text": "Brenner"},
]

ODD_MODELS: Mapping[str, OddModel] = {
    "its provider breaks off": OddModel(_ended("error"), error="BrokenReplyError"),
    "gives the prompt back": OddModel(lambda call: AIMessage(call.text), note="prompt_echoed"),
    "calls a tool that nobody offered": OddModel(_says("", tool_calls=[_TOOL]), note="tool_not_offered"),
    "invisible characters": OddModel(_says("\ufeff\u200b \n\u200b"), note="empty_reply"),
    "no block": OddModel(_says([]), note="empty_reply"),
    "thoughts without an end": OddModel(_ended("length", f"<think>{HIDDEN}"), note="reply_limit_reached"),
    "thoughts beside an empty reply": OddModel(
        _says("", additional_kwargs={"reasoning_content": HIDDEN}), note="empty_reply"
    ),
    "refuses": OddModel(_says("", additional_kwargs={"refusal": HIDDEN}), note="content_filtered"),
    "thoughts in blocks": OddModel(_says(_BLOCKS), answers=True),
    "counts no tokens": OddModel(_says("Ada Brenner", usage_metadata=_NONE), answers=True, estimated=True),
    "is cut at its limit": OddModel(_ended("max_tokens", "Ada Brenner"), answers=True, note="reply_limit_reached"),
    "never stops": OddModel(_says("Ada Brenner built it. " * 2_500), answers=True),
    "loses the connection of every third prompt once": OddModel(_dropping("Ada Brenner"), answers=True),
}
"""Kinds of models, by what they do."""
