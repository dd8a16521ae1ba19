"""The call broker of a run: every model call passes it, and is replayed, cached, kept and counted.

A reply that an earlier process of the run paid for is replayed where the graph makes the same call
again. Checkpoints alone are not enough: a node may make several calls before it ends. A
`MeteredModel` is a chat model whose calls go through the broker.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBinding
from pydantic import Field

from ragweave.evaluation.runs.calls import (
    Ledger,
    ModelCall,
    ReplyCache,
    dump,
    load,
    model_call,
    temperature_of,
    tokens_of,
)
from ragweave.evaluation.runs.recorder import Recorder
from ragweave.state import Tokens
from ragweave.tools.models import ChatModel
from ragweave.tools.models.forms import cut_reply
from ragweave.tools.models.roles import checked_reply
from ragweave.tools.text.secrets import redacted

_KEEP = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?)"

PendingReply = asyncio.Future[BaseMessage | None]
"""A reply under way, which other callers of the same prompt await; None: the call failed."""


@dataclass(slots=True)
class PendingCall:
    """A call under way: answered from what is kept, or else to be made by its caller."""

    call: ModelCall
    reply: BaseMessage | None = None
    shared_reply: PendingReply | None = None


class Broker(Protocol):
    """What a question's calls go through: the run's `CallBroker`, or its deputy on a node."""

    @property
    def shared(self) -> bool:
        """Whether replies are shared between runs, by a cache."""
        ...

    def begin(self, thread: str, *, unfinished: bool) -> None:
        """Open a question's ledger."""
        ...

    def end(self, thread: str) -> Ledger:
        """Close a question's ledger and return it."""
        ...

    async def open(self, call: ModelCall) -> PendingCall:
        """Return a pending call, with its reply where one is kept already."""
        ...

    async def close(self, pending: PendingCall, message: BaseMessage) -> None:
        """Take a call's reply, and keep it durably."""
        ...

    def fail(self, pending: PendingCall) -> None:
        """Note that a call failed."""
        ...


@dataclass
class CallBroker:
    """Answers a run's model calls from what is kept, and keeps and counts new replies."""

    recorder: Recorder
    state: sqlite3.Connection
    cache: ReplyCache | None = None
    total: Ledger = field(default_factory=Ledger)
    """Calls and tokens of all questions that this process worked on."""
    paid: set[str] = field(default_factory=set)
    """Threads that received a reply since their last checkpoint."""
    replayed: set[str] = field(default_factory=set)
    """Threads whose replies of an earlier process are counted again."""
    _ledgers: dict[str, Ledger] = field(default_factory=dict)
    _replies: dict[str, dict[str, str]] = field(default_factory=dict)
    _pending: dict[str, PendingReply] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """Whether replies are shared between runs, by a cache."""
        return self.cache is not None

    def begin(self, thread: str, *, unfinished: bool) -> None:
        """Open a question's ledger, and load the replies that an earlier process kept for it."""
        self._ledgers[thread] = Ledger()
        if not unfinished:
            return
        rows = self.state.execute(
            "SELECT call, paid, role, input_tokens, output_tokens, message FROM replies "
            "WHERE thread = ?",
            (thread,),
        )
        self.replayed.add(thread)
        replies = self._replies[thread] = {}
        for name, paid, role, given, made, message in rows:
            replies[name] = message
            tokens: Tokens = {"calls": 1, "input_tokens": given, "output_tokens": made}
            self._count(thread, role, tokens, paid=bool(paid))

    def end(self, thread: str) -> Ledger:
        """Close a question's ledger and return it."""
        self._replies.pop(thread, None)
        self.paid.discard(thread)
        return self._ledgers.pop(thread)

    def abandon(self, thread: str) -> None:
        """Close the ledger of a question that will begin again, and then count the same replies."""
        self.total.add(self.end(thread).plain(), times=-1)

    async def open(self, call: ModelCall) -> PendingCall:
        """Return a pending call, with its reply where one is kept already."""
        kept = self._replies.get(call.thread, {}).get(call.position)
        if kept is not None:
            return PendingCall(call, load(kept))
        if self.cache is None:
            return PendingCall(call)
        return await self._cached(call, self.cache)

    async def close(self, pending: PendingCall, message: BaseMessage) -> None:
        """Take a call's reply: count it, keep it durably, pass it to those who wait for it."""
        try:
            text = dump(message)
            try:
                await self._keep(pending.call, message, text, paid=True)
            finally:  # a caller that is cancelled meanwhile has paid, and others may use the reply
                if self.cache is not None:
                    self.cache.put(pending.call.key, redacted(pending.call.spec), text)
        finally:  # whatever failed, others wait for the reply
            self._resolve(pending, message)

    def fail(self, pending: PendingCall) -> None:
        """Note that a call failed: one of those who wait for its reply then makes the call."""
        self._resolve(pending, None)

    async def _cached(self, call: ModelCall, cache: ReplyCache) -> PendingCall:
        while (shared_reply := self._pending.get(call.key)) is not None:
            message = await asyncio.shield(shared_reply)
            if message is not None:
                return await self._hit(call, message)
        kept = cache.get(call.key)
        if kept is not None:
            return await self._hit(call, load(kept))
        mine: PendingReply = asyncio.get_running_loop().create_future()
        self._pending[call.key] = mine
        return PendingCall(call, shared_reply=mine)

    async def _hit(self, call: ModelCall, message: BaseMessage) -> PendingCall:
        await self._keep(call, message, dump(message), paid=False)
        return PendingCall(call, message)

    async def _keep(self, call: ModelCall, message: BaseMessage, text: str, *, paid: bool) -> None:
        tokens = tokens_of(message, call.messages)
        self._count(call.thread, call.role, tokens, paid=paid)
        counts = (int(paid), call.role, tokens["input_tokens"], tokens["output_tokens"])
        await self.recorder.write(call.thread, _KEEP, [(call.thread, call.position, *counts, text)])
        self.paid.add(call.thread)

    def _count(self, thread: str, role: str, tokens: Tokens, *, paid: bool) -> None:
        """Count a call; a thread that a failed question left behind may reply after its end."""
        ledger = self._ledgers.get(thread)
        for one in (self.total,) if ledger is None else (self.total, ledger):
            (one.pay if paid else one.hit)(role, tokens)

    def _resolve(self, pending: PendingCall, message: BaseMessage | None) -> None:
        if pending.shared_reply is not None:
            self._pending.pop(pending.call.key, None)
            if not pending.shared_reply.done():
                pending.shared_reply.set_result(message)


class MeteredModel(RunnableBinding[Any, BaseMessage]):
    """A chat model whose calls go through a run's call broker.

    It is a binding, so that the model behind it (its context size, its name) is still found.
    """

    broker: Any = Field(exclude=True)
    """The run's `Broker`."""
    spec: str
    """The model's name in the keys of replies."""
    loop: Any = Field(exclude=True)
    """The event loop that the call broker lives on."""
    role: str = ""
    """Whose calls these are; "": what the node says."""

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> BaseMessage:
        """Call the model, unless the call broker has the reply."""
        pending = await self._open(input, config, kwargs)
        if pending.reply is not None:
            return pending.reply
        try:
            message = checked_reply(self.bound, await self.bound.ainvoke(input, config, **kwargs))
        except BaseException as error:
            if (cut := cut_reply(error)) is None:
                self.broker.fail(pending)
                raise
            message = cut  # it was paid for
        await self.broker.close(pending, message)
        return message

    def invoke(
        self,
        input: Any,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> BaseMessage:
        """Call a model that has no async methods, in the worker thread that this runs in."""
        pending: PendingCall = self._wait(self._open(input, config, kwargs))
        if pending.reply is not None:
            return pending.reply
        try:
            message = checked_reply(self.bound, self.bound.invoke(input, config, **kwargs))
        except BaseException as error:
            if (cut := cut_reply(error)) is None:
                self.loop.call_soon_threadsafe(self.broker.fail, pending)
                raise
            message = cut
        self._wait(self.broker.close(pending, message))
        return message

    async def _open(
        self, messages: Any, config: RunnableConfig | None, settings: dict[str, Any]
    ) -> PendingCall:
        sampled = temperature_of(self.bound, settings) > 0
        broker: Broker = self.broker
        shared = broker.shared
        return await broker.open(
            model_call(
                self.spec, sampled, messages, config, settings, shared=shared, role=self.role
            )
        )

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


def metered(model: ChatModel, spec: str, broker: Broker, role: str = "") -> MeteredModel:
    """Return `model` with its calls routed through `broker`; needs a running event loop."""
    loop = asyncio.get_running_loop()
    return MeteredModel(
        bound=model, kwargs={}, config={}, broker=broker, spec=spec, loop=loop, role=role
    )
