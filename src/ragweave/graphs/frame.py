"""What every method's graph shares: its parts, its schemas, how it is checked and compiled."""

from __future__ import annotations

import difflib
import functools
import time
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, cast, get_type_hints

from langchain_core.embeddings import Embeddings
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, set_config_context
from langchain_core.runnables.graph import Graph
from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Checkpointer, Command, Overwrite, RetryPolicy
from pydantic import BaseModel
from typing_extensions import TypedDict

from ragweave.errors import StateError, UsageError
from ragweave.graphs.adapters import GraphRetriever, tool_of
from ragweave.graphs.limits import bounded, is_nested, with_own_steps
from ragweave.graphs.typed_output import OutputT, TypedGraph
from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.context_filter import Filters
from ragweave.nodes.judge import scorer_of
from ragweave.nodes.options import Options, OptionsT, current, specialised
from ragweave.nodes.retrieve import Retriever
from ragweave.nodes.step import RUN_DEADLINE, Step, note
from ragweave.nodes.sufficiency import answer_step
from ragweave.state import Branch, RAGInput, RAGOutput, RAGState
from ragweave.tools.drawing import draw_svg, shape_of
from ragweave.tools.filters import ContextFilter
from ragweave.tools.models import Models
from ragweave.tools.scorers.specs import LogprobScorer


class Draft(StateGraph[Any, Any, Any, Any]):
    """A `StateGraph` that raises where a node returns a key that the state lacks.

    LangGraph itself drops such a key without a word. A subgraph as a node is left alone: its output
    schema says what it may write.
    """

    retrieves = False
    """Whether there is a retriever: a run that ends without any document is then noted."""

    def add_node(self, node: Any, action: Any = None, **settings: Any) -> Self:
        """Add a node, as `StateGraph.add_node` does; its updates are checked at run time."""
        before = set(self.nodes)
        super().add_node(node, action, **settings)
        for name in set(self.nodes) - before:
            spec = self.nodes[name]
            runnable = cast("Runnable[Any, Any]", spec.runnable)
            if not isinstance(runnable, Pregel):
                spec.runnable = CheckedNode(name, runnable, self)
        return self


@functools.lru_cache(maxsize=256)
def _fields(state_type: Hashable) -> frozenset[str]:
    """Return the names of a state's fields; what a node's own schema adds to them is none."""
    return frozenset(get_type_hints(state_type))


class CheckedNode(Runnable[Any, Any]):
    """A node that returns nothing but keys of its graph's state."""

    def __init__(self, name: str, node: Runnable[Any, Any], graph: Draft) -> None:
        """Check `node`.

        Args:
            name: The node's name in the graph.
            node: The node.
            graph: The graph being wired.
        """
        self.name = name
        self._node = node
        self._fields = _fields(cast("Hashable", graph.state_schema))
        self._retrieves = graph.retrieves

    def invoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:  # noqa: A002
        """Run the node."""
        return self._checked(self._node.invoke(input, config, **more), input, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:  # noqa: A002
        """Run the node."""
        return self._checked(await self._node.ainvoke(input, config, **more), input, config)

    def _checked(self, result: Any, state: Any, config: RunnableConfig | None) -> Any:
        for key in _keys(result):
            if key not in self._fields:
                raise StateError(
                    f"the node {self.name!r} returned the key {key!r}, and the graph's state has "
                    f"no such field{_closest(key, self._fields)}"
                )
        if self._retrieves and _read_nothing(result):
            event = f"{result['status']}_without_documents"
            said = note(config or {}, str(self.name), event, why=_why_unread(state))
            return {**result, "notes": [*result.get("notes", ()), said]}
        return result


def _read_nothing(result: object) -> bool:
    """Say whether an update ends a run, with an answer or Unknown, for which no passage was read."""
    if not isinstance(result, Mapping) or not (result.get("answer") and result.get("status")):
        return False
    passages = result.get("passages")
    return isinstance(passages, Overwrite) and not passages.value


def _why_unread(state: Mapping[str, Any]) -> str:
    found = state.get("retrieved") or {}
    if any(found.values()):
        return "nothing was kept"
    if found:
        return "nothing was found"
    return "judged known" if state.get("known") else "nothing was looked up"


def _keys(result: object) -> Iterator[str]:
    """Yield the keys of a node's update, or of several."""
    if isinstance(result, Command):
        if result.graph is None:
            yield from _keys(result.update)
    elif isinstance(result, Mapping):
        yield from result
    elif isinstance(result, list | tuple):
        for one in result:
            if isinstance(one, Command):
                yield from _keys(one)


def _closest(key: str, fields: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, list(fields), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


class DrawnGraph(TypedGraph[OutputT]):
    """A compiled graph whose picture leaves out the handlers of failed nodes.

    LangGraph draws them unconnected. A run that is resumed gets its whole `timeout` anew. A run
    inside of another one has no more branches at once than that one. In a batch or a chain a loop
    has as many steps as alone.
    """

    def stream(
        self,
        input: Any,  # noqa: A002 - LangGraph's signature
        config: RunnableConfig | None = None,
        **more: Any,
    ) -> Iterator[Any]:
        """Check the input's keys, then run the graph, within its time limit."""
        config = with_own_steps(self.config, bounded(self.config, config))
        given = self._checked(input, config)
        return super().stream(given, self._in_time(given, config, more.get("context")), **more)

    def astream(
        self,
        input: Any,  # noqa: A002 - LangGraph's signature
        config: RunnableConfig | None = None,
        **more: Any,
    ) -> AsyncIterator[Any]:
        """Check the input's keys, then run the graph, within its time limit."""
        config = with_own_steps(self.config, bounded(self.config, config))
        given = self._checked(input, config)
        return super().astream(given, self._in_time(given, config, more.get("context")), **more)

    def _checked(self, given: object, config: RunnableConfig | None) -> object:
        """Check what a caller gives; as a node of another graph it is given all of that state."""
        if isinstance(given, Mapping) and not is_nested(config):
            return self._taken(given)
        return given

    def _taken(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an input as the graph takes it; a key that it would pass over is a UsageError."""
        return given

    def _in_time(
        self, given: object, config: RunnableConfig | None, context: object
    ) -> RunnableConfig | None:
        """Return a run's configuration with its deadline, where no node of it may set one.

        A resumed run goes on behind the node that does. Whether a subgraph is resumed shows
        nowhere, so a run inside of another one is always told.
        """
        nested = is_nested(config)
        if not nested and not (given is None or isinstance(given, Command)):
            return config
        bound = ensure_config(cast("RunnableConfig", {**(self.config or {}), **(config or {})}))
        configurable = bound.get("configurable") or {}
        timeout = self._timeout(context, bound if nested else None)
        limits = [
            configurable.get(RUN_DEADLINE),
            given.get("deadline") if nested and isinstance(given, Mapping) else None,
            None if timeout is None else time.time() + timeout,
        ]
        deadlines = [one for one in limits if isinstance(one, int | float)]
        if not deadlines:
            return config
        return {**(config or {}), "configurable": {**configurable, RUN_DEADLINE: min(deadlines)}}

    def _timeout(self, context: object, around: RunnableConfig | None) -> float | None:
        """Return the time limit of a run with this context; without one it has the outer run's.

        Args:
            context: What the caller gave.
            around: The configuration of a run inside of another one, whose context it holds: in a
                thread of the caller's own, LangGraph knows of no run around.
        """
        schema = self.builder.context_schema
        if not isinstance(schema, type) or not issubclass(schema, Options):
            return None
        if isinstance(context, Mapping):
            return schema(**context).timeout
        if isinstance(context, Options):
            return context.timeout
        if around is None:
            return schema().timeout
        with set_config_context(around) as outer:
            return outer.run(current, schema()).timeout

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Return the graph to draw."""
        return _without_handlers(super().get_graph(config, xray=xray))

    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Graph:
        """Return the graph to draw."""
        return _without_handlers(await super().aget_graph(config, xray=xray))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Show the graph in a notebook; LangGraph's own picture is drawn by a server far away."""
        picture = draw_svg(shape_of(self.get_graph()), title=f"The graph of {self.get_name()}")
        return {"text/plain": repr(self), "image/svg+xml": picture}


class CompiledGraph(DrawnGraph[RAGOutput]):
    """A compiled graph over the ragweave state: a LangChain Runnable from input to output.

    A key of the input that it does not take is an error, but for those of an earlier output or
    state, given back whole; as a node of another graph it is given all of that graph's state, and
    takes what it knows; its run ends by that graph's deadline.
    """

    def _checked(self, given: object, config: RunnableConfig | None) -> object:
        taken = super()._checked(given, config)
        # A thread's last input stays where its run never took it up: refused, or paused before.
        return {"passages": [], **taken} if isinstance(taken, Mapping) else taken

    def _taken(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        schemas = self.builder.input_schema, self.builder.output_schema, self.builder.state_schema
        known, of_output, of_state = (_fields(cast("Hashable", one)) for one in schemas)
        if given.keys() >= of_output:
            known |= of_output | of_state
        for key in given:
            if key not in known:
                raise UsageError(
                    f"the input has a key {key!r} that this graph does not take"
                    f"{_closest(str(key), known)}; it takes question, passages, answer_type"
                )
        if "question" not in given:
            raise UsageError(
                "the input has no question, and a thread's last one is not asked again"
            )
        return given

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool that answers a question by this graph, with its sources.

        Args:
            args_schema: What the tool takes, where not a question alone; then LangChain makes
                the tool, and its input is the graph's.
            name: The tool's name, as an agent's model sees it; None: the method's.
            description: When to use it, as an agent's model sees it.
            arg_types: As `args_schema`, by name.
        """
        if args_schema is not None or arg_types is not None:
            return super().as_tool(
                args_schema, name=name, description=description, arg_types=arg_types
            )
        about = description or "Answers a question from the knowledge base, and names its sources."
        return tool_of(self, name or str(self.get_name()), about)

    def as_retriever(self) -> BaseRetriever:
        """Return a retriever of the passages that this graph keeps for a question."""
        return GraphRetriever(graph=self)


MAX_CONCURRENCY = 1024
"""Branches at once unless the caller's config says less; LangGraph alone runs 6 on two cores."""


@dataclass(frozen=True, kw_only=True)
class Parts(Generic[OptionsT]):
    """What a method is built from."""

    models: Models
    """The models by role."""
    retriever: Retriever | None
    """Where passages come from; None: every input brings its own, or the method needs none."""
    options: OptionsT
    """The method's options."""
    prompts: Mapping[str, ChatPromptTemplate] = field(default_factory=dict)
    """The method's prompt templates by name, the caller's replacements among them."""
    checkpointer: Checkpointer = None
    """Where LangGraph keeps the state of each thread; None: nowhere."""
    context_filter: ContextFilter | None = None
    """The caller's own context filter (FILCO); None: the one that the options name."""
    scorer: LogprobScorer | None = None
    """What scores outputs for the CXMI filter; None: the answering model where it can."""
    embeddings: Embeddings | None = None
    """The caller's own embeddings (SKR-KNN); None: the model that the options name."""
    judge_scorer: LogprobScorer | None = None
    """What reads the judge by score (SlimPLM); None: the judge itself where it can."""

    second_retriever: Retriever | None = None
    """Where CRAG looks again, such as a web search; None: where it looked first."""

    state: type[RAGState] = RAGState
    """The graph's state: `RAGState`, or a class of the caller's own that extends it."""

    @property
    def filters(self) -> Filters:
        """Where context filters come from."""
        return Filters(self.context_filter, self.scorer or scorer_of(self.models.answer))

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy of every node that calls a model or a retriever."""
        return self.models.retry

    def extended(self, state: type[RAGState]) -> Parts[OptionsT]:
        """Return these parts with a method's own state, joined to the caller's where there is one.

        Args:
            state: A class that extends `RAGState` by the method's fields.
        """
        if self.state is RAGState:
            return replace(self, state=state)
        fields = [get_type_hints(one, include_extras=True) for one in (state, self.state)]
        made: Any = TypedDict  # the functional form, whose names are known only here
        joined: type[RAGState] = made(self.state.__name__, fields[0] | fields[1])
        return replace(self, state=joined)

    def answers(self, answer: AnswerStep) -> Step[Branch, OptionsT]:
        """Return the node for an answer step."""
        return answer_step(answer, self.models, self.prompts, self.options)


def draft(parts: Parts[Any]) -> Draft:
    """Return an empty graph over the state, its context schema made from the build's options."""
    made = Draft(
        parts.state,
        context_schema=specialised(parts.options),
        input_schema=RAGInput,
        output_schema=RAGOutput,
    )
    made.retrieves = parts.retriever is not None
    return made


def finish(graph: Draft, name: str, parts: Parts[Any]) -> CompiledGraph:
    """Compile `graph` as `name`, with as many branches at once as it fans out."""
    compiled = graph.compile(checkpointer=parts.checkpointer, name=name)
    drawn = CompiledGraph(**vars(compiled))
    return drawn.with_config({"max_concurrency": MAX_CONCURRENCY})


def _without_handlers(graph: Graph) -> Graph:
    handlers = [node for name, node in graph.nodes.items() if name.startswith("__error_handler__")]
    for handler in handlers:
        graph.remove_node(handler)
    return graph
