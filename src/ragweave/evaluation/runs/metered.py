"""A chat model whose calls pass a run's call broker."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBinding
from pydantic import Field

from ragweave.evaluation.runs.calls import asked, temperature_of
from ragweave.evaluation.runs.desk import CallBroker, Ticket
from ragweave.tools.models import ChatModel


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
