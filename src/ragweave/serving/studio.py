"""The methods as LangGraph Studio and the Agent Server serve them: one graph factory for each.

`langgraph.json` names the factories as attributes of this module, those of other packages' methods too. The
operator's environment names the models, the knowledge base and the options' defaults:

    RAGWEAVE_MODEL, RAGWEAVE_PROXY, RAGWEAVE_JUDGE, RAGWEAVE_REWRITER, RAGWEAVE_SELECTOR    models by role
    RAGWEAVE_FILTER                  a context filter, or a trained filter's folder
    RAGWEAVE_KB, RAGWEAVE_SEARCH     a knowledge base (default: the bundled articles), and how to search it
    RAGWEAVE_K, …                    any other option of the method
    RAGWEAVE_METHOD                  the method of the conversation `chat`

A remote caller chooses a question and a method's options, but neither files nor models. What the environment sets is the
maximum that a caller may set; any other count may be ten times its default.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, cast

from langchain_core.documents import Document
from langgraph_sdk.runtime import ServerRuntime

from ragweave.errors import UsageError
from ragweave.graphs import METHODS, Method, MethodGraph, build_graph
from ragweave.graphs.chat import chat_over
from ragweave.graphs.specs import read_options
from ragweave.nodes.options import Options
from ragweave.roles import ROLES, arguments_of
from ragweave.tools.footnotes import file_of
from ragweave.tools.models import ChatModel
from ragweave.tools.models.roles import trained_role
from ragweave.tools.providers import chat_model
from ragweave.tools.retrieval.base import PassageRetriever, ReadThrough

DEFAULT_METHOD = "concat_pf"


class ServedGraph(MethodGraph):
    """A graph for remote callers, whose settings may not name files of the server."""

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the schema of a run's settings, with their maxima and without the operator's own."""
        schema = super().get_context_jsonschema()
        if schema is None:
            return None
        properties = {name: field for name, field in schema["properties"].items() if name not in self._operators}
        for name, maximum in self._maxima.items():
            field = dict(properties[name])
            (kind,) = [kind for kind in field.pop("anyOf", [field]) if kind["type"] != "null"]
            properties[name] = {**field, **kind, "maximum": maximum}
        return {**schema, "properties": properties}

    @property
    def _operators(self) -> frozenset[str]:
        operators: frozenset[str] = getattr(self.context_schema, "operators", frozenset())
        return operators

    @property
    def _maxima(self) -> dict[str, float]:
        """By option: the operator's number, else ten times the default of a count without a maximum of its own."""
        options = cast("type[Options]", self.context_schema)
        fields = {name: field for name, field in options.model_fields.items() if name not in self._operators}
        counts = {
            name: 10 * field.default
            for name, field in fields.items()
            if type(field.default) is int and not any(hasattr(bound, "le") for bound in field.metadata)
        }
        own = {name: field.default for name, field in fields.items() if name in options.built_with}
        return counts | {name: value for name, value in own.items() if type(value) in (int, float)}

    def _options(self, context: Any) -> Options:
        """Return the options of a run.

        Raises:
            UsageError: An option that names a file differs from the operator's, or a number exceeds its maximum.
        """
        options = super()._options(context)
        for name in self._operators:
            if getattr(options, name) != type(options).model_fields[name].default:
                raise UsageError(f"{name} cannot be set by a run: the server's operator sets it ({_variable(name)})")
        for name, maximum in self._maxima.items():
            if (chosen := getattr(options, name)) is None or chosen > maximum:
                raise UsageError(
                    f"{name} may be at most {maximum:g}: the server's operator may raise it ({_variable(name)})"
                )
        return options


def _named(_how: str, read: Callable[[], list[Document]]) -> list[Document]:
    """Return passages with file names instead of paths."""
    named = ((doc, {"source": file_of(str(doc.metadata.get("source") or ""))}) for doc in read())
    return [doc.model_copy(update={"metadata": doc.metadata | source}) for doc, source in named]


Factory = Callable[[ServerRuntime[Any]], Awaitable[ServedGraph]]


def factory(method: Method | str) -> Factory:
    """Return the graph factory of a method, by its name or declaration.

    Your own `langgraph.json` names it as `ragweave.serving.studio:METHOD`, or as a variable of your module that holds this
    function's result.

    Raises:
        UsageError: No method has that name.
    """
    chosen = METHODS.named(method) if isinstance(method, str) else method

    async def make(runtime: ServerRuntime[Any]) -> ServedGraph:
        return await asyncio.to_thread(served, chosen, drawn=runtime.execution_runtime is None)

    make.__name__ = chosen.name
    return make


async def chat(runtime: ServerRuntime[Any]) -> ServedGraph:
    """Make the conversation over the method that `RAGWEAVE_METHOD` names."""
    method = METHODS.named(_setting("method") or DEFAULT_METHOD)
    return await asyncio.to_thread(served_chat, method, drawn=runtime.execution_runtime is None)


def served(method: Method, *, drawn: bool = False) -> ServedGraph:
    """Build a method as configured by the environment.

    If it is only `drawn` and described, no model and no knowledge base are opened.

    Raises:
        UsageError: A value in the environment is out of range, or a name is unknown.
    """
    fields = method.options.model_fields.keys() - {"filter"}
    texts = {name: text for name in fields if (text := _setting(name)) is not None}
    arguments: dict[str, Any] = {"citations": True, **read_options(method.options, texts)}
    if "filter" in method.options.model_fields and (own := _setting("filter")) and not drawn:
        arguments["filter"] = own
    if not drawn:
        arguments |= arguments_of(
            {name: _model(spec) for name, role in ROLES.items() if (spec := _setting(role.argument))}
        )
        arguments["retriever"] = _retriever(_setting("kb") or "", _setting("search") or "auto")
    return _for_callers(build_graph(method, **arguments), method)


def served_chat(method: Method, *, drawn: bool = False) -> ServedGraph:
    """Build a conversation over a method as configured by the environment; see `served`."""
    restater = _model("extractive" if drawn else _setting("restater") or _setting("model") or "extractive")
    if trained_role(restater) and (proxy := _setting("proxy")):  # a trained generator restates nothing
        restater = _model(proxy)
    return _for_callers(chat_over(served(method, drawn=drawn), restater), method)


def _for_callers(graph: MethodGraph, method: Method) -> ServedGraph:
    cast("Any", graph.context_schema).operators = method.files
    return ServedGraph(**vars(graph))


def _variable(name: str) -> str:
    return f"RAGWEAVE_{name.upper()}"


def _setting(name: str) -> str | None:
    return os.environ.get(_variable(name))


@lru_cache(maxsize=16)
def _model(spec: str) -> ChatModel:
    return chat_model(spec)


@lru_cache(maxsize=4)
def _retriever(kb: str, search: str) -> PassageRetriever:
    from ragweave.tools.knowledge import open_knowledge_base, retriever_of

    if kb:
        return ReadThrough.over(retriever_of(search, open_knowledge_base(kb)), _named)
    from ragweave.corpus import corpus_documents
    from ragweave.tools.retrieval import Bm25Retriever

    return Bm25Retriever.from_documents(corpus_documents())


# The server reads the factories as variables of this module.
globals().update({name: factory(method) for name, method in METHODS.items() if name not in globals()})
