"""Options that several commands share: their declarations, and how their values are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.errors import ModelError, UsageError

if TYPE_CHECKING:
    from ragweave.evaluation.runs import System
    from ragweave.graphs import CompiledGraph

METHODS = "direct,concat,concat_pf"

_DATASET = typer.Argument(help="NAME:FILE (hotpotqa:dev.json), a file alone, or hf:NAME.")
_OUT = typer.Option("--out", help="Directory of the run.")
Dataset = Annotated[str | None, _DATASET]
Out = Annotated[Path | None, _OUT]
NeededDataset = Annotated[str, _DATASET]
"""The same where nothing else says what is run."""
NeededOut = Annotated[Path, _OUT]
Method = Annotated[str, typer.Option("--method", "-m", help="The method (see `ragweave methods`).")]
Methods = Annotated[
    str,
    typer.Option(
        "--methods",
        help="Methods, such as direct,concat[k=10],blendfilter[queries=question+internal].",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="extractive, openai:NAME, llamacpp:PATH, provider:NAME, or a trained part's folder; "
        "settings follow ?, as in openai:NAME?base_url=URL."
    ),
]
Proxy = Annotated[str | None, typer.Option(help="Model that drafts answers (proxy).")]
Judge = Annotated[str | None, typer.Option(help="Model that judges what the model knows.")]
Rewriter = Annotated[str | None, typer.Option(help="Model that rewrites queries.")]
FilterModel = Annotated[str | None, typer.Option(help="Model that filters passages.")]
Kb = Annotated[
    str | None,
    typer.Option(
        "--kb",
        metavar="KB",
        help="Knowledge base to search: a folder, or an address: pg:URL#NAME, qdrant:…, es:….",
    ),
]
Corpus = Annotated[
    str,
    typer.Option(
        help="What to search without --kb: file (all its passages), given (each question's own), none."
    ),
]
Passages = Annotated[
    str,
    typer.Option(
        help="searched, or given (every method gets the question's own passages, without a search)."
    ),
]
Gold = Annotated[
    str, typer.Option(help="Gold passages: as_found, marked, with (added), without (removed).")
]
DropAnswered = Annotated[
    Path | None,
    typer.Option(
        "--drop-answered",
        help="An earlier run of direct: leave out the questions that it answered right.",
    ),
]
Oracle = Annotated[
    bool, typer.Option("--oracle", help="Give methods the gold answers (FILCO's SILVER).")
]
Retriever = Annotated[
    str,
    typer.Option(
        help="auto, bm25, dense or hybrid; or any LangChain retriever by its import path, such as "
        "langchain_community.retrievers:WikipediaRetriever?top_k_results=3."
    ),
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", metavar="KEY=VALUE", help="Search only passages with this metadata; repeatable."
    ),
]
Rerank = Annotated[
    str,
    typer.Option(
        "--rerank",
        "--reranker",
        help="Reranker: a cross-encoder by local path or hub name, bi-encoder:NAME (minilm, E5), or "
        "a LangChain document compressor by its import path (module:Name).",
    ),
]
SecondRetriever = Annotated[
    str,
    typer.Option(
        "--second-retriever",
        help="Where crag searches again: another mode of the same knowledge base, another knowledge "
        "base, MODE:KB, or a LangChain retriever by its import path, such as "
        "langchain_community.retrievers:WikipediaRetriever.",
    ),
]
Scorer = Annotated[
    str, typer.Option(help="Model that scores for CXMI: hf:NAME, llamacpp:PATH, openai:NAME?…")
]
Metrics = Annotated[
    str,
    typer.Option(
        help="Metrics to compute, such as em,f1,my_metric (default: all of ours that apply)."
    ),
]
JudgeModel = Annotated[
    str,
    typer.Option(
        help="Model that judges the answers for --metrics faithfulness, answer_relevance, "
        "context_relevance and correctness."
    ),
]
Limit = Annotated[int | None, typer.Option(help="Use only the first N questions.")]
Sample = Annotated[int | None, typer.Option(help="Use N questions, drawn at random with --seed.")]
Seed = Annotated[
    int, typer.Option(help="Seed of --sample and of where gold passages are inserted.")
]
Shard = Annotated[str, typer.Option(help="i/n: every n-th question, starting at the i-th.")]
Concurrency = Annotated[int, typer.Option(help="Questions (times methods) in flight at once.")]
Workers = Annotated[
    int,
    typer.Option(
        help="Processes that share the questions and --concurrency; at most one per core."
    ),
]
Cache = Annotated[
    Path | None, typer.Option(help="SQLite file of model replies, shared between runs.")
]
BudgetTokens = Annotated[int | None, typer.Option(help="Start no question after this many tokens.")]
BudgetUsd = Annotated[float | None, typer.Option(help="Start no question after this many dollars.")]
Prices = Annotated[
    str,
    typer.Option(
        "--price",
        "--prices",
        help="INPUT,OUTPUT in dollars per million tokens, or a JSON file by role.",
    ),
]
SAME_COMMAND = "the same command (what is answered is kept, and paid for once)"
"""How several runs under one budget are resumed."""
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Retry failed questions.")]
MovedServer = Annotated[
    bool,
    typer.Option(
        "--moved-server",
        help="With --resume: OPENAI_BASE_URL is the new address of the server that the run began "
        "with.",
    ),
]
OptionTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="name=value, set on each method that has the option; or judge=, rewriter=, generator=, "
        "filter= with a trained part's folder. Repeatable.",
    ),
]
K = Annotated[int | None, typer.Option("-k", "--k", help="Passages per query.")]

NAMED = {"judge": "judge", "rewriter": "rewriter", "generator": "model"}
"""Options that name a model, with the argument of `build_graph` that each one stands for."""

DEFAULT = "extractive"
"""The answering model where none is named."""


def with_named(
    flags: Mapping[str, str | None], texts: Iterable[str]
) -> tuple[dict[str, str], list[str]]:
    """Split `--option` texts into those that name a model and the method's own.

    Args:
        flags: Model specs by `build_graph`'s arguments; None where a flag was not given.
        texts: `name=value` options.

    Returns:
        Model specs by `build_graph`'s arguments, and the method's own options.

    Raises:
        UsageError: A flag or an option names no model, as one of an unset variable does, or a
            model is named twice.
    """
    models = {name: filled(name, spec) for name, spec in flags.items() if spec is not None}
    named: dict[str, str] = {}
    rest: list[str] = []
    for text in texts:
        name, _, value = text.partition("=")
        if name.strip() not in NAMED:
            rest.append(text)
            continue
        key = NAMED[name.strip()]
        if not value.strip():
            raise UsageError(f"--option {name.strip()}= is empty: give a folder or a model spec")
        if key in named or models.get(key, DEFAULT) not in (DEFAULT, value.strip()):
            raise UsageError(f"--option {text}: {NAMED[name.strip()]} is given twice; give it once")
        named[key] = value.strip()
    return {**models, **named}, rest


def filled(argument: str, spec: str) -> str:
    """Return a flag's model spec.

    Raises:
        UsageError: It is blank.
    """
    if not str(spec).strip():
        flag = argument.replace("_", "-")
        raise UsageError(f"--{flag} is empty: name a model, or leave the option out")
    return spec


def read_models(
    model: str,
    proxy: str | None,
    judge: str | None,
    rewriter: str | None,
    filter_model: str | None,
    texts: Iterable[str] | None,
) -> tuple[dict[str, str], list[str]]:
    """Return the models of a command's flags and `--option` texts, and the method's own options."""
    flags = {
        "model": model,
        "proxy": proxy,
        "judge": judge,
        "rewriter": rewriter,
        "filter_model": filter_model,
    }
    return with_named(flags, texts or ())


def load_cited(models: Mapping[str, str], texts: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the models that specs name, and a method's options: cited unless they say not to.

    Raises:
        UsageError: A model cannot be opened.
    """
    return opened(models), ["citations=true", *texts]


def opened(specs: Mapping[str, str]) -> dict[str, Any]:
    """Return the models that specs name, each opened once for all that is built from them.

    Raises:
        UsageError: A model cannot be opened.
    """
    from ragweave.graphs.build import opened_models

    try:
        return dict(opened_models(specs))
    except ModelError as error:
        raise UsageError(str(error)) from error


def show_notice(models: Mapping[str, Any]) -> None:
    """Say, on standard error, what a reader of the answers must know of the model that gives them."""
    if notice := getattr(models.get("model"), "notice", ""):
        typer.echo(notice, err=True)


def with_k(texts: Sequence[str], k: int | None) -> list[str]:
    """Return a method's `name=value` options with `-k` among them, where it was given.

    Raises:
        UsageError: `--option k=…` says another number.
    """
    for text in texts:
        name, _, value = text.partition("=")
        if k is not None and name.strip() == "k" and value.strip() != str(k):
            raise UsageError(f"-k {k} and --option {text}: k is given twice; give it once")
    return [*texts, *([] if k is None else [f"k={k}"])]


def for_method(texts: Sequence[str], name: str, beside: Iterable[str]) -> list[str]:
    """Return those `name=value` options that a method of several is given.

    One that it lacks is left out where a method beside it has it; where none has it, it stays, and
    the method refuses it.

    Args:
        texts: The options.
        name: The method.
        beside: The methods that are given the same options.
    """
    from ragweave.graphs.build import method_named

    own, *others = (
        method_named(one).options.__dataclass_fields__.keys() for one in (name, *beside)
    )

    def is_taken(text: str) -> bool:
        key = text.partition("=")[0].strip().replace("-", "_")
        return key in own or not any(key in other for other in others)

    return [text for text in texts if is_taken(text)]


def by_role(models: Mapping[str, str]) -> dict[str, str]:
    """Return a run's models by role: what `build_graph` calls `model` plays `answer`."""
    return {"answer" if name == "model" else name: spec for name, spec in models.items()}


def shared_options(texts: Sequence[str], methods: str) -> dict[str, Any]:
    """Read `name=value` texts, each as the first method that has the option reads it."""
    from ragweave.evaluation.runs import parse_systems
    from ragweave.graphs.build import method_named
    from ragweave.graphs.method import parse_options

    if not texts:
        return {}
    named = [method_named(one.method) for one in parse_systems(methods)]
    found: dict[str, Any] = {}
    for text in texts:
        key = text.partition("=")[0].strip().replace("-", "_")
        knowing = [one for one in named if key in one.options.__dataclass_fields__]
        found |= parse_options([text], (knowing or named)[0])
    return found


def with_options(systems: Sequence[System], texts: Sequence[str]) -> list[System]:
    """Return a study's systems, with `name=value` options set on each method that has them.

    Raises:
        UsageError: No method has the option, or the study itself varies it.
    """
    shared = shared_options(texts, ",".join(dict.fromkeys(one.method for one in systems)))
    made = [replace(one, options={**_known(one, shared), **one.options}) for one in systems]
    for name in shared:
        if any(name in one.options for one in systems):
            raise UsageError(f"this study varies {name} itself: leave out --option {name}=…")
        if not any(name in one.options for one in made):
            raise UsageError(f"none of this study's methods has an option {name!r}")
    for one in made:
        one.resolved()
    return made


def _known(one: System, shared: Mapping[str, Any]) -> dict[str, Any]:
    from ragweave.graphs.build import method_named

    fields = method_named(one.method).options.__dataclass_fields__
    return {name: value for name, value in shared.items() if name in fields}


def open_retriever(
    kb: str | None,
    spec: str,
    rerank: str | None,
    k: int | None = None,
    filters: Sequence[str] | None = None,
) -> Any:
    """Return the retriever that the options name; None where a knowledge base is missing for it.

    Raises:
        UsageError: There is no such retriever, `k` is below 1, or a filter is not `key=value`.
        KnowledgeBaseError: The knowledge base cannot be opened.
    """
    from ragweave.tools.knowledge import needs_kb, open_knowledge_base, retriever_of

    chosen = parse_filters(filters or ())
    if kb is None and needs_kb(spec):
        return None
    base = open_knowledge_base(kb) if kb else None
    wanted = 5 if k is None else k
    return retriever_of(spec, base, wanted, filter=chosen, rerank=rerank or None)


def parse_filters(texts: Sequence[str]) -> dict[str, Any]:
    """Return metadata values by name; a name given twice has a list of which any will do.

    Raises:
        UsageError: A text is not `key=value`.

    Example:
        >>> parse_filters(["year=2024", "lang=en", "lang=de"])
        {'year': [2024, '2024'], 'lang': ['en', 'de']}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"--filter {text}: give key=value, such as source=handbook.md")
        found.setdefault(name, []).extend(_either(value))
    return found


def _either(text: str) -> list[Any]:
    """Return a value as it may stand in metadata: as a number, or true or false, and as text."""
    try:
        value = json.loads(text)
    except ValueError:
        return [text]
    return [value, text] if isinstance(value, int | float | bool) else [text]


def check_retriever(graph: CompiledGraph, found: object) -> None:
    """Check that a method which takes questions alone has something to search.

    Args:
        graph: The method.
        found: Its retriever, as `open_retriever` returned it.

    Raises:
        UsageError: It retrieves, for some questions at least, and has no retriever.
    """
    schema: Any = graph.builder.context_schema
    retrieves = "retrieve" in graph.nodes and getattr(schema and schema(), "retrieve", True)
    if found is None and retrieves:
        raise UsageError(
            f"{graph.get_name()} has nothing to retrieve from: name a knowledge base with --kb"
        )


def second_retriever(spec: str, kb: str | None, methods: Iterable[str]) -> dict[str, Any]:
    """Return the retriever that methods look again with, as an argument of `build_graph`.

    Args:
        spec: Text for `RetrieverSpec.read`; "": none.
        kb: The knowledge base that a retriever's name alone searches.
        methods: The methods that the command runs, or may run.

    Raises:
        UsageError: None of the methods looks again, or the spec names no retriever.
    """
    from ragweave.graphs.registry import check_searches_again
    from ragweave.tools.knowledge import RetrieverSpec

    if not spec:
        return {}
    check_searches_again(methods)
    return {"second_retriever": RetrieverSpec.read(spec, kb).open()}
