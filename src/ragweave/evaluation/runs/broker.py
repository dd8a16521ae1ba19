"""The call broker that every model call of a run passes: replays, cache, journal, ledger.

A reply that an earlier process of the run had paid for is replayed where the graph asks for it
again. The checkpoints alone would not do: a node may make several calls before it ends.

A chat model whose calls pass a run's call broker.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBinding
from pydantic import Field

from ragweave.evaluation.runs.calls import (
    Asked,
    Ledger,
    ReplyCache,
    asked,
    dump,
    load,
    temperature_of,
    tokens_of,
)
from ragweave.evaluation.runs.recorder import Recorder
from ragweave.state import Tokens
from ragweave.tools.models import ChatModel

_KEEP = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?)"

Flight = asyncio.Future[BaseMessage | None]
"""Where others wait for a reply that is on its way; None: the call failed."""


@dataclass(slots=True)
class Ticket:
    """A call under way: answered already, or to be made by whoever holds it."""

    asked: Asked
    reply: BaseMessage | None = None
    flight: Flight | None = None


@dataclass
class CallBroker:
    """What a run knows about its model calls."""

    recorder: Recorder
    state: sqlite3.Connection
    cache: ReplyCache | None = None
    total: Ledger = field(default_factory=Ledger)
    """Of the questions that this process took up, all together."""
    paid: set[str] = field(default_factory=set)
    """Threads that got a reply since their last checkpoint."""
    _ledgers: dict[str, Ledger] = field(default_factory=dict)
    _replays: dict[str, dict[str, str]] = field(default_factory=dict)
    _flights: dict[str, Flight] = field(default_factory=dict)

    def begin(self, thread: str, *, unfinished: bool) -> None:
        """Open a question's ledger, and fetch what an earlier process had and paid for it."""
        self._ledgers[thread] = Ledger()
        if not unfinished:
            return
        rows = self.state.execute(
            "SELECT call, paid, role, input_tokens, output_tokens, message FROM replies "
            "WHERE thread = ?",
            (thread,),
        )
        replays = self._replays[thread] = {}
        for call, paid, role, given, made, message in rows:
            replays[call] = message
            tokens: Tokens = {"calls": 1, "input_tokens": given, "output_tokens": made}
            self._count(thread, role, tokens, paid=bool(paid))

    def end(self, thread: str) -> Ledger:
        """Close a question's ledger and return it."""
        self._replays.pop(thread, None)
        self.paid.discard(thread)
        return self._ledgers.pop(thread)

    async def open(self, asked: Asked) -> Ticket:
        """Return a ticket with the reply, where it is had already, or one to call with."""
        kept = self._replays.get(asked.thread, {}).get(asked.place)
        if kept is not None:
            return Ticket(asked, load(kept))
        if self.cache is None:
            return Ticket(asked)
        return await self._cached(asked, self.cache)

    async def close(self, ticket: Ticket, message: BaseMessage) -> None:
        """Take a call's reply: count it, keep it durably, hand it to those who wait for it."""
        text = dump(message)
        await self._keep(ticket.asked, message, text, paid=True)
        if self.cache is not None:
            self.cache.put(ticket.asked.reply, ticket.asked.spec, text)
        self._land(ticket, message)

    def fail(self, ticket: Ticket) -> None:
        """Take note that a call failed: another that waits for its reply makes it then."""
        self._land(ticket, None)

    async def _cached(self, asked: Asked, cache: ReplyCache) -> Ticket:
        while (flight := self._flights.get(asked.reply)) is not None:
            message = await asyncio.shield(flight)
            if message is not None:
                return await self._hit(asked, message)
        kept = cache.get(asked.reply)
        if kept is not None:
            return await self._hit(asked, load(kept))
        mine: Flight = asyncio.get_running_loop().create_future()
        self._flights[asked.reply] = mine
        return Ticket(asked, flight=mine)

    async def _hit(self, asked: Asked, message: BaseMessage) -> Ticket:
        await self._keep(asked, message, dump(message), paid=False)
        return Ticket(asked, message)

    async def _keep(self, asked: Asked, message: BaseMessage, text: str, *, paid: bool) -> None:
        tokens = tokens_of(message, asked.messages)
        self._count(asked.thread, asked.role, tokens, paid=paid)
        counts = (int(paid), asked.role, tokens["input_tokens"], tokens["output_tokens"])
        await self.recorder.write(asked.thread, _KEEP, [(asked.thread, asked.place, *counts, text)])
        self.paid.add(asked.thread)

    def _count(self, thread: str, role: str, tokens: Tokens, *, paid: bool) -> None:
        for ledger in (self.total, self._ledgers[thread]):
            (ledger.pay if paid else ledger.hit)(role, tokens)

    def _land(self, ticket: Ticket, message: BaseMessage | None) -> None:
        if ticket.flight is not None:
            self._flights.pop(ticket.asked.reply, None)
            if not ticket.flight.done():
                ticket.flight.set_result(message)


class MeteredModel(RunnableBinding[Any, BaseMessage]):
    """A binding, so that what is asked of the model behind it (its context) still finds it."""

    broker: Any = Field(exclude=True)
    """The run's `CallBroker`."""
    spec: str
    """What the model is called in keys."""
    loop: Any = Field(exclude=True)
    """The event loop that the call broker lives on."""

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> BaseMessage:
        """Call the model, unless the call broker has the reply."""
        ticket = await self._open(input, config, kwargs)
        if ticket.reply is not None:
            return ticket.reply
        try:
            message = await self.bound.ainvoke(input, config, **kwargs)
        except BaseException:
            self.broker.fail(ticket)
            raise
        await self.broker.close(ticket, message)
        return message

    def invoke(
        self,
        input: Any,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> BaseMessage:
        """Call a model that has no async methods, in the worker thread that this runs in."""
        ticket: Ticket = self._wait(self._open(input, config, kwargs))
        if ticket.reply is not None:
            return ticket.reply
        try:
            message: BaseMessage = self.bound.invoke(input, config, **kwargs)
        except BaseException:
            self.loop.call_soon_threadsafe(self.broker.fail, ticket)
            raise
        self._wait(self.broker.close(ticket, message))
        return message

    async def _open(
        self, messages: Any, config: RunnableConfig | None, settings: dict[str, Any]
    ) -> Ticket:
        sampled = settings.get("temperature", temperature_of(self.bound)) > 0
        broker: CallBroker = self.broker
        shared = broker.cache is not None
        return await broker.open(
            asked(self.spec, sampled, messages, config, settings, shared=shared)
        )

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


def metered(model: ChatModel, spec: str, broker: CallBroker) -> MeteredModel:
    """Return `model` with its calls passed over `broker`; call it on the running event loop."""
    return MeteredModel(
        bound=model, kwargs={}, config={}, broker=broker, spec=spec, loop=asyncio.get_running_loop()
    )
