"""The methods as LangGraph Studio and the Agent Server serve them: one graph factory for each.

The server calls a method's factory for each run, schema and picture. `langgraph.json` names the
factories as attributes of this module, those of other packages' methods too.

The operator's environment names the models and the knowledge base (`Sources`). A remote caller
chooses a question and the method's settings, but no file and no model. Files and models are opened
in a worker thread, so that the server's event loop never waits.
"""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_type_hints

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime

from ragweave.errors import UsageError
from ragweave.graphs import METHODS, CompiledGraph, Parts, chat_over
from ragweave.graphs.build import AnyModel, check_models, context_filter_of, role_models
from ragweave.graphs.chat import check_asks, restater_of
from ragweave.graphs.method import Method, read_option
from ragweave.nodes.context_filter import ContextFilterOptions
from ragweave.nodes.options import Options, specialised
from ragweave.nodes.retrieve import Retriever
from ragweave.tools.filters import ContextFilter
from ragweave.tools.models import Models
from ragweave.tools.models.specs import PREFIX

ENVIRONMENT_PREFIX = "RAGWEAVE_"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Models and passages of a run; the environment names them, and a run may change `search`."""

    model: str = "extractive"
    """The model that answers: extractive, openai:NAME, llamacpp:PATH, provider:NAME, or the folder
    of a trained generator."""
    proxy: str = ""
    """The model that drafts answers; empty: the answering model."""
    judge: str = ""
    """The model that judges what is known, or the folder of a trained judge; empty: the proxy."""
    rewriter: str = ""
    """The model that rewrites queries, or the folder of a trained rewriter; empty: the proxy."""
    filter_model: str = ""
    """The model that filters passages; empty: the answering model."""
    trained_filter: str = ""
    """Folder of a trained context filter, for methods that have one; empty: what `filter` names."""
    kb: str = ""
    """Folder of a knowledge base; empty: the articles that come with ragweave."""
    search: Literal["auto", "bm25", "dense", "hybrid"] = "auto"
    """How the knowledge base is searched."""


def studio_options(method: Method) -> Options:
    """Return a method's options with `Sources` beside them, both with the environment's values.

    `RAGWEAVE_MODEL`, `RAGWEAVE_KB`, `RAGWEAVE_K`, … set the default of the field of that name;
    an option that a method does not have is not read.

    Raises:
        UsageError: A value is out of its range.
    """
    kind = dataclasses.make_dataclass(
        method.options.__name__,
        [],
        bases=(method.options, Sources),
        frozen=True,
        kw_only=True,
        namespace={
            "__doc__": method.summary,
            "__module__": method.options.__module__,
            "__operators__": operators(method),
        },
    )
    hints = get_type_hints(kind)
    values: dict[str, Any] = {"citations": True}
    for field in dataclasses.fields(kind):
        text = os.environ.get(ENVIRONMENT_PREFIX + field.name.upper())
        if text is not None:
            values[field.name] = read_option(text, hints[field.name])
    made: Options = kind(**values)
    return made


OPERATOR = frozenset(
    {"training", "embedding", "encoder", "router"}
    | {field.name for field in dataclasses.fields(Sources)} - {"search"}
)
"""Settings that open files or models: only the environment of the server sets them."""


def operators(method: Method) -> frozenset[str]:
    """Return the settings of a method that only the operator sets, its own files among them."""
    return OPERATOR | method.files


class ServedGraph(CompiledGraph):
    """A graph as it is served: its schemas show only what a remote caller may choose.

    Anything else that a caller gives is refused, not silently ignored.
    """

    inputs: ClassVar[tuple[str, ...]] = ("question",)
    """The fields of the state that a run's input may set."""

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the schema of the input, each field with what it means."""
        schema = super().get_input_jsonschema(config)
        return _described(_only(schema, lambda name: name in self.inputs), INPUTS)

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the schema of a run's settings, without those of the operator."""
        schema = super().get_context_jsonschema()
        return schema and _only(schema, lambda name: name not in self._operators)

    @property
    def _operators(self) -> frozenset[str]:
        found: frozenset[str] = getattr(self.builder.context_schema, "__operators__", OPERATOR)
        return found

    def stream(
        self,
        input: Any,  # noqa: A002 - LangGraph's signature
        config: RunnableConfig | None = None,
        **more: Any,
    ) -> Iterator[Any]:
        """Check what the caller chooses, then run."""
        _check_run(input, config, self.inputs, self._operators)
        return super().stream(input, config, **more)

    def astream(
        self,
        input: Any,  # noqa: A002 - LangGraph's signature
        config: RunnableConfig | None = None,
        **more: Any,
    ) -> AsyncIterator[Any]:
        """Check what the caller chooses, then run."""
        _check_run(input, config, self.inputs, self._operators)
        return super().astream(input, config, **more)


class ServedChat(ServedGraph):
    """A conversation as it is served: it takes messages."""

    inputs = ("messages",)

    def _taken(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        check_asks(given)
        return given


INPUTS = {
    "question": "The question to answer from the knowledge base.",
    "messages": "The conversation so far; the last message of the user is the question.",
}


def served(graph: CompiledGraph) -> ServedGraph:
    """Return `graph` for remote callers."""
    return ServedGraph(**vars(graph))


def check_context(method: Method, given: object) -> None:
    """Refuse a run's settings that only the operator may choose.

    The values that the operator set are let through: a form sends back all that it shows.

    Raises:
        UsageError: A setting opens a file or a model.
    """
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        given = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    if not isinstance(given, Mapping):
        return
    own = studio_options(method)
    for name in sorted(operators(method).intersection(given)):
        if given[name] != getattr(own, name, None):
            raise _refusal(name)


def _check_run(
    given: object,
    config: RunnableConfig | None,
    inputs: Sequence[str],
    refused: frozenset[str],
) -> None:
    """Refuse fields of the input and of `configurable` that a caller may not choose."""
    configurable = (config or {}).get("configurable") or {}
    for name in sorted(refused.intersection(configurable)):
        raise _refusal(name)
    if not isinstance(given, Mapping):
        return
    for name in sorted(set(given) - set(inputs)):
        if name in refused:
            raise _refusal(name)
        only = " and ".join(inputs)
        raise UsageError(f"a run's input is its {only}; {name!r} cannot be given here")


def _refusal(name: str) -> UsageError:
    return UsageError(
        f"{name} cannot be chosen by a run: the operator of this server sets it "
        f"({ENVIRONMENT_PREFIX}{name.upper()})"
    )


def _only(schema: dict[str, Any], wanted: Any) -> dict[str, Any]:
    """Return an object's schema with the wanted properties, and the definitions that they use."""
    slim = {name: one for name, one in schema.get("properties", {}).items() if wanted(name)}
    required = [name for name in schema.get("required", []) if name in slim]
    made = {**schema, "properties": slim, "required": required, "additionalProperties": False}
    if "#/$defs/" not in repr(slim):
        made.pop("$defs", None)
    return made


def _described(schema: dict[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return an object's schema with a description for each property, in place of a type's own."""
    properties = {
        name: {**one, "description": texts[name]} for name, one in schema["properties"].items()
    }
    return {**schema, "properties": properties}


Factory = Callable[[ServerRuntime[Any]], Awaitable[CompiledGraph]]


def factory(method: Method | str) -> Factory:
    """Return the graph factory of a method, by its name or declaration.

    A `langgraph.json` of one's own names it as `ragweave.serving.studio:METHOD`, for methods of
    other packages too; or, for a method that is not registered or whose name is one of this module's,
    as a variable of one's own that holds this function's result.

    Raises:
        UsageError: No method has that name.
    """
    method = _method(method)

    async def make(runtime: ServerRuntime[Any]) -> CompiledGraph:
        running = runtime.execution_runtime
        if running is None:
            return served(await asyncio.to_thread(studio_picture, method))
        check_context(method, running.context)
        return served(await asyncio.to_thread(studio_graph, method, running.context))

    make.__name__ = method.name
    return make


DEFAULT_METHOD = "concat_pf"


async def chat(runtime: ServerRuntime[Any]) -> CompiledGraph:
    """Make the conversation over the method that `RAGWEAVE_METHOD` names (`concat_pf`).

    Raises:
        UsageError: No method has that name, or a run chooses what only the operator may.
    """
    method = METHODS.named(os.environ.get(f"{ENVIRONMENT_PREFIX}METHOD") or DEFAULT_METHOD)
    running = runtime.execution_runtime
    if running is None:
        picture = await asyncio.to_thread(studio_picture, method)
        return _served_chat(picture, Models(answer=AnyModel()))
    check_context(method, running.context)
    return await asyncio.to_thread(studio_chat, method, running.context)


def studio_chat(name: str | Method, given: Any = None) -> CompiledGraph:
    """Build a conversation over a method for the server; answers are cited unless it says not to.

    Args:
        name: The method, by its name or declaration.
        given: The run's context, as for `studio_graph`.

    Raises:
        UsageError: A value is out of its range, or a name unknown.
    """
    graph = studio_graph(name, given)
    sources = graph.builder.context_schema
    assert sources is not None  # noqa: S101 - every method has options
    return _served_chat(graph, _models_of(sources()))


def _served_chat(graph: CompiledGraph, models: Models) -> CompiledGraph:
    restater = restater_of(models.answer, models.by_role("proxy"))
    return ServedChat(**vars(chat_over(graph, restater)))


def studio_graph(name: str | Method, given: Any = None) -> CompiledGraph:
    """Build a method for the server.

    Args:
        name: The method, by its name or declaration.
        given: The run's context: a mapping or an options object; None: the environment's values.

    Raises:
        UsageError: A value is out of its range, or a name unknown.
    """
    method = _method(name)
    options = studio_options(method)
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        given = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    try:
        chosen = specialised(options)(**(given or {}))
    except TypeError as error:
        raise UsageError(f"{method.name} cannot take a setting of this run: {error}") from error
    return _with_sources(method, chosen)


def studio_picture(name: str | Method) -> CompiledGraph:
    """Build a method for its schemas, picture and states: no model or knowledge base is opened."""
    method = _method(name)
    return _built(method, studio_options(method), Models(answer=AnyModel()), None)


def _method(name: str | Method) -> Method:
    return METHODS.named(name) if isinstance(name, str) else name


def _with_sources(method: Method, options: Any) -> CompiledGraph:
    sources: Sources = options
    models = _models_of(sources)
    check_models(models, options)
    trained = _filter(sources.trained_filter) if isinstance(options, ContextFilterOptions) else None
    if trained is not None:
        options = dataclasses.replace(options, filter="own")
    return _built(method, options, models, _retriever(sources.kb, sources.search), trained)


def _models_of(sources: Any) -> Models:
    return _models(
        sources.model, sources.proxy, sources.judge, sources.rewriter, sources.filter_model
    )


def _built(
    method: Method,
    options: Any,
    models: Models,
    retriever: Retriever | None,
    context_filter: ContextFilter | None = None,
) -> CompiledGraph:
    return method.build(
        Parts(
            models=models,
            retriever=retriever,
            options=options,
            prompts=method.templates,
            context_filter=context_filter,
        )
    )


@lru_cache(maxsize=16)
def _models(model: str, proxy: str, judge: str, rewriter: str, filter_model: str) -> Models:
    roles = {"proxy": proxy, "judge": judge, "rewriter": rewriter, "filter_model": filter_model}
    return role_models({"model": model, **{name: spec or None for name, spec in roles.items()}})


@lru_cache(maxsize=4)
def _filter(folder: str) -> ContextFilter | None:
    if not folder:
        return None
    return context_filter_of(folder if folder.startswith(PREFIX) else f"{PREFIX}{folder}")


@lru_cache(maxsize=8)
def _retriever(kb: str, search: str) -> Retriever:
    if not kb:
        from ragweave.corpus import corpus_documents
        from ragweave.tools.retrieval import Bm25Retriever

        return Bm25Retriever.from_documents(corpus_documents())
    from ragweave.serving.public_sources import PublicSources
    from ragweave.tools.knowledge import open_knowledge_base, retriever_of

    base = open_knowledge_base(kb)
    return PublicSources(inner=retriever_of(search, base), folder=base.indexed_folder)


_LOGGER = logging.getLogger("ragweave")

_TAKEN = frozenset(globals()).union(dir(builtins)) - {one.name for one in METHODS.ours()}
"""The names that this module uses itself: no method of another package may stand in their place."""


def _factories() -> Iterator[tuple[str, Factory]]:
    """Yield each method's factory by the method's name; a name that this module uses is left out."""
    for name, method in METHODS.items():
        if name in _TAKEN:
            _LOGGER.warning(
                "the method %r (%s) is called as something of %s, and not served by its name: put "
                "factory(%r) into a module of your own",
                *(name, METHODS.package(name), __name__, name),
            )
        else:
            yield name, factory(method)


globals().update(_factories())
