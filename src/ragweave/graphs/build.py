"""`build_graph`: a compiled graph by its method's name."""

import inspect
from collections.abc import Mapping
from typing import Any, get_args

from langchain_core.decisions import BaseDecisionModel
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from langgraph.types import Checkpointer, RetryPolicy, TracePolicy

from ragweave.errors import UsageError, did_you_mean
from ragweave.graphs.base import RETRY, Method, MethodGraph, compile_method
from ragweave.graphs.specs import METHODS, SystemSpec, is_choice, read_system
from ragweave.nodes.prompts import Prompts, Templates, template_of
from ragweave.nodes.runner import Components, Retriever
from ragweave.roles import ROLES
from ragweave.tools.filters import FILTERS, FilterKind, FilterName
from ragweave.tools.models.roles import ChatModel, LogprobScorer, Models, trained_role, unbound
from ragweave.tools.prices import check_priced
from ragweave.tools.providers import chat_model, trained_folder
from ragweave.tools.trained.models import trained_filter


def build_graph(
    name: str | Method,
    *,
    model: str | ChatModel | None = None,
    retriever: Retriever | None = None,
    proxy: str | ChatModel | None = None,
    judge: str | ChatModel | BaseDecisionModel | None = None,
    rewriter: str | ChatModel | None = None,
    selector: str | ChatModel | BaseDecisionModel | None = None,
    router: str | ChatModel | BaseDecisionModel | None = None,
    filter: str | FilterKind | None = None,
    scorer: LogprobScorer | None = None,
    embeddings: Embeddings | None = None,
    second_retriever: Retriever | None = None,
    prompts: Prompts | None = None,
    checkpointer: Checkpointer = None,
    retry_policy: RetryPolicy = RETRY,
    trace_policy: TracePolicy | None = None,
    state: type[Any] | None = None,
    **options: Any,
) -> MethodGraph:
    """Build a method's graph.

    The graph takes `{"question": …}`, optionally with `passages`, `answer_type` and `gold_answers`,
    and gives `question`, `answer`, `status`, `truncated`, `passages`, `citations`, `candidates` and
    `usage`, sync and async. Options may be overridden for one run: `graph.invoke(x, context={"k": 8})`.

    Args:
        name: The method, or its name, one of `METHODS`, or a file that `ragweave tune` wrote, `choice.yaml`. The file's
            models, prompts, options and knowledge base hold unless other arguments replace them.
        model: The generator, the model that answers: a LangChain chat model, or a spec (`ragweave.chat_model`). It
            plays every role without a model of its own. None: the file's, else `extractive`.
        retriever: Where passages come from: any LangChain retriever; None: the file's, else every input brings its own.
        proxy: A small model that drafts answers (SlimPLM, Adaptive); None: `model`.
        judge: Says whether a draft is known, what a passage is worth, and whether passages suffice: a chat model, a
            decision model, or a trained judge's folder; None: `proxy`.
        rewriter: Writes search queries: a chat model, or a trained rewriter's folder; None: `proxy`.
        selector: Names the passages or sentences that help: a chat model or a decision model; None: `model`.
        router: Says how many searches a question takes: a chat model, a decision model, or a trained router's folder;
            None: `proxy`.
        filter: The context filter of `filco` and `adaptive`: a name (`FILTERS`, or llm), a trained filter's
            folder, or your own.
        scorer: What scores outputs for `filter="cxmi"`; None: the answering model, if it can.
        embeddings: What finds the nearest training questions of `skr_knn`.
        second_retriever: Where `crag` searches again, such as a web search; None: `retriever`.
        prompts: Templates by name, instead of the method's; NAME also replaces NAME@PAPER.
        checkpointer: Where LangGraph keeps threads.
        retry_policy: Which errors of a node are tried again.
        trace_policy: What tracers record of a node's input and output, such as nothing (`omit_payload`).
        state: The method's state with more keys; their reducers must read None as "start over".
        **options: The method's options.

    Raises:
        UsageError: There is no such method, prompt, option or model, a value is out of its range, or `max_cost_usd` is
            set and a model has no price.
        MissingExtraError: A model's packages are not installed.

    Examples:
        >>> graph = build_graph("concat")
        >>> out = graph.invoke({"question": "How many moons has Mars?",
        ...                     "passages": ["Mars has two moons, Phobos and Deimos."]})
        >>> out["status"]
        'answered'
    """
    system = _system_of(name)
    chosen, options = system.method, {**system.options, **options}
    filter = filter or options.pop("filter", None)
    named = isinstance(filter, str) and filter in get_args(FilterName)
    if filter is not None:
        options["filter"] = filter if named else "own"
    _check_options(chosen, options)
    if second_retriever is not None and not chosen.second_search:
        raise UsageError(f"{chosen.name} has no second search: leave out second_retriever")
    given = {"generator": model, "proxy": proxy, "judge": judge, "rewriter": rewriter, "selector": selector}
    players = {role: player for role, player in {**given, "router": router}.items() if player is not None}
    specs = {role: spec for role, spec in system.models.items() if not ROLES[role].in_chat}
    models = models_of(**{"generator": "extractive", **specs, **players})
    retriever = _checked_retriever(retriever) or system.search()
    if options.get("max_cost_usd") is not None:
        for priced in models.given():
            check_priced(priced)
    components = Components(
        models=models,
        prompts=_with_own(chosen, {**system.prompts, **(prompts or {})}),
        retriever=retriever,
        second_retriever=_checked_retriever(second_retriever) or retriever,
        context_filter=None if filter is None or named else _own_filter(filter),
        scorer=scorer,
        embeddings=embeddings,
    )
    return compile_method(
        chosen,
        components,
        options,
        state=state,
        checkpointer=checkpointer,
        retry_policy=retry_policy,
        trace_policy=trace_policy,
    )


def _system_of(name: str | Method) -> SystemSpec:
    if isinstance(name, Method):
        return SystemSpec(name)
    return read_system(name) if is_choice(name) else SystemSpec(METHODS.named(name))


def models_of(**given: str | ChatModel | BaseDecisionModel | None) -> Models:
    """Return the models by role; specs are made into models.

    Raises:
        UsageError: A spec is not understood, a trained component was trained for another role, or a decision model is
            given for a role that writes.
        MissingExtraError: A model's packages are not installed.
    """
    models: dict[str, Any] = {role: chat_model(model) for role, model in given.items() if model is not None}
    for role, model in models.items():
        trained = trained_role(model)
        if trained not in (None, role):
            raise UsageError(f"a {trained} was given for the role {role!r}: name a model that can play it")
        if isinstance(unbound(model), BaseDecisionModel) and not ROLES[role].may_decide:
            raise UsageError(
                f"{type(unbound(model)).__name__} decides and can't write: the role {role!r} needs a chat model"
            )
    return Models(**models)


def _own_filter(given: str | FilterKind) -> FilterKind:
    if not isinstance(given, str):
        return given
    folder = trained_folder(given)
    if folder is None:
        return FILTERS.named(given)
    if "?" in given:
        raise UsageError(
            f"{given!r} must be the folder of a trained filter; top and threshold are options of the graph"
        )
    return trained_filter(folder)


def _check_options(method: Method, options: Mapping[str, Any]) -> None:
    fields = method.options.model_fields
    for option in options.keys() - fields.keys():
        hint = did_you_mean(option, [*inspect.signature(build_graph).parameters, *fields])
        having = [other.name for other in METHODS.ours() if option in other.options.model_fields]
        elsewhere = f" ({option!r} is an option of {', '.join(having)})" if having else ""
        raise UsageError(f"{method.name} has no option {option!r}: {hint}{elsewhere}")


def _with_own(method: Method, own: Prompts) -> Templates:
    for prompt in own.keys() - method.prompts.keys():
        raise UsageError(f"{method.name} has no prompt {prompt!r}: {did_you_mean(prompt, method.prompts)}")
    rest = {name: template for name, template in method.prompts.items() if name.partition("@")[0] not in own}
    return rest | {name: template_of(prompt) for name, prompt in own.items()}


def _checked_retriever(retriever: Any) -> Retriever | None:
    if retriever is None or isinstance(retriever, Runnable):
        return retriever
    hint = ": call as_retriever() on it" if hasattr(retriever, "as_retriever") else ""
    raise UsageError(f"retriever must be a LangChain retriever, not {type(retriever).__name__}{hint}")
