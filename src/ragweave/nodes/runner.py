"""What a node is built from, and how it runs: written once, whether LangGraph invokes or awaits it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor

from ragweave.nodes.prompts import Templates
from ragweave.state import RAGState
from ragweave.tools.filters import FilterKind
from ragweave.tools.models.roles import LogprobScorer, Models

Node: TypeAlias = Runnable[Any, Any]
Retriever: TypeAlias = Runnable[str, list[Document]]
StateNode: TypeAlias = Callable[..., RAGState]
"""A plain LangGraph node."""


_FUTURES: ContextVar[set[Future[Any]] | None] = ContextVar("ragweave_futures", default=None)


class CountedThreads(ThreadPoolExecutor):
    """Threads that a caller can wait for, even if what awaited them was cancelled."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in a thread."""
        future = super().submit(fn, *args, **kwargs)
        if (futures := _FUTURES.get()) is not None:
            futures.add(future)
            future.add_done_callback(futures.discard)
        return future


@contextmanager
def counted() -> Iterator[set[Future[Any]]]:
    """Collect the calls that this context runs in `CountedThreads`, until each has ended."""
    futures: set[Future[Any]] = set()
    token = _FUTURES.set(futures)
    try:
        yield futures
    finally:
        _FUTURES.reset(token)


_THREADS = CountedThreads(64, "ragweave")
"""Calls at once of models without asynchronous calls; asyncio's own pool has four threads more than cores."""


@dataclass(frozen=True, kw_only=True)
class Components:
    """What a method is built from."""

    models: Models
    prompts: Templates = field(default_factory=dict)
    retriever: Retriever | None = None
    second_retriever: Retriever | None = None
    """Where CRAG searches again."""
    context_filter: FilterKind | None = None
    """The caller's own context filter (FILCO)."""
    scorer: LogprobScorer | None = None
    """Scores outputs for CXMI."""
    embeddings: Embeddings | None = None
    """Finds the nearest training questions (SKR-KNN)."""


@dataclass(frozen=True)
class Caller:
    """Calls runnables for a node, so that a node is written once, whether LangGraph invokes or awaits it."""

    awaits: bool = False

    async def call(
        self, target: Runnable[Any, Any], given: Any, config: RunnableConfig, *, is_sync: bool = False, **settings: Any
    ) -> Any:
        """Return a runnable's output; `is_sync`: it has no asynchronous code of its own, and gets a thread of ours."""
        if not self.awaits:
            return target.invoke(given, config, **settings)
        if is_sync:
            call = partial(target.invoke, given, config, **settings)
            return await run_in_executor(_THREADS, partial(copy_context().run, call))
        return await target.ainvoke(given, config, **settings)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        if self.awaits:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)


class FunctionNode(Runnable[Any, Any]):
    """A node of a coroutine function. LangGraph traces it; a `RunnableLambda` would trace it again."""

    def __init__(self, steps: Callable[[Any, RunnableConfig, Caller], Coroutine[Any, Any, Any]], name: str) -> None:
        """Take the function: of an input, its config, and what calls other runnables."""
        self.steps, self.name = steps, name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the function to its end: with a caller that invokes it never waits."""
        try:
            self.steps(input, config or {}, Caller()).send(None)
        except StopIteration as end:
            return end.value

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Await the function."""
        return await self.steps(input, config or {}, Caller(awaits=True))
