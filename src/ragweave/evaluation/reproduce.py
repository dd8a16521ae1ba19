"""`reproduce PAPER TABLE`: an evaluation with a table's systems, beside the paper's numbers.

`published/*.json` hold the tables and figures of four papers that show results, one object each:

    {"name": "table1", "title": "…", "gold": "as_found", "notes": ["…"],
     "rows": [{"label": "ReAct", "system": "react[k=5,shots=3]", "model": "gpt-3.5-turbo-instruct",
               "retriever": "dense", "values": {"hotpotqa": {"em": 36.0, "f1": 47.5}}}]}

`system` is an object of specs by data set if a system's options depend on it, and null if the row is no method of
ours. A value is null if the paper draws it and prints none. Values are in percent, but for calls and tokens.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import NamedTuple

from ragweave.datasets import SUBSETS
from ragweave.errors import UsageError
from ragweave.evaluation.evaluate import Settings
from ragweave.evaluation.report import Paper, base_of
from ragweave.graphs import METHODS

PAPERS = ("blendfilter", "slimplm", "filco", "post-fusion")

_SQUAD = {"em": "squad_em", "f1": "squad_f1"}
_FILCO = {"em": "filco_em", "f1": "filco_f1", "unigram_f1": "filco_f1", "output_precision": "filco_precision"}


@dataclass(frozen=True)
class Row:
    """A system of a table under one model, with what the paper prints."""

    label: str
    system: str | Mapping[str, str] | None
    values: Mapping[str, Mapping[str, float | None]]
    model: str = ""
    retriever: str | Mapping[str, str] = "auto"
    corpus: str = ""
    run: Mapping[str, str] = field(default_factory=dict)
    """`oracle`: the filter sees right answers; `filter`: it is trained, on the labels named; `answer`: the proxy
    answers; `proxy`: the row has a proxy of its own; `best_of`: the best of a method's rows, question by question."""
    about: Mapping[str, str] = field(default_factory=dict)
    """`trained`: which components the paper trained; `dropped`: which questions it left out."""

    def spec(self, dataset: str) -> str:
        """Return the system on a data set; "" if it is no method of ours."""
        found = self.system.get(dataset, "") if isinstance(self.system, Mapping) else self.system
        return f"proxy:{found}" if found and self.run.get("answer") == "proxy" else found or ""

    def searched(self, dataset: str) -> str:
        """Return the retriever on a data set."""
        return self.retriever.get(dataset, "auto") if isinstance(self.retriever, Mapping) else self.retriever


@dataclass(frozen=True)
class Table:
    """A table or figure of a paper."""

    name: str
    title: str
    rows: Sequence[Row]
    gold: str = "as_found"
    notes: Sequence[str] = ()

    @property
    def datasets(self) -> list[str]:
        """The data sets of its columns."""
        return list(dict.fromkeys(name for row in self.rows for name in row.values))

    @property
    def models(self) -> list[str]:
        """The models that answer."""
        return list(dict.fromkeys(row.model for row in self.rows if row.model))


class Plan(NamedTuple):
    """What is to be evaluated to reproduce a table on a data set, without the data set's file and the models."""

    settings: Settings
    paper: Paper


@cache
def tables(paper: str) -> tuple[Table, ...]:
    """Return the tables and figures of a paper.

    Raises:
        UsageError: There is no such paper.
    """
    if paper not in PAPERS:
        raise UsageError(f"no paper {paper!r}; choose one of: {', '.join(PAPERS)}")
    file = resources.files("ragweave.evaluation") / "published" / f"{paper}.json"
    read = json.loads(file.read_text("utf-8"))["tables"]
    return tuple(Table(**{**one, "rows": [Row(**row) for row in one["rows"]]}) for one in read)


def table_of(paper: str, name: str) -> Table:
    """Return a table by name: `1`, `table1`, `figure 2`; of two of one number, `1 with gold`.

    Raises:
        UsageError: There is none.
    """
    kind = "figure" if name.lower().startswith("fig") else "table"
    wanted = kind + re.sub(r"^(fig(ure)?|table)?[ .]*", "", name.lower())
    for one in tables(paper):
        if wanted in (one.name, one.name.partition(" ")[0]):
            return one
    raise UsageError(f"{paper} has no table {name!r}; choose one of: {', '.join(one.name for one in tables(paper))}")


def plan(
    paper: str, name: str, dataset: str, *, model: str = "", only: str = "", filters: Mapping[str, str] | None = None
) -> Plan:
    """Return what to evaluate for a paper's table on a data set.

    `model` is the paper's model that the printed values are of (the first, if none is named), `only` a substring of the
    labels of the rows that are run; `filters` are folders of trained filters by label, with "" for all others.

    Raises:
        UsageError: The table has no result on this data set or with this model, or no row can be run.
    """
    table = table_of(paper, name)
    for what, one, known in (("data set", dataset, table.datasets), ("model", model, ["", *table.models])):
        if one not in known:
            raise UsageError(f"{paper} {table.name} has no {what} {one!r}; there are {', '.join(filter(None, known))}")
    chosen = model or next(iter(table.models), "")
    rows = [row for row in table.rows if row.model in ("", chosen) and dataset in row.values and only in row.label]
    named = dict(zip(_unlike(rows), rows, strict=True))
    why = {label: _why_not(row, label, dataset, filters or {}, only) for label, row in named.items()}
    run = {label: row for label, row in named.items() if not why[label] and "best_of" not in row.run}
    if not run:
        raise UsageError(
            f"{paper} {table.name}: no row can be run: {'; '.join(filter(None, dict.fromkeys(why.values())))}"
        )
    retriever = next(iter(run.values())).searched(dataset)
    for label in [label for label, row in run.items() if row.searched(dataset) != retriever]:
        why[label] = f"it searches by {run.pop(label).searched(dataset)}, the first row by {retriever}"
    columns = dict.fromkeys(_ours(paper, column) for row in named.values() for column in row.values[dataset])
    positive = "answer_recall" if dataset in ("nq", "triviaqa") else "recall"
    parts = [positive] if any("/" in one for one in columns) else []
    return Plan(
        Settings(
            data="",
            systems=tuple(_with_filter(row.spec(dataset), row, label, filters or {}) for label, row in run.items()),
            names=tuple(run),
            oracle=tuple(label for label, row in run.items() if row.run.get("oracle")),
            metrics=tuple(dict.fromkeys([*map(base_of, columns), *parts])),
            gold=table.gold,
            retriever=retriever,
        ),
        Paper(
            title=f"{paper}, {table.name}: {table.title} ({dataset}{f', {chosen}' if chosen else ''})",
            values=[
                (label, _ours(paper, column), value)
                for label, row in named.items()
                for column, value in row.values[dataset].items()
                if value is not None
            ],
            columns=list(columns),
            notes=[
                *table.notes,
                *_about(paper, dataset, next(iter(run.values()))),
                *_differences(row.spec(dataset) for row in run.values()),
            ],
            best={
                label: [other for other, one in run.items() if one.spec(dataset).startswith(row.run["best_of"])]
                for label, row in named.items()
                if "best_of" in row.run
            },
            empty={label: reason for label, reason in why.items() if reason},
            positive=positive,
        ),
    )


def _ours(paper: str, column: str) -> str:
    """Return a column by the names of our metrics: papers score by SQuAD's script, FILCO by its own."""
    names = _FILCO if paper == "filco" else _SQUAD
    base = base_of(column)
    return column.replace(base, names.get(base, base))


def _unlike(rows: Sequence[Row]) -> list[str]:
    """Return labels of which none is there twice."""
    labels = [row.label for row in rows]
    return [
        label if labels.count(label) == 1 else f"{label} ({labels[: at + 1].count(label)})"
        for at, label in enumerate(labels)
    ]


def _why_not(row: Row, label: str, dataset: str, filters: Mapping[str, str], only: str) -> str:
    """Say why a row is not run; "": it is."""
    if "best_of" in row.run:
        return ""
    if not row.spec(dataset):
        return "it is not one of our methods"
    if row.run.get("filter") and not (filters.get(label) or filters.get("")):
        return f"it needs a trained filter: --filter '{label}=FOLDER'"
    if row.run.get("proxy") and not only:
        return f"it needs its own proxy: --row '{row.label}' --model proxy=SPEC"
    return ""


def _with_filter(spec: str, row: Row, label: str, filters: Mapping[str, str]) -> str:
    return f"{spec[:-1]},filter={filters.get(label) or filters['']}]" if row.run.get("filter") else spec


def _about(paper: str, dataset: str, row: Row) -> Iterator[str]:
    """Say in what the paper's runs differed from any that can be made here."""
    if row.corpus:
        yield f"The paper searched {row.corpus}."
    if trained := row.about.get("trained"):
        yield f"The paper trained: {trained}."
    if subset := SUBSETS.get((paper, dataset)):
        yield f"The paper asked {subset}: {dataset}:FILE?subset={paper}."
    if left := row.about.get("dropped"):
        yield f"The paper left out {left}: --drop-answered RUN."


def _differences(systems: Iterable[str]) -> Iterator[str]:
    """Yield what each method's documentation says under "Where we differ"."""
    for name in dict.fromkeys(system.removeprefix("proxy:").partition("[")[0] for system in systems):
        documented = sys.modules[METHODS[name].options.__module__].__doc__ or ""
        for paragraph in documented.split("\n\n"):
            if paragraph.startswith("Where we differ"):
                yield f"{name}: {' '.join(paragraph.split())}"


def listing() -> Iterator[tuple[str, str, str, str]]:
    """Yield paper, table, title and data sets of all that can be reproduced."""
    for paper in PAPERS:
        for table in tables(paper):
            yield paper, table.name, table.title, ", ".join(table.datasets)
