"""Steps: nodes whose one body runs both sync and async, within the run's time limit.

A body is a generator: it yields `Call`s on runnables (a model, a retriever), gets their results,
and returns the node's update. That a prompt was too long for a model is raised in the body, which
may do without the call. The drivers here are the only code that is written twice. What a
step takes down for the reader of a trace are its notes: fallbacks taken, passages dropped. Whoever
asks (`timing`) also learns how long nodes take.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, cast

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.types import Overwrite, Send

from ragweave.errors import PromptTooLongError, RunTimeoutError
from ragweave.nodes.options import OptionsT, current
from ragweave.nodes.spent import keep_spent, take_spent
from ragweave.state import Note, Update, Usage, add_usage
from ragweave.tools.bindings import unbound
from ragweave.tools.deadline import ending_within, run_timed_out
from ragweave.tools.models.errors import said_by_server
from ragweave.tools.retrieval.base import awaits
from ragweave.tools.text.secrets import redacting
from ragweave.tools.threads import in_thread

_LOGGER = logging.getLogger("ragweave.nodes")

_TOO_LONG = (PromptTooLongError, ContextOverflowError)
"""Our models raise the first, those of LangChain's packages the second."""

RUN_DEADLINE = "__ragweave_deadline"
"""The key of a run's `configurable` that says by when it must end, where its state may not: a run
inside of another one, and a resumed one. LangGraph keeps no such key in a checkpoint."""

Clock = Callable[[str, float, float], None]
"""Takes a node's name, and when one of its executions began and ended (`time.perf_counter`)."""

_CLOCK: ContextVar[Clock | None] = ContextVar("ragweave_clock", default=None)


@contextmanager
def timing(clock: Clock) -> Iterator[None]:
    """Call `clock` for every node that ends in this context, and in tasks begun in it."""
    token = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(token)


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Time an execution of a node, failed ones too, if anyone wants to know."""
    clock = _CLOCK.get()
    if clock is None and not _LOGGER.isEnabledFor(logging.DEBUG):
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        ended = time.perf_counter()
        _LOGGER.debug("%s took %.3f s", name, ended - began)
        if clock is not None:
            clock(name, began, ended)


def note(config: RunnableConfig, node: str, event: str, **detail: Any) -> Note:
    """Return a note of this superstep.

    Args:
        config: The node's run configuration, which knows the superstep.
        node: Name of the node.
        event: A short fixed name of what happened.
        detail: Plain JSON values.
    """
    step = (config.get("metadata") or {}).get("langgraph_step", 0)
    return {"step": int(step), "node": node, "event": event, "detail": detail}


StateT = TypeVar("StateT", bound=Mapping[str, object])
"""What a node reads: `RAGState`, a state that extends it, or the payload of a branch."""

Goto: TypeAlias = str | Sequence[str] | Sequence[Send]
"""Where a route leads: a label or a node, several nodes, or branches."""


@dataclass(frozen=True)
class Call:
    """A call that a step's body asks for."""

    target: Runnable[Any, Any]
    input: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    config: RunnableConfig | None = None
    """Run configuration of this call; None: the node's own."""
    rescue: Callable[[Exception], Any] = lambda _: None
    """Returns the result that an error of the call stands for; None: the error is raised."""
    client: object = None
    """What the call reaches a server by, where `target` only wraps it; None: `target`."""


Work = Generator[Call, Any, Update]


class Context(Generic[OptionsT]):
    """What one execution of a node has beside the state: its options, and a place for notes."""

    def __init__(self, node: str, options: OptionsT, config: RunnableConfig | None = None) -> None:
        """Make a context.

        Args:
            node: The node's name.
            options: The options in force.
            config: The run's configuration at this node.
        """
        self.node = node
        self.options = options
        self.config: RunnableConfig = config or {}
        self.notes: list[Note] = []
        self.usage: Usage | None = None

    def note(self, event: str, **detail: Any) -> None:
        """Tell the reader of the trace something: a fallback taken, a passage dropped.

        The log says as much, but for texts, which may be of a question, a passage or a reply.

        Args:
            event: A short fixed name of what happened.
            detail: Plain JSON values.
        """
        self.notes.append(note(self.config, self.node, event, **detail))
        _LOGGER.info("%s: %s %s", self.node, event, _loggable(detail) or "")

    def spend(self, usage: Usage) -> None:
        """Count what a call cost."""
        self.usage = add_usage(self.usage, usage)

    def complete(self, update: Update) -> Update:
        """Return `update` with what was noted and spent; notes that it clears stay cleared."""
        full = update.copy()
        if self.notes:
            clears = isinstance(full.get("notes"), Overwrite)
            full["notes"] = Overwrite(self.notes) if clears else self.notes
        if self.usage:
            full["usage"] = self.usage
        return full


_CODES = frozenset({"reason", "route"})
"""Details whose texts are fixed words of this package."""


def _loggable(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a log may hold of a note: numbers, yes or no, and words of our own."""
    return {
        name: value
        for name, value in detail.items()
        if name in _CODES or isinstance(value, int | float)
    }


Body = Callable[[StateT, Context[OptionsT]], Work]
"""A step's body: state and context in; calls out; update returned."""


class Step(Runnable[StateT, Update], Generic[StateT, OptionsT]):
    """A graph node from one body, the same under `invoke` and `ainvoke`."""

    def __init__(self, name: str, body: Body[StateT, OptionsT], options: OptionsT) -> None:
        """Make a node.

        Args:
            name: The node's name, as traces show it.
            body: What the step does.
            options: The build's options; a run may override them by its context.
        """
        self.name = self.node = name
        self._body = body
        self._options = options

    def work(self, state: StateT, context: Context[OptionsT]) -> Work:
        """Return the body's work, for use inside another step's."""
        return self._body(state, context)

    def invoke(self, input: StateT, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002
        """Run the body, each call in turn."""
        with timed(self.node), self._attempt(config) as context:
            work = self._body(input, context)
            resume: Callable[[], Call] = partial(next, work)
            while True:
                try:
                    call = resume()
                except StopIteration as end:
                    return context.complete(end.value)
                left = self._remaining(input, config)
                try:
                    result = _call(call, call.config or config, left)
                    resume = partial(work.send, result)
                except _TOO_LONG as error:
                    resume = partial(work.throw, error)

    async def ainvoke(
        self,
        input: StateT,  # noqa: A002
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> Update:
        """Run the body, awaiting each call."""
        with timed(self.node), self._attempt(config) as context:
            work = self._body(input, context)
            resume: Callable[[], Call] = partial(next, work)
            while True:
                try:
                    call = resume()
                except StopIteration as end:
                    return context.complete(end.value)
                left = self._remaining(input, config)
                try:
                    result = await _acall(call, call.config or config, left)
                    resume = partial(work.send, result)
                except _TOO_LONG as error:
                    resume = partial(work.throw, error)

    @contextmanager
    def _attempt(self, config: RunnableConfig | None) -> Iterator[Context[OptionsT]]:
        """Give an attempt its context; what it spends is not lost where it fails and is repeated."""
        context = Context(self.node, current(self._options), config)
        context.usage = take_spent(context.config)
        try:
            yield context
        except Exception:
            keep_spent(context.config, context.usage)
            raise

    def _remaining(
        self, state: Mapping[str, object], config: RunnableConfig | None
    ) -> float | None:
        told = (config or {}).get("configurable") or {}
        deadline = told.get(RUN_DEADLINE) or state.get("deadline")
        if not deadline:
            return None
        left = cast("float", deadline) - time.time()
        if left <= 0:
            raise RunTimeoutError(f"the run's time limit was reached before {self.node!r}")
        return left


class Route(Runnable[StateT, Goto], Generic[StateT, OptionsT]):
    """A pure router: state and options in, the next node's name or branches out."""

    def __init__(self, choose: Callable[[StateT, OptionsT], Goto], options: OptionsT) -> None:
        """Make a router of `choose`, which gets the options in force."""
        self.name = choose.__name__
        self._choose = choose
        self._options = options

    def invoke(self, input: StateT, config: RunnableConfig | None = None, **_: Any) -> Goto:  # noqa: A002
        """Choose. LangGraph sets no context for a routing runnable, so it is set here."""
        with set_config_context(config or {}) as context:
            return self._choose(input, context.run(current, self._options))

    async def ainvoke(self, input: StateT, config: RunnableConfig | None = None, **_: Any) -> Goto:  # noqa: A002
        """Choose, on the event loop: LangGraph would run a plain function in a thread."""
        return self.invoke(input, config)


def _call(call: Call, config: RunnableConfig | None, seconds: float | None) -> Any:
    with redacting(_client(call)):
        try:
            return _called(call, config, seconds)
        except Exception as error:
            if (result := _rescued(call, error)) is None:
                raise
            return result


def _client(call: Call) -> Any:
    return unbound(call.target if call.client is None else call.client)


def _rescued(call: Call, error: Exception) -> Any:
    """Return the result that an error stands for; None: the error is raised as it is.

    Raises:
        PromptTooLongError: A model's server says so.
        ModelError: What a model's server sent is no reply.
    """
    result = call.rescue(error)
    if result is None and isinstance(_client(call), BaseChatModel):
        said = said_by_server(error)
        if said is not None:
            raise said from error
    return result


def _called(call: Call, config: RunnableConfig | None, seconds: float | None) -> Any:
    if seconds is None:
        return call.target.invoke(call.input, config, **call.settings)
    with ending_within(seconds):
        future = _in_thread(call, config)
    try:
        return future.result(timeout=min(seconds, threading.TIMEOUT_MAX))
    except FutureTimeoutError as error:
        if future.done() and future.exception() is error:
            raise
        raise run_timed_out() from error


async def _acall(call: Call, config: RunnableConfig | None, seconds: float | None) -> Any:
    with redacting(_client(call)):
        try:
            return await _acalled(call, config, seconds)
        except Exception as error:
            if (result := _rescued(call, error)) is None:
                raise
            return result


async def _acalled(call: Call, config: RunnableConfig | None, seconds: float | None) -> Any:
    try:
        async with asyncio.timeout(seconds) as limit:
            with ending_within(seconds):
                return await _awaited(call, config)
    except TimeoutError as error:
        if limit.expired():
            raise run_timed_out() from error
        raise


async def _awaited(call: Call, config: RunnableConfig | None) -> Any:
    if _is_async(call.target):
        return await call.target.ainvoke(call.input, config, **call.settings)
    return await asyncio.wrap_future(_in_thread(call, config))


def _in_thread(call: Call, config: RunnableConfig | None) -> Future[Any]:
    """Start a call in a thread of its own.

    For sync-only targets under asyncio, and for sync calls with a deadline. What bounds a run is
    LangGraph's `max_concurrency`.
    """
    return in_thread(partial(call.target.invoke, call.input, config, **call.settings))


def _is_async(target: Runnable[Any, Any]) -> bool:
    """Say whether `target` awaits by itself; LangChain's default is a pool of a few threads."""
    target = unbound(target)
    if isinstance(target, BaseChatModel):
        kind = type(target)
        return (
            kind._agenerate is not BaseChatModel._agenerate
            or kind._astream is not BaseChatModel._astream
        )
    return awaits(target) if isinstance(target, BaseRetriever) else True


def pure(update: Update) -> Work:
    """Return `update` from a body that calls nothing."""
    yield from ()
    return update
