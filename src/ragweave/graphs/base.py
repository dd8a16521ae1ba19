"""How a method is declared, and the compiled graph that it becomes.

A method is one file: its options, its state, its prompts, its nodes, and a decorated function that
wires them:

    @method("crag", paper="…", when="…", calls=…, options=CragOptions, state=CragState, prompts=PROMPTS)
    def crag(graph: Graph, components: Components) -> None:
        "What the method does, in a line."
        graph.add_node("grade", grade(components))
        …

The graph already has its node `begin`. A package lists its method as an entry point of the group
`ragweave.methods`; a notebook hands it to `register_method`, or to `build_graph` itself.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, get_args, get_origin, get_type_hints

from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph as DrawableGraph
from langchain_core.tools import BaseTool
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer, Command, RetryPolicy, StateUpdate, TracePolicy

from ragweave.errors import PromptTooLongError, UsageError
from ragweave.graphs.adapters import GraphRetriever, tool_of
from ragweave.nodes import answer, queries, sufficiency
from ragweave.nodes.options import Options, make_options, with_defaults
from ragweave.nodes.papers import with_printed
from ragweave.nodes.prompts import Prompts, Templates, template_of
from ragweave.nodes.retrieve import GIVEN
from ragweave.nodes.runner import Components
from ragweave.state import AnswerType, RAGInput, RAGOutput, RAGState
from ragweave.state.passages import QUESTION, as_document, ranked
from ragweave.tools.drawing import draw_svg
from ragweave.tools.models.budget import Budget, Limits, current_budget
from ragweave.tools.models.calls import is_refused, is_transient
from ragweave.tools.retrieval.base import listed

Graph: TypeAlias = StateGraph[Any, Any, Any, Any]
Group = Literal[
    "start here",
    "more than one hop",
    "whole collections",
    "when to retrieve",
    "noisy passages",
    "agentic",
    "baselines",
    "other",
]
"""What methods are for, as the docs group them."""

Calls = Callable[[Any], tuple[int, int]]
"""From the options to the fewest and the most model calls for a question that finds k passages."""


@dataclass(frozen=True)
class Method:
    """A method: what it is, when to use it, what it costs, how it is wired."""

    name: str
    """How it is asked for."""
    summary: str
    """What it does, in a line: the first line of the docstring of what wires it."""
    paper: str
    """Where it was published."""
    when: str
    """When to use it, and when not."""
    calls: Calls
    options: type[Options]
    state: type[Any]
    prompts: Templates
    """The prompt templates that a caller may replace, by name."""
    wire: Callable[[Graph, Components], None] = field(repr=False)
    files: frozenset[str] = frozenset()
    """The options that name a file or folder: Studio's remote callers may not set them."""
    second_search: bool = False
    """Whether it searches again with `second_retriever`, if one is given."""
    group: Group = "other"


def method(
    name: str,
    *,
    paper: str,
    when: str,
    calls: Calls,
    options: type[Options] = Options,
    state: type[Any] = RAGState,
    prompts: Prompts | None = None,
    files: frozenset[str] = frozenset(),
    second_search: bool = False,
    group: Group = "other",
) -> Callable[[Callable[[Graph, Components], None]], Method]:
    """Declare the method that the decorated function wires; the first line of its docstring is the summary."""

    def counted(chosen: Any) -> tuple[int, int]:
        (fewest, most), (least, greatest) = calls(chosen), getattr(chosen, "query_calls", (0, 0))
        return fewest + least, most + greatest

    def declare(wire: Callable[[Graph, Components], None]) -> Method:
        searches = issubclass(options, queries.SearchOptions)
        shared = {**answer.PROMPTS, **sufficiency.PROMPTS, **(queries.PROMPTS if searches else {})}
        worded = with_printed({**shared, **(prompts or {})})
        templates = {name: template_of(prompt) for name, prompt in worded.items()}
        summary = (inspect.getdoc(wire) or "").partition("\n")[0]
        return Method(name, summary, paper, when, counted, options, state, templates, wire, files, second_search, group)

    return declare


MAX_QUESTION = 100_000
"""Longest question, in characters."""


def begin_node(state_type: type[Any]) -> Any:
    """Return the node `begin`, which sets every key of a state."""
    empty = empty_state(state_type)

    def begin(state: RAGState, runtime: Runtime[Options]) -> dict[str, Any]:
        question = state.get("question")
        if not isinstance(question, str) or not question.strip():
            raise UsageError(
                "the input has no question: give {'question': …} (build_chat takes a conversation's messages)"
            )
        if len(question) > MAX_QUESTION:
            raise PromptTooLongError(f"the question has {len(question)} characters; {MAX_QUESTION} are allowed")
        answer_type = state.get("answer_type") or runtime.context.default_answer_type
        if answer_type not in get_args(AnswerType):
            raise UsageError(f"answer_type must be one of {', '.join(get_args(AnswerType))}, not {answer_type!r}")
        given = ranked(map(as_document, listed(state.get("passages") or ())), GIVEN)
        return {
            **empty,
            "question": question.strip(),
            "answer_type": answer_type,
            "gold_answers": [answer for answer in state.get("gold_answers") or () if answer.strip()],
            "passages": given,
            "given": bool(given),
            "queries": {"question": question.strip()},
            "status": "unknown",
        }

    return begin


def empty_state(state_type: type[Any]) -> dict[str, Any]:
    """Return an update that clears every key of a state.

    A key with a reducer is set to None, which every reducer reads as "start over"; any other key to
    the empty value of its type, or None.
    """
    update: dict[str, Any] = {}
    for name, hint in get_type_hints(state_type, include_extras=True).items():
        while get_origin(hint) is NotRequired:
            hint = get_args(hint)[0]
        has_reducer = get_origin(hint) is Annotated
        kind = get_origin(hint) or hint
        update[name] = kind() if not has_reducer and kind in (str, int, bool, list, dict) else None
    return update


class MethodGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled method.

    It differs from what `StateGraph.compile` returns in five ways. The method's options end its loops, and a config's
    `recursion_limit`, which LangChain sets to 25 in batches, chains and tools, has no effect. A run without a `context` has the
    build's options, where LangGraph would give its nodes None. What an input leaves out is empty, where
    LangGraph would take the passages of the thread's last input. A run has a budget (`Options.limits`): once it is spent,
    no model is called, and the run ends with what was answered, truncated. A deadline cuts an asynchronous call. An edit of the state
    (`update_state`) is routed by the build's options, where LangGraph's routes would have none (langgraph issue 6340), and
    its passages may have any form that an input's may.

    Raises:
        RunTimeoutError: The time was up before anything was answered.
    """

    def stream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        **settings: Any,
    ) -> Iterator[Any]:
        """Stream a run; `invoke` and `batch` lead here too."""
        options = self._options(context)
        chunks = super().stream(_complete(input), _unlimited(config), context=options, **settings)
        return chunks if options.limits == Limits() else _budgeted(chunks, Budget(options.limits, current_budget()))

    def astream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        **settings: Any,
    ) -> AsyncIterator[Any]:
        """Stream a run; `ainvoke` and `abatch` lead here too."""
        options = self._options(context)
        chunks = super().astream(_complete(input), _unlimited(config), context=options, **settings)
        return chunks if options.limits == Limits() else _abudgeted(chunks, Budget(options.limits, current_budget()))

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Edit a thread's state; `update_state` leads here too."""
        return super().bulk_update_state(self._with_runtime(config), _completed(supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Edit a thread's state; `aupdate_state` leads here too."""
        return await super().abulk_update_state(self._with_runtime(config), _completed(supersteps))

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

    def _with_runtime(self, config: RunnableConfig) -> RunnableConfig:
        """Return a config with the runtime that routes read."""
        runtime = Runtime(context=self._options(None))
        return {**config, "configurable": {**config.get("configurable", {}), _RUNTIME: runtime}}

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Show the graph in a notebook; LangGraph's own picture is drawn by a server far away."""
        picture = draw_svg(self.get_graph(), title=f"The graph of {self.get_name()}")
        return {"text/plain": repr(self), "image/svg+xml": picture}


_RUNTIME = "__pregel_runtime"
"""The entry of a config's `configurable` where LangGraph looks for a node's or route's runtime."""
_SUPERSTEPS = 10_000
"""The recursion limit of every run, which only a loop without an end reaches."""


def _unlimited(config: RunnableConfig | None) -> RunnableConfig:
    return {**(config or {}), "recursion_limit": _SUPERSTEPS}


def _complete(given: Any) -> Any:
    if given is None or isinstance(given, Command):
        return given  # a thread goes on
    if not isinstance(given, Mapping):
        raise UsageError(f"the input must be a mapping, such as {{'question': …}}, not {type(given).__name__}")
    absent: dict[str, Any] = {"passages": [], "answer_type": None, "gold_answers": None}
    if "answer" not in given:
        return {**absent, **given}
    # The state of a parent graph: what answered an earlier question there is not input.
    asked = (None, given.get("question"))
    passages = [doc for doc in given.get("passages") or () if getattr(doc, "metadata", {}).get(QUESTION) in asked]
    return {**absent, **given, "passages": passages}


def _completed(supersteps: Sequence[Sequence[StateUpdate]]) -> list[list[StateUpdate]]:
    """Return edits whose passages are documents with id and rank, as nodes read them."""
    return [[StateUpdate(_with_documents(values), *at) for values, *at in updates] for updates in supersteps]


def _with_documents(values: Any) -> Any:
    if not isinstance(values, Mapping) or not values.get("passages"):
        return values
    passages = [*map(as_document, listed(values["passages"]))]
    ready = all(doc.id and "rank" in doc.metadata for doc in passages)
    return {**values, "passages": passages if ready else ranked(passages, GIVEN)}


MAX_CONCURRENCY = 1024
"""Branches at once, unless the caller's config says less; LangGraph alone runs 6 on two cores."""


RETRY = RetryPolicy(max_attempts=3, retry_on=lambda error: is_transient(error) and not is_refused(error))


def compile_method(
    method: Method,
    components: Components,
    options: Mapping[str, Any],
    *,
    state: type[Any] | None = None,
    checkpointer: Checkpointer = None,
    retry_policy: RetryPolicy = RETRY,
    trace_policy: TracePolicy | None = None,
) -> MethodGraph:
    """Return a method's graph over its components; the other arguments are those of `build_graph`."""
    schema = state or method.state
    graph: Graph = StateGraph(
        schema, context_schema=with_defaults(method.options, options), input_schema=RAGInput, output_schema=RAGOutput
    )
    graph.set_node_defaults(retry_policy=retry_policy)
    graph.add_node("begin", begin_node(schema))
    graph.add_edge(START, "begin")
    method.wire(graph, components)
    for node in graph.nodes.values():
        node.trace_policy = trace_policy
    compiled = MethodGraph(**vars(graph.compile(checkpointer=checkpointer, name=method.name)))
    return compiled.with_config({"max_concurrency": MAX_CONCURRENCY})


_END = object()


def _budgeted(chunks: Iterator[Any], budget: Budget) -> Iterator[Any]:
    """Yield chunks, each made within the budget, whatever the context that asks for it."""
    while True:
        with budget.holding():
            chunk = next(chunks, _END)
        if chunk is _END:
            return budget.check_timeout()
        yield chunk


async def _abudgeted(chunks: AsyncIterator[Any], budget: Budget) -> AsyncIterator[Any]:
    while True:
        with budget.holding():
            chunk = await anext(chunks, _END)
        if chunk is _END:
            budget.check_timeout()
            return
        yield chunk


def _without_handlers(drawn: DrawableGraph) -> DrawableGraph:
    for name in [name for name in drawn.nodes if name.startswith("__error_handler__")]:
        drawn.remove_node(drawn.nodes[name])
    return drawn
