"""`reproduce PAPER TABLE`: an evaluation with a table's systems, beside the paper's numbers.

`published/*.json` hold tables and figures of five papers, one object each:

    {"name": "table1", "title": "…", "gold": "as_found", "notes": ["…"],
     "rows": [{"label": "ReAct", "system": "react[k=5,shots=3]", "model": "gpt-3.5-turbo-instruct",
               "retriever": "dense", "values": {"hotpotqa": {"em": 36.0, "f1": 47.5}}}]}

`system` is an object of specs by data set if a system's options depend on it, and null if the row is not a method of
ours. A value is null if the paper draws it without printing it. Values are in percent, except calls and tokens.

A column may be derived from a metric, one value per question:

    output_precision/positive   only questions whose passages are positive: they hold an answer, or are gold
    gain(em)/negative           the difference to the table's first row, on the other questions
    answer_share>0.5            whether the value is above 0.5
    gain(rouge_l)>0             whether the value is above that of the first row

Sources: FILCO (Wang et al. 2023), table 2 and figure 6; SlimPLM (Tan et al. 2024), figures 2 and 3.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ragweave.datasets import SUBSETS
from ragweave.errors import UsageError
from ragweave.evaluation.evaluate import EvalSettings
from ragweave.evaluation.metrics import Metric
from ragweave.graphs import METHODS

PAPERS = ("blendfilter", "slimplm", "filco", "post-fusion", "hipporag2")

Values: TypeAlias = dict[str, float]
"""A value per question, by the question's id."""
Scores: TypeAlias = dict[str, Values]
"""Values by metric."""

_FILE = "paper.json"
_READS_LITTLE = "extractive?similarity=lexical"
"""The model of tables about retrieval, whose answers nobody scores."""
_COLUMN = re.compile(r"(?:(gain)\()?([\w@]+)\)?(?:>([\d.]+))?(?:/(positive|negative))?")
_SQUAD = {"em": "squad_em", "f1": "squad_f1"}
_FILCO = {"em": "filco_em", "f1": "filco_f1", "unigram_f1": "filco_f1", "output_precision": "filco_precision"}


@dataclass(frozen=True)
class TableRow:
    """A system of a table with one model, and the values that the paper prints."""

    label: str
    system: str | Mapping[str, str] | None
    values: Mapping[str, Mapping[str, float | None]]
    model: str = ""
    retriever: str | Mapping[str, str] = "auto"
    corpus: str = ""
    run: Mapping[str, str] = field(default_factory=dict)
    """`oracle`: the filter sees right answers; `filter`: it is trained, on these labels; `generator`: the proxy answers;
    `proxy`: the row has its own proxy; `best_of`: the best of a method's rows, question by question."""
    about: Mapping[str, str] = field(default_factory=dict)
    """`trained`: which components the paper trained; `dropped`: which questions it left out."""

    def spec(self, dataset: str) -> str:
        """Return the system for a data set; "" if it is not a method of ours."""
        spec = self.system.get(dataset, "") if isinstance(self.system, Mapping) else self.system
        return f"proxy:{spec}" if spec and self.run.get("generator") == "proxy" else spec or ""

    def searched(self, dataset: str) -> str:
        """Return the retriever for a data set."""
        return self.retriever.get(dataset, "auto") if isinstance(self.retriever, Mapping) else self.retriever


@dataclass(frozen=True)
class Table:
    """A table or figure of a paper."""

    name: str
    title: str
    rows: Sequence[TableRow]
    gold: str = "as_found"
    notes: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """The names of the files that the paper publishes, by data set; their corpora are searched."""

    @property
    def datasets(self) -> list[str]:
        """The data sets of its columns."""
        return list(dict.fromkeys(name for row in self.rows for name in row.values))

    @property
    def models(self) -> list[str]:
        """The models that answer."""
        return list(dict.fromkeys(row.model for row in self.rows if row.model))

    def published(self, folder: Path) -> list[str]:
        """Return the data sets whose published files a folder holds, as specs.

        Raises:
            UsageError: There are none.
        """
        specs = [f"{name}:{folder / file}" for name, file in self.files.items() if (folder / file).exists()]
        if not specs:
            wanted = ", ".join(self.files.values())
            raise UsageError(f"{folder} has none of {wanted}" if wanted else "--data is for hipporag2: name NAME:FILE")
        return specs


@dataclass(frozen=True)
class Paper:
    """What a paper prints, which the report of a run shows beside its scores (`paper.json`)."""

    title: str = ""
    values: Sequence[tuple[str, str, float]] = ()
    """System, column and value; in percent, except calls and tokens."""
    columns: Sequence[str] = ()
    notes: Sequence[str] = ()
    best: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Rows that are the best of other rows, question by question."""
    empty: Mapping[str, str] = field(default_factory=dict)
    """Why a row was not run, by system."""
    positive: str = ""
    """The metric that is above 0 for questions whose passages are positive."""

    @classmethod
    def read(cls, folder: Path) -> "Paper":
        """Read it from a run's folder; empty if the run does not reproduce a table."""
        path = folder / _FILE
        return cls(**json.loads(path.read_text("utf-8"))) if path.exists() else cls()

    def write(self, folder: Path) -> None:
        """Write it into a run's folder, for the run's report."""
        (folder / _FILE).write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")

    def printed(self, system: str, column: str) -> float | None:
        """Return a printed value; None if there is none."""
        return next((value for row, name, value in self.values if (row, name) == (system, column)), None)

    def metrics(self, known: Mapping[str, Metric]) -> dict[str, Metric]:
        """Return the columns as metrics: each is the metric that it is derived from, with its own name and label."""
        metrics = {}
        for column in self.columns:
            gain, name, above, where = _parts(column)
            base = known.get(name) or Metric(name, name, "")
            label = f"gain in {base.label}" if gain else base.label
            label = f"{label} > {above}" if above else label
            metrics[column] = replace(base, name=column, label=f"{label}, {where}" if where else label)
        return metrics

    def derive(self, scores: dict[str, Scores]) -> None:
        """Add the rows that are the best of others, and the derived columns, to the scores by system, in table order."""
        for system, rows in self.best.items():
            scores[system] = best_of([scores[row] for row in rows if row in scores])
        first = next(iter(scores.values()))
        for column in (column for column in self.columns if column != base_of(column)):
            for row in scores.values():
                if values := measured(column, row, first, self.positive):
                    row[column] = values


class Plan(NamedTuple):
    """What to evaluate to reproduce a table on a data set, without the data set's file and the models."""

    settings: EvalSettings
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
    listed = json.loads(file.read_text("utf-8"))["tables"]
    return tuple(Table(**{**table, "rows": [TableRow(**row) for row in table["rows"]]}) for table in listed)


def table_of(paper: str, name: str) -> Table:
    """Return a table by name: `1`, `table1`, `figure 2`, or `1 with gold` where two tables share a number.

    Raises:
        UsageError: There is no such table.
    """
    kind = "figure" if name.lower().startswith("fig") else "table"
    wanted = kind + re.sub(r"^(fig(ure)?|table)?[ .]*", "", name.lower())
    for table in tables(paper):
        if wanted in (table.name, table.name.partition(" ")[0]):
            return table
    names = ", ".join(table.name for table in tables(paper))
    raise UsageError(f"{paper} has no table {name!r}; choose one of: {names}")


def plan(
    paper: str,
    name: str,
    dataset: str,
    *,
    model: str = "",
    only: str = "",
    filters: Mapping[str, str] | None = None,
    scorer: bool = False,
) -> Plan:
    """Return what to evaluate for a paper's table on one of its data sets.

    Values are shown for a model of the paper, "" being the first, and `only` rows whose label contains a text are run.
    `filters` are folders of trained filters by label, with "" for all other labels. Rows by CXMI need a `scorer`, a model
    that scores outputs.

    Raises:
        UsageError: The table has no result on this data set or with this model, or no row can be run.
    """
    table = table_of(paper, name)
    for what, chosen, known in (("data set", dataset, table.datasets), ("model", model, ["", *table.models])):
        if chosen not in known:
            listed = ", ".join(filter(None, known))
            raise UsageError(f"{paper} {table.name} has no {what} {chosen!r}; there are {listed}")
    model = model or next(iter(table.models), "")
    matching = [row for row in table.rows if row.model in ("", model) and dataset in row.values and only in row.label]
    rows = dict(zip(_unique_labels(matching), matching, strict=True))
    skipped = {label: _why_skipped(row, label, dataset, filters or {}, only) for label, row in rows.items()}
    if not scorer:
        by_cxmi = [label for label, row in rows.items() if "filter=cxmi" in row.spec(dataset)]
        skipped |= dict.fromkeys(by_cxmi, "it needs --model scorer=SPEC")
    run = {label: row for label, row in rows.items() if not skipped[label] and "best_of" not in row.run}
    if not run:
        reasons = "; ".join(filter(None, dict.fromkeys(skipped.values())))
        raise UsageError(f"{paper} {table.name}: no row can be run: {reasons}")
    retriever = next(iter(run.values())).searched(dataset)
    for label in [label for label, row in run.items() if row.searched(dataset) != retriever]:
        skipped[label] = f"it searches by {run.pop(label).searched(dataset)}, the first row by {retriever}"
    columns = dict.fromkeys(_our_column(paper, column) for row in rows.values() for column in row.values[dataset])
    positive = "answer_recall" if dataset in ("nq", "triviaqa") else "recall"
    parts = [positive] if any("/" in column for column in columns) else []
    return Plan(
        EvalSettings(
            data="",
            systems=tuple(_with_filter(row.spec(dataset), row, label, filters or {}) for label, row in run.items()),
            names=tuple(run),
            oracle=tuple(label for label, row in run.items() if row.run.get("oracle")),
            metrics=tuple(dict.fromkeys([*map(base_of, columns), *parts])),
            gold=table.gold,
            retriever=retriever,
            corpus="file" if table.files else "",
            models={"generator": _READS_LITTLE if table.files else "extractive"},
        ),
        Paper(
            title=f"{paper}, {table.name}: {table.title} ({dataset}{f', {model}' if model else ''})",
            values=[
                (label, _our_column(paper, column), value)
                for label, row in rows.items()
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
                label: [name for name, other in run.items() if other.spec(dataset).startswith(row.run["best_of"])]
                for label, row in rows.items()
                if "best_of" in row.run
            },
            empty={label: reason for label, reason in skipped.items() if reason},
            positive=positive,
        ),
    )


def base_of(column: str) -> str:
    """Return the metric that a column is derived from, which may be the column itself."""
    return _parts(column)[1]


def measured(column: str, row: Scores, first: Scores, positive: str = "") -> Values:
    """Return a row's values in a column; empty if the metric was not computed.

    `first` are the scores of the table's first row, and the metric `positive` is above 0 where passages are positive.
    """
    gain, name, above, where = _parts(column)
    values = dict(row.get(name, {}))
    if where:
        passages = (first if gain else row).get(positive, {})
        values = {
            question: values[question]
            for question, score in passages.items()
            if question in values and (score > 0) == (where == "positive")
        }
    if gain:
        base = first.get(name, {})
        values = {question: value - base[question] for question, value in values.items() if question in base}
    return {question: float(value > float(above)) for question, value in values.items()} if above else values


def best_of(rows: Sequence[Scores]) -> Scores:
    """Return by metric the highest value of each question that all rows have answered (BlendFilter, section 4.7)."""
    metrics = set.intersection(*map(set, rows)) if rows else set[str]()
    best = {}
    for metric in sorted(metrics):
        shared = set.intersection(*(set(row[metric]) for row in rows))
        best[metric] = {question: max(row[metric][question] for row in rows) for question in sorted(shared)}
    return best


def _parts(column: str) -> tuple[str, str, str, str]:
    match = _COLUMN.fullmatch(column)
    gain, name, above, where = match.groups("") if match else ("", column, "", "")
    return gain, name, above, where


def _our_column(paper: str, column: str) -> str:
    """Return a column by our metrics' names: papers score by SQuAD's script, FILCO by its own."""
    names = _FILCO if paper == "filco" else _SQUAD
    base = base_of(column)
    return column.replace(base, names.get(base, base))


def _unique_labels(rows: Sequence[TableRow]) -> list[str]:
    """Return the rows' labels, numbered where a label occurs twice."""
    labels = [row.label for row in rows]
    return [
        label if labels.count(label) == 1 else f"{label} ({labels[: at + 1].count(label)})"
        for at, label in enumerate(labels)
    ]


def _why_skipped(row: TableRow, label: str, dataset: str, filters: Mapping[str, str], only: str) -> str:
    """Return why a row is not run; "" if it is."""
    if "best_of" in row.run:
        return ""
    if not row.spec(dataset):
        return "it is not one of our methods"
    if row.run.get("filter") and not (filters.get(label) or filters.get("")):
        return f"it needs a trained filter: --filter '{label}=FOLDER'"
    if row.run.get("proxy") and not only:
        return f"it needs its own proxy: --row '{row.label}' --model proxy=SPEC"
    return ""


def _with_filter(spec: str, row: TableRow, label: str, filters: Mapping[str, str]) -> str:
    return f"{spec[:-1]},filter={filters.get(label) or filters['']}]" if row.run.get("filter") else spec


def _about(paper: str, dataset: str, row: TableRow) -> Iterator[str]:
    """Say how the paper's runs differ from any that can be made here."""
    if row.corpus:
        yield f"The paper searched {row.corpus}."
    if trained := row.about.get("trained"):
        yield f"The paper trained: {trained}."
    if subset := SUBSETS.get((paper, dataset)):
        yield f"The paper asked {subset}: {dataset}:FILE?subset={paper}."
    if dropped := row.about.get("dropped"):
        yield f"The paper left out {dropped}: --drop-answered RUN."


def _differences(systems: Iterable[str]) -> Iterator[str]:
    """Yield what each method's documentation says under "Where we differ"."""
    for name in dict.fromkeys(system.removeprefix("proxy:").partition("[")[0] for system in systems):
        docstring = sys.modules[METHODS[name].options.__module__].__doc__ or ""
        for paragraph in docstring.split("\n\n"):
            if paragraph.startswith("Where we differ"):
                yield f"{name}: {' '.join(paragraph.split())}"


def listing() -> Iterator[tuple[str, str, str, str]]:
    """Yield paper, table, title and data sets of all that can be reproduced."""
    for paper in PAPERS:
        for table in tables(paper):
            yield paper, table.name, table.title, ", ".join(table.datasets)
