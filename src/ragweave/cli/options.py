"""The options that several commands share, and `Setup`, which opens what they name."""

from __future__ import annotations

import json
import re
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from ragweave.errors import ModelError, UsageError, did_you_mean
from ragweave.names import MethodName
from ragweave.roles import ROLES, arguments_of

if TYPE_CHECKING:
    from ragweave.graphs import MethodGraph

DEFAULT_KB = "kb"
DEFAULT_METHOD = "concat_pf"

Kb = Annotated[
    str,
    typer.Option(
        "--kb",
        metavar="KB",
        help="Knowledge base: a folder, or an address (lance:FOLDER, lance:s3://…, pg:URL#NAME, chroma:…).",
    ),
]
Method_ = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="The method (see `ragweave methods`), or a file of `ragweave tune`.",
        autocompletion=lambda: get_args(MethodName),
    ),
]
Model = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="[ROLE=]SPEC",
        help="extractive, openai:NAME, llamacpp:FILE, PROVIDER:NAME, or a trained component's folder; settings follow "
        f"?, as in openai:NAME?base_url=URL. Repeatable; roles: {', '.join(ROLES)}.  [default: extractive]",
    ),
]
K = Annotated[int | None, typer.Option("-k", "--k", help="Passages per query.  [default: the method's]")]
Retriever = Annotated[
    str,
    typer.Option(
        help="auto, bm25, dense, hybrid, graph, or a LangChain retriever by its import path, such as "
        "langchain_community.retrievers:WikipediaRetriever?top_k_results=3."
    ),
]
Rerank = Annotated[
    str,
    typer.Option(
        help="Reranker: a cross-encoder by path, hub name or fastembed:NAME, bi-encoder:NAME, listwise:MODEL (a chat "
        "model), or a LangChain document compressor by its import path."
    ),
]
Prefer = Annotated[
    str, typer.Option(metavar="newest", help="newest: of several versions of a passage, the newest comes first.")
]
SecondRetriever = Annotated[
    str, typer.Option(help="Where crag searches again: a mode, a knowledge base, MODE:KB, or an import path.")
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="TEST",
        help="Search only passages with this metadata: lang=en, year>=2020, status!=draft, folder=docs/hr, or JSON. "
        "Repeatable; `ragweave index --fields` shows the fields.",
    ),
]
Option = Annotated[
    list[str] | None, typer.Option("--option", "-o", metavar="NAME=VALUE", help="An option of the method. Repeatable.")
]
Cache = Annotated[Path | None, typer.Option(help="File of replies: what it has is not asked again.")]
FollowUp = Annotated[
    bool, typer.Option("--continue", "-c", help="Continue the last conversation about the knowledge base.")
]


def models_of(
    texts: Iterable[str] | None, roles: Collection[str] = ROLES, default: str = "generator"
) -> dict[str, str]:
    """Return model specs by role from texts of the form `[ROLE=]SPEC`; `default` is the role of a spec without one.

    Raises:
        UsageError: There is no such role, a role is given twice, or a spec is empty.
    """
    specs: dict[str, str] = {}
    for text in texts or ():
        role, equals, spec = text.partition("=")
        has_role = bool(equals) and re.fullmatch(r"[a-z_]+", role) is not None
        role, spec = (role, spec) if has_role else (default, text)
        if role not in roles:
            raise UsageError(f"--model {text}: no role {role!r}: {did_you_mean(role, roles)}")
        if role in specs or not spec.strip():
            raise UsageError(f"--model {role}: {'given twice' if role in specs else 'names no model'}")
        specs[role] = spec
    return specs


def _opened(specs: Mapping[str, str], replies: Path | None) -> dict[str, Any]:
    """Return models by role, whose replies a file holds if it is named."""
    from ragweave.tools.providers import chat_model
    from ragweave.tools.replies import ReplyCache
    from ragweave.tools.text.untrusted import redacted

    try:
        models: dict[str, Any] = {role: chat_model(spec) for role, spec in specs.items()}
    except ModelError as error:
        raise UsageError(str(error)) from error
    stored = ReplyCache(replies) if replies is not None else None
    return {role: stored.attach(models[role], redacted(specs[role])) for role in specs} if stored else models


_TEST = re.compile(r"(.+?)(!=|>=|<=|=|>|<)(.+)", re.DOTALL)
_OPERATORS = {"!=": "$ne", ">=": "$gte", "<=": "$lte", ">": "$gt", "<": "$lt"}


def read_filter(texts: Iterable[str]) -> dict[str, Any]:
    """Return the filter that some texts give: all of them hold, but of several `NAME=VALUE` with one name any one.

    Raises:
        UsageError: A text is neither a test nor a JSON object.

    Examples:
        >>> read_filter(["year>=2020", "lang=en", "lang=de"])
        {'$and': [{'year': {'$gte': '2020'}}, {'lang': {'$in': ['en', 'de']}}]}
    """
    tests: list[dict[str, Any]] = []
    any_of: dict[str, list[str]] = {}
    for text in texts:
        test = _TEST.fullmatch(text)
        if text.startswith("{"):
            try:
                tests.append(json.loads(text))
            except ValueError as error:
                raise UsageError(f"--filter {text}: not JSON ({error})") from error
        elif not test:
            raise UsageError(f"--filter {text}: give a test such as lang=en, lang!=en or year>=2020")
        elif test[2] == "=":
            any_of.setdefault(test[1], []).append(test[3])
        else:
            tests.append({test[1]: {_OPERATORS[test[2]]: test[3]}})
    tests += [{name: {"$in": values}} for name, values in any_of.items()]
    return {"$and": tests} if tests else {}


def open_retriever(
    kb: str, spec: str, rerank: str, prefer: str, k: int | None, chosen: Mapping[str, Any], permitted: Any, opened: Any
) -> Any:
    """Return the retriever that the options name; None if it needs a knowledge base and the default one is missing.

    `permitted` is what a key may see, and `opened` opens a knowledge base.

    Raises:
        UsageError: There is no such retriever, `k` is below 1, a filter is not one, or no passage passes it.
        KnowledgeBaseError: The knowledge base cannot be opened.
    """
    from ragweave.tools.knowledge import KnowledgeBase, needs_kb, retriever_of
    from ragweave.tools.knowledge.servers import searched

    spec, kb = searched(spec, kb)
    base = None
    if needs_kb(spec):
        if kb == DEFAULT_KB and not KnowledgeBase.exists(kb):
            return None
        base = opened(kb)
        if isinstance(base, KnowledgeBase) and not len(base):
            raise UsageError(f"{kb} is empty: fill it with `ragweave index FILES --kb {kb}`")
    how: Any = {"filter": chosen, "rerank": rerank or None, "prefer": prefer, "permitted": permitted}
    retriever = retriever_of(spec, base, 5 if k is None else k, **how)
    if chosen and isinstance(base, KnowledgeBase) and not len(base.view(chosen)):
        fields = f"`ragweave index --fields --kb {kb}` shows fields and values"
        raise UsageError(f"--filter: no passage passes {json.dumps(chosen)}; {fields}")
    return retriever


@dataclass(frozen=True)
class Setup:
    """The models, retrievers and options that a command names, from which it builds graphs."""

    kb: str
    models: Mapping[str, Any]
    """By role."""
    search: Callable[[str, str, str], Any]
    """Opens a retriever, with a reranker and a preference; "": those that the options name."""
    over: Callable[[Any], Setup]
    """Returns the same over what a filter permits, which is all that there is for it."""
    second: Any = None
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        specs: Sequence[str],
        kb: str,
        model: Iterable[str] | None,
        k: int | None,
        retriever: str,
        rerank: str,
        prefer: str,
        second_retriever: str,
        option: Iterable[str] | None,
        filters: Iterable[str] | None = None,
        citations: bool = True,
        replies: Path | None = None,
    ) -> Setup:
        """Open what the options name; a file of replies is used by models within `asking`.

        Raises:
            UsageError: A name or an option is unknown, or a model cannot be opened.
        """
        from ragweave.graphs.specs import read_pairs, read_system
        from ragweave.tools.knowledge import open_knowledge_base, retriever_of

        systems = [read_system(spec) for spec in specs]
        methods = [system.method for system in systems]
        kb = next((system.kb for system in systems if system.kb and kb == DEFAULT_KB), kb)
        named = {"generator": "extractive"} | dict(ChainMap(*(dict(system.models) for system in systems)))
        named |= models_of(model)
        values = read_pairs(option or ())
        if k is not None and values.setdefault("k", str(k)) != str(k):
            raise UsageError(f"-k {k} and --option k={values['k']}: k is given twice")
        fields = {name for method in methods for name in method.options.model_fields}
        if unknown := next((name for name in values if name not in fields), None):
            raise UsageError(f"{', '.join(specs)} has no option {unknown!r}: {did_you_mean(unknown, sorted(fields))}")
        if second_retriever and not any(method.second_search for method in methods):
            raise UsageError(f"--second-retriever: {', '.join(specs)} has no second search; crag has one")
        models = _opened(named, replies)
        chosen, opened = read_filter(filters or ()), cache(open_knowledge_base)

        def over(permitted: Any = None) -> Setup:
            @cache
            def search(own: str = "", reranker: str = "", preferred: str = "") -> Any:
                how = own or retriever, reranker or rerank, preferred or prefer
                return open_retriever(kb, *how, k, chosen, permitted, opened)

            for system in systems:
                search(system.retriever, system.rerank, system.prefer)
            more: Any = {"filter": chosen, "prefer": prefer, "permitted": permitted}
            second = second_retriever and retriever_of(second_retriever, kb, **more)
            return cls(kb, models, search, over, second or None, {"citations": str(citations), **values})

        return over()

    def graph(self, spec: str) -> MethodGraph:
        """Return the graph of a system: `METHOD`, `METHOD[option=value,…]` or `choice.yaml`.

        Raises:
            UsageError: The method has no such option, or it searches and there is nothing to search.
        """
        from langgraph.types import RetryPolicy

        from ragweave.graphs import build_graph
        from ragweave.graphs.specs import read_system
        from ragweave.nodes.options import make_options

        system = read_system(spec, self.options)
        method, values, retriever = system.method, system.options, self.retriever_of(spec)
        if retriever is None and getattr(make_options(method.options, values), "retrieve", True):
            raise UsageError(
                f"there is no knowledge base at {self.kb!r}: make one with `ragweave index FILES --kb {self.kb}`, or name "
                "one with --kb"
            )
        return build_graph(
            method,
            retriever=retriever,
            second_retriever=self.second if method.second_search else None,
            retry_policy=RetryPolicy(max_attempts=1),  # clients retry themselves, and a dead server stays dead
            prompts=system.prompts,
            **arguments_of(system.played(self.models)),
            **values,
        )

    def retriever_of(self, spec: str) -> Any:
        """Return what a system searches; None if there is nothing."""
        from ragweave.graphs.specs import read_system

        system = read_system(spec, self.options)
        return self.search(system.retriever, system.rerank, system.prefer)

    def evidence(self, spec: str) -> Callable[[Any], Any] | None:
        """Return what finds the quotes of a system's answer in their files; None if nothing does."""
        from ragweave.tools.retrieval.base import known_of

        evidence: Callable[[Any], Any] | None = known_of(self.retriever_of(spec), "evidence")
        return evidence

    def chat(self, spec: str) -> MethodGraph:
        """Return a conversation over a method.

        The generator restates follow-ups unless another model is named. A trained generator cannot, so the proxy does.
        """
        from ragweave.graphs.chat import chat_over
        from ragweave.tools.models.roles import trained_role

        generator = self.models["generator"]
        usual = self.models.get("proxy", generator) if trained_role(generator) else generator
        return chat_over(self.graph(spec), self.models.get("restater", usual))

    def show_notice(self) -> None:
        """Print, on standard error, what a reader of the answers must know of the model that gives them."""
        if notice := getattr(self.models["generator"], "notice", ""):
            typer.echo(notice, err=True)
