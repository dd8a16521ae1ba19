"""One graph factory a method: the server calls it for each run, schema and picture.

The environment names the models and the knowledge base; a run's assistant may name other options
of the method, and no file or model. Files and models are opened in a worker thread, so that the
server's event loop never waits.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from langgraph_sdk.runtime import ServerRuntime

from ragweave.errors import UsageError
from ragweave.graphs import METHODS, CompiledGraph, Parts
from ragweave.graphs.method import Method
from ragweave.graphs.picture import AnyModel
from ragweave.graphs.trained import check_drafts, context_filter_of, role_models
from ragweave.nodes.context_filter import ContextFilterOptions
from ragweave.nodes.retrieve import Retriever
from ragweave.studio.served import check_context, served
from ragweave.studio.settings import Sources, studio_options
from ragweave.tools.filters import ContextFilter
from ragweave.tools.models import Models
from ragweave.tools.providers import PREFIX

Factory = Callable[[ServerRuntime[Any]], Awaitable[CompiledGraph]]


def factory(method: Method | str) -> Factory:
    """Return the graph factory of a method, by its name or declaration.

    A `langgraph.json` of one's own names it as `ragweave.studio.graphs:METHOD`, for methods of
    other packages too.

    Raises:
        UsageError: No method has that name.
    """
    method = METHODS.named(method) if isinstance(method, str) else method

    async def make(runtime: ServerRuntime[Any]) -> CompiledGraph:
        running = runtime.execution_runtime
        if running is None:
            return served(await asyncio.to_thread(studio_picture, method.name))
        check_context(method, running.context)
        return served(await asyncio.to_thread(studio_graph, method.name, running.context))

    make.__name__ = method.name
    return make


def studio_graph(name: str, given: Any = None) -> CompiledGraph:
    """Build a method for the server.

    Args:
        name: Name of the method.
        given: The run's context: a mapping or an options object; None: the environment's values.

    Raises:
        UsageError: A value is out of its range, or a name unknown.
    """
    options = studio_options(METHODS[name])
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        given = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    try:
        chosen = dataclasses.replace(options, **(given or {}))
    except TypeError as fault:
        raise UsageError(f"{name} does not know a setting of this run: {fault}") from fault
    return _with_sources(name, chosen)


def studio_picture(name: str) -> CompiledGraph:
    """Build a method for its schemas, picture and states: no model or knowledge base is opened."""
    return _built(name, studio_options(METHODS[name]), Models(answer=AnyModel()), None)


def _with_sources(name: str, options: Any) -> CompiledGraph:
    sources: Sources = options
    models = _models(
        sources.model, sources.proxy, sources.judge, sources.rewriter, sources.filter_model
    )
    check_drafts(models, options)
    trained = _filter(sources.trained_filter) if isinstance(options, ContextFilterOptions) else None
    if trained is not None:
        options = dataclasses.replace(options, filter="own")
    return _built(name, options, models, _retriever(sources.kb, sources.search), trained)


def _built(
    name: str,
    options: Any,
    models: Models,
    retriever: Retriever | None,
    context_filter: ContextFilter | None = None,
) -> CompiledGraph:
    method = METHODS[name]
    return method.build(
        Parts(
            models=models,
            retriever=retriever,
            options=options,
            prompts=method.prompts,
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
    from ragweave.tools.knowledge import KnowledgeBase

    return KnowledgeBase.open(kb).as_retriever(mode=search)
