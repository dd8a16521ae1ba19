"""The runs that reproduce a table: its rows on each data set, and what keeps one from being run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ragweave.datasets import open_dataset
from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.evaluation.metrics import read_prices
from ragweave.evaluation.published.data import PaperData, data_of, find_file
from ragweave.evaluation.published.tables import PaperTable, TableRow
from ragweave.evaluation.runs import RunSettings, System, plan, system
from ragweave.evaluation.runs.plan import check_secrets, scores_itself
from ragweave.graphs.build import AnyModel, build_graph, method_named
from ragweave.graphs.method import parse_options
from ragweave.tools.knowledge import open_knowledge_base
from ragweave.tools.models import ChatModel, chat_model
from ragweave.tools.retrieval import Bm25Retriever


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user has: models, data, passages."""

    model: str = "extractive"
    proxies: tuple[str, ...] = ()
    """Specs of proxy models; the first one is used where a table varies something else."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Specs of further roles: `judge`, `rewriter`, `filter_model`."""
    data: Path = Path("data")
    """Folder in which the data sets' files are looked for."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files by data set, in the place of what is found."""
    kb: str | Path | None = None
    rerank: str = ""
    scorer: str = ""
    filter: str = ""
    """Folder of a trained filter, for the rows of FILCO's own."""
    options: tuple[str, ...] = ()
    """`name=value`, set on each method that has the option, unless its row sets it."""
    limit: int | None = None
    seed: int = 0
    prices: str = ""


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run: some rows of a table on one data set, under one setting."""

    table: PaperTable
    data: PaperData
    folder: str
    """Where it lies in the reproduction's directory."""
    path: Path | None
    """The data set's file."""
    rows: Mapping[str, tuple[TableRow, ...]] = field(default_factory=dict)
    """The printed rows (one a model and corpus) by the label of the system that runs them."""
    systems: Mapping[str, System] = field(default_factory=dict)
    models: Mapping[str, str]
    settings: Mapping[str, Any]
    """Further settings for `plan`."""
    made: RunSettings | None = None
    """The run's settings; None: it cannot be run."""
    problem: str = ""
    """Why it cannot be run."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Rows that cannot be run, with the reason."""
    ids_in: Path | None = None
    """Folder in which the authors' lists of ids are looked for."""
    base: str = ""
    """Folder of the run without context whose right answers are left out; "": none."""

    def plan(self, out: Path | None = None) -> RunSettings:
        """Return the run's settings.

        Args:
            out: The reproduction's directory, in which the run without context is finished; None:
                as if no question were left out.

        Raises:
            UsageError: The data set or a setting is bad.
        """
        dropped: dict[str, Any] = (
            {"drop_answered": out / self.base} if out is not None and self.base else {}
        )
        return plan(
            self.data.spec(self.path or Path(), self.ids_in),
            list(self.systems.values()),
            self.models,
            **self.settings,
            **dropped,
        )


def check_request(request: Request) -> None:
    """Check what does not depend on a table; a model's missing key is `missing_of`'s to tell.

    Raises:
        UsageError: A model spec holds a key or password; or it, the prices, a file or the
            knowledge base is wrong.
        MissingExtraError: A model's packages are not installed.
    """
    check_secrets({"answer": request.model, **request.models, "scorer": request.scorer})
    for spec in request.proxies:
        check_secrets({"proxy": spec})
    read_prices(request.prices)
    for spec in (request.model, *request.proxies, *request.models.values()):
        _opened(spec)
    if request.kb is not None:
        open_knowledge_base(request.kb).close()
    for name, path in request.files.items():
        if not path.exists():
            raise UsageError(f"--file {name}={path}: there is no such file")
    if request.limit is not None and request.limit < 1:
        raise UsageError(f"--limit must be at least 1, not {request.limit}")


def runs_of_table(table: PaperTable, request: Request) -> list[PlannedRun]:
    """Return the runs of a table, each with what keeps it from being run.

    A run that another builds on comes before it.

    Raises:
        UsageError: An option is unknown to all methods of the table.
    """
    _check_options(table, request)
    found: list[PlannedRun] = []
    for dataset in table.datasets:
        data = data_of(table.paper, dataset)
        path = request.files.get(dataset) or (
            find_file(data, request.data) if request.data.is_dir() else None
        )
        groups = _groups(table, dataset, request)
        if data.filtered and groups:
            found.append(_without_context(table, data, path, request))
        for (retriever, oracle, role), rows in groups.items():
            found.append(
                _run(
                    table, data, path, request, rows, retriever=retriever, oracle=oracle, role=role
                )
            )
    return found


_Key = tuple[str, bool, str]
"""Retriever, whether gold answers are handed over, and what the proxies do."""


def _groups(table: PaperTable, dataset: str, request: Request) -> dict[_Key, list[TableRow]]:
    """Return the rows of a data set that share a run's settings."""
    found: dict[_Key, list[TableRow]] = {}
    for row in table.rows:
        if row.ours and row.measured_on(dataset):
            oracle = row.run.get("oracle") in ("yes", "labels")
            role = next((f"{k}={v}" for k, v in row.run.items() if k in ("answer", "proxy")), "")
            key = (_retriever(row, dataset, request.kb), oracle, role)
            found.setdefault(key, []).append(row)
    return found


def _retriever(row: TableRow, dataset: str, kb: str | Path | None) -> str:
    """Return how a row searches: as in the paper where the knowledge base can, else by BM25."""
    wanted = row.retriever(dataset)
    if kb is None:
        return "auto"
    dense = open_knowledge_base(kb).settings.embedding is not None
    return "bm25" if wanted == "dense" and not dense else wanted


def _without_context(
    table: PaperTable, data: PaperData, path: Path | None, request: Request
) -> PlannedRun:
    """Return the run whose right answers are left out of the table's own."""
    made = PlannedRun(
        table=table,
        data=data,
        folder=f"without-context/{data.dataset}",
        path=path,
        systems={"direct": system("direct", "direct", profile=table.options["profile"])},
        models={"answer": request.model},
        settings={**_asked(data, request), "corpus": "none"},
    )
    return _planned(made)


def _run(
    table: PaperTable,
    data: PaperData,
    path: Path | None,
    request: Request,
    rows: Sequence[TableRow],
    *,
    retriever: str,
    oracle: bool,
    role: str,
) -> PlannedRun:
    by_label: dict[str, list[TableRow]] = {}
    for row in rows:
        by_label.setdefault(row.row, []).append(row)
    parts = (data.dataset, retriever if retriever != "auto" else "", "oracle" if oracle else "")
    models = _models(request, role)
    made = PlannedRun(
        table=table,
        data=data,
        folder=f"{table.name}/{'-'.join(filter(None, (*parts, role.replace('=', '-'))))}",
        path=path,
        ids_in=request.data,
        rows={label: tuple(listed) for label, listed in by_label.items()},
        systems={
            label: _system(table, listed[0], data.dataset, request)
            for label, listed in by_label.items()
        },
        models=models or {"answer": request.model},
        settings={
            **_asked(data, request),
            "kb": request.kb,
            "retriever": retriever,
            "rerank": request.rerank,
            "scorer": request.scorer,
            "gold": table.gold,
            "oracle": oracle,
        },
        base=f"without-context/{data.dataset}" if data.filtered else "",
    )
    return _planned(made) if models else replace(made, problem=_NO_PROXY.get(role, _MORE_PROXIES))


_NO_PROXY = {"answer=proxy": "the proxy answers here: name it with --proxy"}
_MORE_PROXIES = "another proxy model: give --proxy once for each, in the table's order"


def _models(request: Request, role: str) -> dict[str, str] | None:
    """Return the models of a run by role; None where a proxy is missing.

    Where the table varies the proxy, it alone does: the first one still judges and rewrites.
    """
    what, _, number = role.partition("=")
    if what == "answer":
        return {"answer": request.proxies[0]} if request.proxies else None
    place = int(number) - 1 if what == "proxy" else 0
    if place >= len(request.proxies) and place:
        return None
    proxy = {"proxy": request.proxies[place]} if request.proxies else {}
    if place:
        proxy |= dict.fromkeys(("judge", "rewriter"), request.proxies[0])
    return {"answer": request.model, **proxy, **request.models}


def _asked(data: PaperData, request: Request) -> dict[str, Any]:
    """Return the settings of which questions are asked, and of the prices."""
    prices = {role: (one.input, one.output) for role, one in read_prices(request.prices).items()}
    asked: dict[str, Any] = {"limit": request.limit or data.first}
    if data.ids_file(request.data) is not None:
        asked = {"limit": request.limit}
    elif data.drawn and not request.limit:
        asked = {"sample": data.drawn}
    return {**asked, "seed": request.seed, "prices": prices}


def _system(table: PaperTable, row: TableRow, dataset: str, request: Request) -> System:
    method = method_named(row.method)
    options = table.options_of(row, dataset)
    for text in request.options:
        name = text.partition("=")[0].strip().replace("-", "_")
        if name in method.options.__dataclass_fields__ and name not in row.options:
            options |= parse_options([text], method)
    if row.run.get("filter") == "own" and request.filter:
        options["filter"] = request.filter
    return system(row.method, row.row, **options)


def _check_options(table: PaperTable, request: Request) -> None:
    methods = {row.method for row in table.rows if row.ours}
    for text in request.options:
        name, equals, _ = text.partition("=")
        if not equals:
            raise UsageError(f"--option takes name=value, not {text!r}")
        key = name.strip().replace("-", "_")
        if not any(key in method_named(one).options.__dataclass_fields__ for one in methods):
            raise UsageError(f"none of the methods of {table.label} has an option {key!r}")


def _planned(run: PlannedRun) -> PlannedRun:
    """Return a run with its settings, without the rows that cannot be run."""
    if run.path is None:
        file = f"no file of {run.data.dataset}: get {run.data.file} from {run.data.where}"
        return replace(run, problem=file)
    if run.settings.get("gold") == "with" and not _brings_gold(run):
        return replace(run, problem=f"puts in gold passages, and {run.path.name} names none")
    try:
        made = run.plan()
        left_out = dict(_unfit(run, made))
    except (UsageError, MissingExtraError) as error:
        return replace(run, problem=str(error))
    if not left_out:
        return replace(run, made=made)
    systems = {label: one for label, one in run.systems.items() if label not in left_out}
    left = replace(run, systems=systems, left_out=left_out)
    if not systems:
        return replace(left, problem="; ".join(dict.fromkeys(left_out.values())))
    return replace(left, made=left.plan())


def _brings_gold(run: PlannedRun) -> bool:
    dataset = open_dataset(f"{run.data.dataset}:{run.path}")
    return any(question.gold for question in dataset)


def _unfit(run: PlannedRun, made: RunSettings) -> Iterator[tuple[str, str]]:
    """Yield the rows that cannot be run, each with the reason."""
    models: dict[str, Any] = {
        "model" if role == "answer" else role: _opened(spec) for role, spec in run.models.items()
    }
    nowhere = Bm25Retriever.from_documents([])
    for label, one in run.systems.items():
        chosen = one.resolved()
        if made.corpus == "none" and getattr(chosen, "retrieve", True):
            yield label, f"searches passages, and {run.data.dataset} brings none: name --kb"
        elif _needs_scorer(one, made):
            yield label, "CXMI needs log-probabilities of the answer: name --scorer"
        elif getattr(chosen, "training", None) == "":
            yield label, "needs training questions (`ragweave label needed`): -o training=FILE"
        else:
            build = partial(build_graph, one.method, retriever=nowhere, **models, **one.options)
            try:
                build()
            except (UsageError, MissingExtraError) as error:
                yield label, str(error)


def _needs_scorer(one: System, made: RunSettings) -> bool:
    measured = getattr(one.resolved(), "filter", "") == "cxmi"
    return measured and not made.scorer and not scores_itself(made.models["answer"])


def missing_of(spec: str) -> str:
    """Return what a model still needs before it can answer, such as a key; "": nothing."""
    try:
        _client(spec)
    except ModelError as error:
        return str(error)
    return ""


def _opened(spec: str) -> ChatModel:
    """Return a model to build graphs with; a key may be missing until it has to answer."""
    try:
        return _client(spec)
    except ModelError:
        return AnyModel()


def _client(spec: str) -> ChatModel:
    """Return the model of a spec; a GGUF file is not loaded before it has to answer."""
    return AnyModel() if spec.startswith("llamacpp:") else chat_model(spec)
