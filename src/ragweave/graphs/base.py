"""How a method is declared, and the compiled graph that it becomes.

A method is one file: its options, its state, its prompts, its nodes, and a decorated function that
wires them:

    @method("crag", summary="…", paper="…", when="…", calls=…, options=CragOptions, state=CragState,
            prompts=PROMPTS)
    def crag(graph: Graph, components: Components) -> None:
        graph.add_node("grade", grade(components))
        …

The graph already has its node `begin`. A package lists its method as an entry point of the group
`ragweave.methods`; a notebook hands it to `register_method`, or to `build_graph` itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.graph import Graph as DrawableGraph
from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from ragweave.errors import RunTimeoutError
from ragweave.graphs.adapters import GraphRetriever, tool_of
from ragweave.nodes import answer, sufficiency
from ragweave.nodes.ask import Components, Prompts
from ragweave.nodes.options import Options, make_options
from ragweave.state import RAGState
from ragweave.state.passages import QUESTION
from ragweave.tools.drawing import draw_svg

Graph: TypeAlias = StateGraph[Any, Any, Any, Any]
Calls = Callable[[Any], tuple[int, int]]
"""From the options to the fewest and the most model calls for a question that finds k passages."""


@dataclass(frozen=True)
class Method:
    """A method: what it is, when to use it, what it costs, how it is wired."""

    name: str
    """How it is asked for."""
    summary: str
    """What it does, in a line."""
    paper: str
    """Where it was published."""
    when: str
    """When to use it, and when not."""
    calls: Calls
    options: type[Options]
    state: type[Any]
    prompts: Prompts
    """The prompt templates that a caller may replace, by name."""
    wire: Callable[[Graph, Components], None] = field(repr=False)
    files: frozenset[str] = frozenset()
    """The options that name a file or folder: Studio's remote callers may not set them."""
    second_search: bool = False
    """Whether it searches again with `second_retriever`, if one is given."""


def method(
    name: str,
    *,
    summary: str,
    paper: str,
    when: str,
    calls: Calls,
    options: type[Options] = Options,
    state: type[Any] = RAGState,
    prompts: Mapping[str, ChatPromptTemplate] | None = None,
    files: frozenset[str] = frozenset(),
    second_search: bool = False,
) -> Callable[[Callable[[Graph, Components], None]], Method]:
    """Declare the method that the decorated function wires."""

    def declare(wire: Callable[[Graph, Components], None]) -> Method:
        own = {**answer.PROMPTS, **sufficiency.PROMPTS, **(prompts or {})}
        return Method(name, summary, paper, when, calls, options, state, own, wire, files, second_search)

    return declare


class MethodGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled method.

    It differs from what `StateGraph.compile` returns in three ways. A run without a `context` has the
    build's options, where LangGraph would give its nodes None. What an input leaves out is empty, where
    LangGraph would take the passages of the thread's last input. `timeout` ends a run: an asynchronous
    one at once, a synchronous one after the step that is running.
    """

    def stream(self, input: Any, *args: Any, context: Any = None, **settings: Any) -> Iterator[Any]:  # noqa: A002
        """Stream a run; `invoke` and `batch` lead here too."""
        options = self._options(context)
        chunks = super().stream(_complete(input), *args, context=options, **settings)
        return chunks if options.timeout is None else _until(chunks, options.timeout)

    def astream(self, input: Any, *args: Any, context: Any = None, **settings: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Stream a run; `ainvoke` and `abatch` lead here too."""
        options = self._options(context)
        chunks = super().astream(_complete(input), *args, context=options, **settings)
        return chunks if options.timeout is None else _auntil(chunks, options.timeout)

    def get_graph(self, *args: Any, **settings: Any) -> DrawableGraph:
        """Return the graph to draw, without LangGraph's nodes for errors."""
        return _without_handlers(super().get_graph(*args, **settings))

    async def aget_graph(self, *args: Any, **settings: Any) -> DrawableGraph:
        """Return the same graph; the server calls this one."""
        return _without_handlers(await super().aget_graph(*args, **settings))

    def as_tool(
        self, args_schema: Any = None, *, name: str | None = None, description: str | None = None, **more: Any
    ) -> BaseTool:
        """Return a tool that answers a question by this graph and names its sources.

        Args:
            args_schema: What the tool takes, if not a question alone; then LangChain makes the tool.
            name: The tool's name, as an agent's model sees it; None: the method's.
            description: When to use it, as an agent's model sees it.
            **more: More arguments of LangChain's `as_tool`.
        """
        if args_schema is not None or more:
            return super().as_tool(args_schema, name=name, description=description, **more)
        about = description or "Answers a question from the knowledge base, and names its sources."
        return tool_of(self, name or str(self.get_name()), about)

    def as_retriever(self) -> BaseRetriever:
        """Return a retriever of the passages that this graph answers from."""
        return GraphRetriever(graph=self)

    def _options(self, context: Any) -> Options:
        schema: Any = self.context_schema
        options: Options = context if isinstance(context, schema) else make_options(schema, context or {})
        return options

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Show the graph in a notebook; LangGraph's own picture is drawn by a server far away."""
        picture = draw_svg(self.get_graph(), title=f"The graph of {self.get_name()}")
        return {"text/plain": repr(self), "image/svg+xml": picture}


def _complete(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    absent: dict[str, Any] = {"passages": [], "answer_type": None, "gold_answers": None}
    return {**absent, **given, **({"passages": _for_this_question(given)} if "answer" in given else {})}


def _for_this_question(state: Mapping[str, Any]) -> list[Any]:
    """Return the passages of a parent graph's state, without those that answered an earlier question."""
    asked = (None, state.get("question"))
    return [one for one in state.get("passages") or () if getattr(one, "metadata", {}).get(QUESTION) in asked]


def _until(chunks: Iterator[Any], seconds: float) -> Iterator[Any]:
    end = time.monotonic() + seconds
    for chunk in chunks:
        if time.monotonic() > end:
            raise RunTimeoutError(f"the run took longer than {seconds:g} seconds (timeout)")
        yield chunk


async def _auntil(chunks: AsyncIterator[Any], seconds: float) -> AsyncIterator[Any]:
    end = time.monotonic() + seconds
    while True:
        try:
            yield await asyncio.wait_for(anext(chunks), max(end - time.monotonic(), 0))
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            if time.monotonic() < end:
                raise
            raise RunTimeoutError(f"the run took longer than {seconds:g} seconds (timeout)") from error


def _without_handlers(drawn: DrawableGraph) -> DrawableGraph:
    for name in [one for one in drawn.nodes if one.startswith("__error_handler__")]:
        drawn.remove_node(drawn.nodes[name])
    return drawn
