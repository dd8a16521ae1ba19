"""`build_graph`: a compiled graph by the method's name, trained parts in the roles they fit."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast, get_args, get_type_hints

from langchain_core.embeddings import Embeddings
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable
from langgraph.types import Checkpointer, RetryPolicy
from typing_extensions import is_typeddict

from ragweave.errors import UsageError
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import Method
from ragweave.graphs.registry import METHODS, looking_again
from ragweave.nodes.context_filter import FilterName
from ragweave.nodes.judge import NecessityOptions
from ragweave.nodes.options import Options
from ragweave.nodes.overrides import with_overrides
from ragweave.nodes.retrieve import Retriever
from ragweave.nodes.uncertainty_gate import check_gate
from ragweave.registry import closest
from ragweave.state import RAGState
from ragweave.tools.bindings import unbound
from ragweave.tools.models.extractive import ExtractiveChat
from ragweave.tools.filters import FILTERS, ContextFilter, RegisteredFilter
from ragweave.tools.models import ChatModel, Models, chat_model
from ragweave.tools.models.specs import is_part_spec
from ragweave.tools.scorers.specs import LogprobScorer
from ragweave.trained import PartRole
from ragweave.trained.card import SCORES, inspect_part
from ragweave.trained.chat import PartChat
from ragweave.trained.filter import trained_filter

_ROLES = {"proxy": "proxy", "judge": "judge", "rewriter": "rewrite", "filter_model": "filter"}
"""Arguments of `build_graph`, and the roles that they fill."""

_PARTS: Mapping[str, PartRole] = {
    "model": "generator",
    "judge": "judge",
    "rewriter": "rewriter",
    "filter": "filter",
}
"""Arguments that take a trained part, and what it must have been trained as."""

_WANTED = {"proxy": "a model that drafts answers", "filter_model": "a model that names passages"}


def role_models(given: Mapping[str, str | ChatModel | None]) -> Models:
    """Return the models of a graph by role; trained parts among them are loaded.

    Args:
        given: By the names of `build_graph`'s arguments: `model`, and `proxy`, `judge`,
            `rewriter`, `filter_model` where they are not to fall back.

    Raises:
        UsageError: A spec is not understood, or a part was trained for another role.
        MissingExtraError: A model's packages are not installed.
    """
    made = opened_models(given)
    parts = [part for name, one in made.items() if (part := _checked_part(name, one)) is not None]
    for part in parts:
        part.load()
    roles = {_ROLES[name]: one for name, one in made.items() if name != "model"}
    return Models(answer=made["model"], **roles)  # type: ignore[arg-type]


def opened_models(given: Mapping[str, str | ChatModel | None]) -> dict[str, ChatModel]:
    """Return the models that specs name, opened, by the names of `build_graph`'s arguments.

    Raises:
        UsageError: A spec is not understood, or a part was trained for another role.
        MissingExtraError: A model's packages are not installed.
        ModelError: A model cannot be opened.
    """
    for name, one in given.items():
        if isinstance(one, str) and is_part_spec(one):
            part_for(name, one)
    return {name: chat_model(one) for name, one in given.items() if one is not None}


def context_filter_of(given: object) -> ContextFilter | None:
    """Return the caller's own context filter; None where a name stands for one of ours.

    A trained filter's folder becomes a filter that follows the options `top` and `threshold`.

    Raises:
        UsageError: It is not a filter and names none, or the part was trained for another role.
        MissingExtraError: The part's packages are not installed.
    """
    if given is None or isinstance(given, ContextFilter):
        return given
    if not isinstance(given, str):
        raise UsageError(f"filter must be a name or have a keep method, not {type(given).__name__}")
    if given in get_args(FilterName):
        return None
    if given in FILTERS:
        return RegisteredFilter(FILTERS[given])
    if not _is_trained(given):
        return None
    found = trained_filter(given)
    found.load()
    return found


def _filter_for(method: Method, given: str | ContextFilter | None) -> ContextFilter | None:
    """Return the caller's own context filter; None too where a text is an option of the method's."""
    if isinstance(given, str) and not takes_filter(method):
        return None
    return context_filter_of(given)


def takes_filter(method: Method) -> bool:
    """Say whether a method's option `filter` is the context filter's, and none of its own."""
    return "own" in get_args(get_type_hints(method.options).get("filter"))


def filter_option(given: str) -> str:
    """Return what the option `filter` says for a text: a name, or `own` for a part's folder.

    Raises:
        UsageError: It is a text that is neither a name nor a path.
    """
    if given in get_args(FilterName):
        return given
    if given in FILTERS or _is_trained(given):
        return "own"
    names = ", ".join(dict.fromkeys([*get_args(FilterName), *FILTERS.names()]))
    raise UsageError(
        f"filter must be one of {names}, or the folder of a trained filter, not {given!r}"
    )


def part_for(argument: str, spec: str) -> str:
    """Check a text that names a trained part against what it is wanted for; nothing is loaded.

    Args:
        argument: Argument of `build_graph`.
        spec: The text.

    Returns:
        What tells one training of the part from another.

    Raises:
        UsageError: There is no such part, it is unsafe, or it was trained for another role.
    """
    card, digest = inspect_part(spec)
    _check_role(argument, spec, card.role)
    return digest


def check_models(models: Models, options: Options, judge_scorer: object = None) -> None:
    """Check that each model can do what a method with these options asks of it.

    Args:
        models: The models by role.
        options: The method's options.
        judge_scorer: What reads the judge by log-probabilities, where the caller gave it.

    Raises:
        UsageError: One can't: a trained part does what it was trained for and no more.
    """
    _check_drafts(models, options)
    _check_decides(models, options)
    _check_scorer(models, judge_scorer, options)
    check_gate(models, options)


def _check_drafts(models: Models, options: Options) -> None:
    part = part_of(models.by_role("proxy"))
    if part is not None and isinstance(options, NecessityOptions) and options.drafts:
        raise UsageError(
            f"{part.folder}: is a {part.role} and drafts no answer: name the model that does (proxy)"
        )


def _check_decides(models: Models, options: Options) -> None:
    part = part_of(models.by_role("judge"))
    if part is not None and getattr(options, "decided_by", "answer") == "judge":
        raise UsageError(
            f"{part.folder}: judges drafts, and there is none here: leave out decided_by=judge"
        )


def _check_scorer(models: Models, judge_scorer: object, options: Options) -> None:
    part = part_of(models.by_role("judge"))
    if part is None:
        return
    if judge_scorer is not None:
        raise UsageError(f"{part.folder}: judges by itself: leave judge_scorer out")
    if isinstance(options, NecessityOptions) and options.margin:
        raise UsageError(
            f"{part.folder}: judges by itself, without a margin: leave out margin"
            + (f", or set judge={part.folder}?threshold=…" if part.card.kind in SCORES else "")
        )


def part_of(model: ChatModel | None) -> PartChat | None:
    """Return the trained part behind a model and its bindings, or None."""
    target = unbound(model)
    return target if isinstance(target, PartChat) else None


def _is_trained(given: str) -> bool:
    return given not in get_args(FilterName) and is_part_spec(given)


def _checked_part(argument: str, model: ChatModel) -> PartChat | None:
    part = part_of(model)
    if part is not None:
        _check_role(argument, part.folder, part.role)
    return part


def _check_role(argument: str, where: str, role: PartRole) -> None:
    if role == _PARTS.get(argument):
        return
    wanted = _WANTED.get(argument) or f"a {_PARTS[argument]}"
    raise UsageError(f"{where}: was trained as a {role}, but {wanted} is needed here")


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
    second_retriever: Retriever | None = None,
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
        second_retriever: Where `crag` looks again, such as a web search; None: `retriever`. Other
            methods refuse it.
        prompts: Prompt templates that replace the method's own, by name.
        checkpointer: Where LangGraph keeps the state of each thread.
        retry_policy: Which errors are tried again; None: 429, 5xx, timeouts and dropped
            connections, three attempts with growing pauses.
        state: The graph's state: `RAGState`, or a class of one's own that extends it by fields,
            each of which starts every question empty.
        **options: The method's options (`METHODS[name].options`).

    Raises:
        UsageError: Unknown method, option, prompt or model, a value out of range, or a trained
            part that is missing or was trained for another role.
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
    chosen = method_options(method, options, arguments=inspect.signature(build_graph).parameters)
    retriever = _checked_retriever(retriever)
    second_retriever = _checked_second(second_retriever, method)
    models = role_models(
        {
            "model": model,
            "proxy": proxy,
            "judge": judge,
            "rewriter": rewriter,
            "filter_model": filter_model,
        }
    )
    check_models(models, chosen, judge_scorer)
    parts = Parts[Any](
        models=models if retry_policy is None else replace(models, retry=retry_policy),
        retriever=retriever,
        options=chosen,
        prompts=with_overrides(method.templates, prompts),
        checkpointer=checkpointer,
        context_filter=_filter_for(method, filter),
        scorer=_checked_scorer("scorer", scorer),
        judge_scorer=_checked_scorer("judge_scorer", judge_scorer),
        embeddings=_checked_embeddings(embeddings),
        second_retriever=second_retriever,
        state=_checked_state(state),
    )
    return method.build(parts)


def method_named(name: str) -> Method:
    """Return the method called `name`.

    Raises:
        UsageError: There is none (the text lists the methods and the closest name), or the
            package that brings it can't be loaded.
    """
    return METHODS.named(name)


def method_options(
    method: Method, values: Mapping[str, Any], arguments: Collection[str] = ()
) -> Options:
    """Return the method's options with `values` set; a trained filter's folder is `own` there.

    Args:
        method: The method.
        values: Options by name.
        arguments: What else the caller could have meant by a name that is no option.

    Raises:
        UsageError: The method has no such option, or the value is out of range.
    """
    known = [field.name for field in dataclasses.fields(method.options)]
    for name in values:
        if name not in known:
            raise UsageError(
                f"{method.name} has no option {name!r}{closest(name, [*arguments, *known])}; "
                f"options: {', '.join(known)}{_elsewhere(name)}"
            )
    chosen = dict(values)
    named = values.get("filter")
    if isinstance(named, str) and takes_filter(method):
        chosen["filter"] = filter_option(named)
    return method.options(**chosen)


def _elsewhere(name: str) -> str:
    """Return which methods have an option, where some do."""
    having = [
        one.name
        for one in METHODS.ours()
        if any(field.name == name for field in dataclasses.fields(one.options))
    ]
    return f" ({name!r} is an option of {', '.join(having)})" if having else ""


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


def _checked_second(retriever: object, method: Method) -> Retriever | None:
    if retriever is not None and not method.searches_again:
        raise UsageError(
            f"{method.name} never looks again: leave out second_retriever, or use {looking_again()} "
            "(a method of your own that does says so: Method(searches_again=True))"
        )
    return _checked_retriever(retriever)


class AnyModel(ExtractiveChat):
    """Stands for any model, also for one that reports log-probabilities (FLARE)."""

    gives_logprobs: ClassVar[bool] = True


def drawable(method: str) -> CompiledGraph:
    """Return a method's graph, not to be run."""
    return build_graph(method, model=AnyModel())
