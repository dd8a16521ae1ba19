"""A scripted chat model and a retriever over a few passages, both of which keep a record.

The record is independent of the graph's own ledger, so that what a method reports of its calls,
prompts and passages can be checked against it.
"""

from __future__ import annotations

import math
import re
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from ragweave.tools.retrieval import PassageRetriever
from ragweave.tools.scorers.specs import LogprobScorer, Pairs
from ragweave.tools.text.normalize import words

_PIECE = re.compile(r"(?<!\s)\s*+\S+")
_SURE = 0.99


@dataclass(frozen=True)
class ModelCall:
    """One call of a scripted model, and what it replied."""

    role: str
    """The role of the model that was called: `answer`, `proxy`, `judge`, `rewrite`, `filter`."""
    node: str
    """The graph's node that called."""
    messages: Sequence[BaseMessage]
    settings: Mapping[str, Any]
    """Settings of this call, such as `temperature` and `stop`."""
    reply: str = ""
    """The text of the reply; empty while the script is being asked."""
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def text(self) -> str:
        """All messages, one below the other."""
        return "\n".join(str(message.text) for message in self.messages)

    @property
    def last(self) -> str:
        """The last message."""
        return str(self.messages[-1].text)


Said: TypeAlias = str | AIMessage
Script: TypeAlias = Callable[[ModelCall], Said] | Mapping[str, str] | Sequence[Said]
"""Replies: a function of the call, a text for each node, or texts in order (the last repeats)."""


@dataclass
class Record:
    """What the models and the retriever of one run were asked."""

    calls: list[ModelCall] = field(default_factory=list)
    searches: list[tuple[str, int]] = field(default_factory=list)
    """Query and `k` of each retrieval."""
    scorings: list[tuple[str, Pairs]] = field(default_factory=list)
    """Role of each call of a scorer, and what it scored."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    taken: int = 0

    def reply(self, script: Script, call: ModelCall) -> Said:
        """Return what `script` says to `call`.

        Raises:
            LookupError: The script is a mapping that has no reply for the call's node.
        """
        if callable(script):
            return script(call)
        if isinstance(script, Mapping):
            if call.node not in script:
                raise LookupError(f"the script has no reply for the node {call.node!r}")
            return script[call.node]
        with self.lock:
            at, self.taken = self.taken, self.taken + 1
        return script[min(at, len(script) - 1)]


def pieces(text: str) -> list[str]:
    """Return a text cut before its words, as models stream it; blanks at its end go with the last.

    Joined again they are the text. Blanks alone give none. Takes time linear in the text.
    """
    found = _PIECE.findall(text)
    if found:
        found[-1] += text[len(text.rstrip()) :]
    return found


def unsure(text: str, **probabilities: float) -> AIMessage:
    """Return a reply that reports some words as improbable: `unsure("In Rome.", Rome=0.3)`.

    Words are named without punctuation; all others have a probability of 0.99. In each place there
    is one other candidate, which has the rest.
    """
    return _with_logprobs(text, probabilities)


def _with_logprobs(text: str, probabilities: Mapping[str, float]) -> AIMessage:
    named = ((token, token.strip(" \n.,;:!?")) for token in pieces(text))
    content = [_place(token, probabilities.get(word, _SURE)) for token, word in named]
    return AIMessage(text, response_metadata={"logprobs": {"content": content}})


def _place(token: str, probability: float) -> dict[str, Any]:
    said = {"token": token, "logprob": math.log(probability), "bytes": None}
    other = {"token": "…", "logprob": math.log(1 - probability) if probability < 1 else -100.0}
    return {**said, "top_logprobs": [said, other]}


class ScriptedModel(BaseChatModel):
    """Replies by a script, with log-probabilities and counted tokens; records every call."""

    script: Any
    """The `Script`."""
    role: str = "answer"
    logprobs: bool | None = None
    offers_grammar: bool = False
    """Whether it says that it takes a `grammar`, which it then records and ignores."""
    _record: Record = PrivateAttr(default_factory=Record)

    def recording(self, record: Record) -> ScriptedModel:
        """Return this model, its calls written to `record`."""
        self._record = record
        return self

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
        return self._said(messages, stop, run_manager, kwargs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._said(messages, stop, run_manager, kwargs)

    def _said(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None,
        run_manager: CallbackManagerForLLMRun | AsyncCallbackManagerForLLMRun | None,
        settings: dict[str, Any],
    ) -> ChatResult:
        metadata = run_manager.metadata if run_manager else {}
        call = ModelCall(
            role=self.role,
            node=str(metadata.get("langgraph_node", "")),
            messages=list(messages),
            settings={**settings, **({"stop": stop} if stop else {})},
        )
        said = self._record.reply(self.script, call)
        message = said if isinstance(said, AIMessage) else _with_logprobs(said, {})
        text = str(message.text)
        # Counts that depend on what was said, so that a call counted twice or for another shows.
        read, written = 3 + len(call.text.split()), 1 + len(text.split())
        spent = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
        with self._record.lock:
            self._record.calls.append(
                replace(call, reply=text, input_tokens=read, output_tokens=written)
            )
        message = message.model_copy(update={"usage_metadata": spent})
        return ChatResult(generations=[ChatGeneration(message=message)])


class RecordingRetriever(PassageRetriever):
    """Ranks a few passages by the words that they share with the query; records every search.

    Passages that share equally many words come in an order of each query's own, so that two
    queries find different passages.
    """

    documents: list[Document]
    _record: Record = PrivateAttr(default_factory=Record)

    def recording(self, record: Record) -> RecordingRetriever:
        """Return this retriever, its searches written to `record`."""
        self._record = record
        return self

    def _find(self, query: str, k: int) -> list[Document]:
        with self._record.lock:
            self._record.searches.append((query, k))
        asked = set(words(query))

        def place(doc: Document) -> tuple[int, int]:
            shared = len(asked & set(words(doc.page_content)))
            return -shared, zlib.crc32(f"{query} {doc.id}".encode())

        return sorted(self.documents, key=place)[:k]


class RecordingScorer:
    """Scores as another scorer does; records every call."""

    def __init__(self, scorer: LogprobScorer, role: str, record: Record) -> None:
        """Take a scorer, the role in which it is asked, and where its calls are written."""
        self._scorer, self._role, self._record = scorer, role, record

    @property
    def causal(self) -> bool:
        """Whether the scorer's model is causal."""
        return getattr(self._scorer, "causal", False) is True

    def score(self, pairs: Pairs) -> list[float]:
        """Return the other scorer's log-probabilities."""
        with self._record.lock:
            self._record.scorings.append((self._role, pairs))
        return self._scorer.score(pairs)


class ForeignRetriever(BaseRetriever):
    """The same passages as a LangChain retriever without `k`, which finds them all."""

    own: RecordingRetriever

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        del run_manager
        return self.own.find(query, len(self.own.documents))
