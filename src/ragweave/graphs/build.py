"""`build_graph`: a compiled graph by the method's name."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from langchain_core.embeddings import Embeddings
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable
from langgraph.types import Checkpointer, RetryPolicy
from typing_extensions import is_typeddict

from ragweave.errors import UsageError
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import Method
from ragweave.graphs.registry import METHODS
from ragweave.graphs.trained import (
    check_drafts,
    check_scorer,
    context_filter_of,
    filter_option,
    role_models,
)
from ragweave.nodes.options import Options
from ragweave.nodes.prompt import with_overrides
from ragweave.nodes.retrieve import Retriever
from ragweave.state import RAGState
from ragweave.tools.filters import ContextFilter
from ragweave.tools.models import ChatModel
from ragweave.tools.scorers.protocol import LogprobScorer


def build_graph(
    name: str | Method,
    *,
    model: str | ChatModel = "extractive",
    retriever: Retriever | None = None,
    proxy: str | ChatModel | None = None,
    judge: str | ChatModel | None = None,
    rewriter: str | ChatModel | None = None,
    filter_model: str | ChatModel | None = None,
    filter: str | ContextFilter | None = None,  # noqa: A002 - the paper's word
    scorer: LogprobScorer | None = None,
    judge_scorer: LogprobScorer | None = None,
    embeddings: Embeddings | None = None,
    prompts: Mapping[str, ChatPromptTemplate | str] | None = None,
    checkpointer: Checkpointer = None,
    retry_policy: RetryPolicy | None = None,
    state: type[RAGState] = RAGState,
    **options: Any,
) -> CompiledGraph:
    """Build the graph of a method.

    The graph takes `{"question": …}` (and optionally `passages` and `answer_type`) and gives
    `question`, `answer`, `status`, `truncated`, `passages`, `candidates` and `usage`, sync and
    async. Options may be overridden for one run: `graph.invoke(x, context={"k": 8})`.

    Args:
        name: Name of the method, one of `METHODS`, or a `Method` of one's own.
        model: The model that answers: a LangChain chat model or a spec string
            (`ragweave.tools.models.chat_model`), a trained generator's folder among them.
        retriever: A ragweave retriever or any LangChain retriever.
        proxy: The small model that drafts answers; None: `model`.
        judge: The model that judges what is known, or a trained judge's folder; None: `proxy`.
        rewriter: The model that rewrites queries, or a trained rewriter's folder; None: `proxy`.
        filter_model: The model that names the passages that help; None: `model`.
        filter: The context filter of `filco` and `adaptive`: a name, a trained filter's folder
            (the options `top` and `threshold` bound what it keeps), or any `ContextFilter`.
        scorer: What scores outputs where `filter="cxmi"`; None: the answering model where it can.
        judge_scorer: What reads the judge by log-probabilities; None: the judge itself where it
            can, else its text is read.
        embeddings: What finds the nearest training questions of `skr_knn`; None: the model that
            its option `embedding` names.
        prompts: Prompt templates that replace the method's own, by name.
        checkpointer: Where LangGraph keeps the state of each thread.
        retry_policy: Which faults are tried again; None: 429, 5xx, timeouts and dropped
            connections, three attempts with growing pauses.
        state: The graph's state: `RAGState`, or a class of one's own that extends it by fields,
            each of which starts every question empty.
        **options: The method's options (`METHODS[name].options`).

    Raises:
        UsageError: Unknown method, option, prompt or model, a value out of range, or a trained
            part that is not to be had or was trained for another role.
        MissingExtraError: A model's packages are not installed.

    Example:
        >>> graph = build_graph("concat", model="extractive")
        >>> out = graph.invoke({"question": "How many moons has Mars?",
        ...                     "passages": ["Mars has two moons, Phobos and Deimos."]})
        >>> out["status"]
        'answered'
    """
    method = name if isinstance(name, Method) else method_named(name)
    if filter is not None:
        options["filter"] = filter if isinstance(filter, str) else "own"
    chosen = method_options(method, options)
    retriever = _checked_retriever(retriever)
    models = role_models(
        {
            "model": model,
            "proxy": proxy,
            "judge": judge,
            "rewriter": rewriter,
            "filter_model": filter_model,
        }
    )
    check_drafts(models, chosen)
    check_scorer(models, judge_scorer, chosen)
    parts = Parts[Any](
        models=models if retry_policy is None else replace(models, retry=retry_policy),
        retriever=retriever,
        options=chosen,
        prompts=with_overrides(method.prompts, prompts),
        checkpointer=checkpointer,
        context_filter=context_filter_of(filter),
        scorer=_checked_scorer("scorer", scorer),
        judge_scorer=_checked_scorer("judge_scorer", judge_scorer),
        embeddings=_checked_embeddings(embeddings),
        state=_checked_state(state),
    )
    return method.build(parts)


def method_named(name: str) -> Method:
    """Return the method called `name`.

    Raises:
        UsageError: There is none; the text lists the methods and the closest name.
    """
    if name in METHODS:
        return METHODS[name]
    raise UsageError(
        f"unknown method {name!r}{_closest(name, METHODS)}; methods: {', '.join(METHODS)}"
    )


def method_options(method: Method, values: Mapping[str, Any]) -> Options:
    """Return the method's options with `values` set; a trained filter's folder is `own` there.

    Raises:
        UsageError: The method has no such option, or the value is out of range.
    """
    known = [field.name for field in dataclasses.fields(method.options)]
    for name in values:
        if name not in known:
            raise UsageError(
                f"{method.name} has no option {name!r}{_closest(name, known)}; "
                f"options: {', '.join(known)}{_elsewhere(name)}"
            )
    chosen = dict(values)
    if isinstance(named := values.get("filter"), str):
        chosen["filter"] = filter_option(named)
    return method.options(**chosen)


def _elsewhere(name: str) -> str:
    """Return which methods have an option, where some do."""
    having = [
        one.name
        for one in METHODS.values()
        if any(field.name == name for field in dataclasses.fields(one.options))
    ]
    return f" ({name!r} is an option of {', '.join(having)})" if having else ""


def _closest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _checked_scorer(name: str, given: object) -> LogprobScorer | None:
    if given is None or isinstance(given, LogprobScorer):
        return given
    raise UsageError(
        f"{name} must have a score method (such as HuggingFaceScorer), not {type(given).__name__}"
    )


def _checked_embeddings(given: object) -> Embeddings | None:
    if given is None or isinstance(given, Embeddings):
        return given
    raise UsageError(f"embeddings must be LangChain embeddings, not {type(given).__name__}")


def _checked_state(given: object) -> type[RAGState]:
    fields = RAGState.__annotations__
    if is_typeddict(given) and fields.keys() <= given.__annotations__.keys():
        return cast("type[RAGState]", given)
    raise UsageError(
        "state must be a class that extends RAGState: class MyState(RAGState): my_notes: list[str]"
    )


def _checked_retriever(retriever: object) -> Retriever | None:
    if retriever is None or isinstance(retriever, Runnable):
        return retriever
    hint = ": call as_retriever() on it" if hasattr(retriever, "as_retriever") else ""
    raise UsageError(
        f"retriever must be a LangChain retriever, not {type(retriever).__name__}{hint}"
    )
