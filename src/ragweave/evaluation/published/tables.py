"""Every table and figure of the four papers, read from a text file a paper beside this one.

In such a file an `@` line sets what the rows below it share; a row is our method with its options,
the paper's name for it, and the printed values in the order of the columns:

    @table 1                        begins a table (or `@figure`); what follows is its own:
    @title … @note … @stated …      what it shows; what a reader must know; what the text says of it
    @listed …                       why it is no result, and is only listed
    @options k=5 shots=3            options of every method of the table that has them
    @gold with                      the run's setting of gold passages
    @x k                            the axis, where the rows are points of lines
    @model gpt-4-0613               who answers in the rows below; none: a system with a model of its
                                    own, or the paper does not say

    @columns nq:em nq+squad:f1      data sets and metrics; kept, with the rest, until set anew
    @$measure nq:strinc wow:lexical what `$measure` stands for by data set
    @positive nq:answer_recall      what is above 0 where a question's passages are positive
    @retriever nq:dense squad:bm25  how the paper searched, of all data sets (`bm25`) or by data set

    filco[k=1,filter=$measure]{oracle=yes} | SILVER | 7.3 - 4.6

Braces hold what a run sets: `oracle=yes` hands gold answers to the filter (`oracle=labels`: the
paper trained a filter on such labels), `filter=own` uses the trained filter that the user has,
`answer=proxy` lets the proxy answer, `proxy=2` takes the second proxy. `best:cot` is the best of
the rows of `cot` above it, and `-` a system that is no method here. A value `-` was not measured; a
row without values is drawn in the paper, and not printed.

A metric may be `NAME>0.5` (share of questions above it), `gain(NAME)` (mean difference to the first
row), `better(NAME)` (share of questions above the first row's), and each of them with `/positive`
or `/negative` (where passages are positive, or are not: the row's own, and the first row's where it
is set against that).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from ragweave.errors import UsageError
from ragweave.graphs.build import method_named
from ragweave.graphs.method import Method, parse_options
from ragweave.registry import closest

PAPERS = ("blendfilter", "slimplm", "filco", "post-fusion")
"""The papers' names on the command line."""

_OWN = ("title", "note", "stated", "listed", "options", "gold", "x", "model")
"""What an `@table` or `@figure` line resets."""

_TRAINED = ("slimplm", "filco")
"""Methods of which the papers trained parts."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table under one model and corpus, with the values that the paper prints."""

    method: str
    """Our method's name; `best:NAME`, or `-` where there is none."""
    row: str
    """What the table calls it."""
    cells: Mapping[tuple[str, str], float | None]
    """Printed values by data set and metric; None: drawn, not printed."""
    shared: Mapping[str, str]
    """What the `@` lines say: model, corpus, retriever, k, n, trained, shots, dropped, …"""
    options: Mapping[str, str] = field(default_factory=dict)
    run: Mapping[str, str] = field(default_factory=dict)
    """What stood in braces."""

    @property
    def model(self) -> str:
        """The paper's answering model; "": it does not matter, is not said, or is the system's own."""
        return self.shared.get("model", "")

    @property
    def corpus(self) -> str:
        """What the paper searched, and how."""
        return self.shared["corpus"]

    @property
    def ours(self) -> bool:
        """Whether a method of ours can run it."""
        return self.method != "-" and not self.method.startswith("best:")

    def retriever(self, dataset: str) -> str:
        """Return how the paper searched for a data set's questions; `auto`: as the base can."""
        text = self.shared.get("retriever", "auto")
        return (_by_dataset(text, dataset) or "auto") if ":" in text else text

    def positive(self, dataset: str) -> str:
        """Return the metric that is above 0 where a question's passages are positive; "": none."""
        return _by_dataset(self.shared.get("positive", ""), dataset)

    def measured_on(self, dataset: str) -> bool:
        """Say whether the paper has it on a data set; a number of calls alone is no result."""
        metrics = {metric for name, metric in self.cells if name == dataset}
        return bool(metrics - {"api_calls"})


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table or figure of a paper."""

    paper: str
    """The paper's name on the command line."""
    source: str
    """The paper, as reports cite it."""
    number: str
    """`1`, or `1, with gold`."""
    figure: bool
    title: str
    listed: str = ""
    """Why it is only listed; "": it can be reproduced."""
    notes: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()
    """What the paper's text says of a figure."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of every method of the table that has them."""
    gold: str = "as_found"
    x: str = ""
    rows: tuple[TableRow, ...] = ()

    @property
    def name(self) -> str:
        """Its name on the command line: `table1`, `figure2`."""
        return f"{'figure' if self.figure else 'table'}{self.number.partition(',')[0]}"

    @property
    def label(self) -> str:
        """What reports call it: `table 1, with gold`."""
        return f"{'figure' if self.figure else 'table'} {self.number}"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets of its columns, in their order."""
        return tuple(dict.fromkeys(name for row in self.rows for name, _ in row.cells))

    @property
    def models(self) -> tuple[str, ...]:
        """The paper's answering models."""
        return tuple(dict.fromkeys(row.model for row in self.rows if row.model))

    def options_of(self, row: TableRow, dataset: str) -> dict[str, Any]:
        """Return the options of a row's method on a data set, the table's own among them."""
        method = method_named(row.method)
        known = method.options.__dataclass_fields__
        given = {name: text for name, text in self.options.items() if name in known}
        return read_options({**given, **row.options}, row.shared, dataset, method)


def read_options(
    texts: Mapping[str, str], shared: Mapping[str, str], dataset: str, method: Method
) -> dict[str, Any]:
    """Read options for a data set: `$name` is looked up, and left out where it has no value."""
    read: dict[str, Any] = {}
    for name, text in texts.items():
        value = _by_dataset(shared.get(text, ""), dataset) if text.startswith("$") else text
        if value:
            read |= parse_options([f"{name}={value.replace('+', ',')}"], method)
    return read


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """One value of a paper's table."""

    paper: str
    table: str
    dataset: str
    method: str
    row: str
    """What the table calls the method."""
    model: str
    corpus: str
    k: int | None
    n: int | None
    """Questions that the paper asked, where it says so."""
    metric: str
    """Our name of the metric."""
    value: float
    """In percent, but for calls and tokens."""
    trained: str = ""
    """Parts that the paper trained, comma-separated."""
    shots: int | None = None
    """Examples in the paper's prompts; None: as our prompts have them."""
    dropped: str = ""
    """Questions that the paper left out."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method that make it this row, where they are not the defaults."""
    oracle: bool = False
    """Whether the paper's own filter was an oracle (SILVER)."""


def published_result(
    table: PaperTable, row: TableRow, dataset: str, metric: str
) -> PublishedResult:
    """Return a cell as a result; its value is NaN where the paper prints none."""
    value, about = row.cells.get((dataset, metric)), row.shared
    options = read_options(row.options, about, dataset, method_named(row.method))
    k = options.get("k", about.get("k", "-"))
    return PublishedResult(
        paper=table.source,
        table=table.number if not table.figure else table.label,
        dataset=dataset,
        method=row.method,
        row=row.row,
        model=row.model,
        corpus=row.corpus,
        k=None if k == "-" else int(k),
        n=_sample(about.get("n", "-"), dataset),
        metric=metric,
        value=float("nan") if value is None else value,
        trained=_trained(row, options),
        shots=int(about["shots"]) if "shots" in about else None,
        dropped=about.get("dropped", ""),
        options=options,
        oracle=row.run.get("oracle") == "yes",
    )


def _trained(row: TableRow, options: Mapping[str, Any]) -> str:
    """Return what the paper trained for a row: no filter where it kept all, or was an oracle."""
    if row.method not in _TRAINED:
        return ""
    parts = row.shared.get("trained", "")
    if options.get("filter") == "full" or row.run.get("oracle") == "yes":
        return parts.removeprefix("filter, ")
    return parts


@cache
def all_published() -> tuple[PublishedResult, ...]:
    """Return every value that the papers print for a method of ours."""
    return tuple(
        published_result(table, row, dataset, metric)
        for tables in paper_tables().values()
        for table in tables
        for row in table.rows
        for (dataset, metric), value in row.cells.items()
        if row.ours and value is not None
    )


@cache
def paper_tables() -> Mapping[str, tuple[PaperTable, ...]]:
    """Return every table and figure, by paper."""
    folder = resources.files(__package__)
    return MappingProxyType(
        {
            paper: tuple(read_tables(paper, (folder / f"{paper}.txt").read_text("utf-8")))
            for paper in PAPERS
        }
    )


def tables_of_paper(paper: str, name: str = "") -> tuple[PaperTable, ...]:
    """Return a paper's tables and figures: all, or the one of that name.

    Args:
        paper: The paper's name.
        name: `table1`, `figure2`, or a number, which names a table.

    Raises:
        UsageError: There is no such paper or table.
    """
    if paper not in PAPERS:
        near = closest(paper, PAPERS)
        raise UsageError(f"no paper {paper!r}{near}; choose one of: {', '.join(PAPERS)}")
    listed = paper_tables()[paper]
    if not name:
        return listed
    wanted = (
        re.sub(r"[\s._-]", "", name.lower()).replace("fig", "figure").replace("figureure", "figure")
    )
    wanted = f"table{wanted}" if wanted.isdigit() else wanted
    found = tuple(one for one in listed if one.name == wanted)
    if not found:
        names = ", ".join(one.name for one in listed)
        raise UsageError(f"{paper} has no table or figure {name!r}; choose one of: {names}")
    return found


def read_tables(paper: str, text: str) -> Iterator[PaperTable]:
    """Read a paper's file.

    Raises:
        UsageError: A line is not understood; the text names it.
    """
    shared: dict[str, str] = {}
    rows: list[TableRow] = []
    many: dict[str, list[str]] = {"note": [], "stated": []}

    def finished() -> Iterator[PaperTable]:
        if "number" in shared:
            yield _table(paper, shared, many, rows)

    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{paper}.txt:{number}"
        if not line.startswith("@"):
            if line.strip() and not line.startswith("#"):
                rows.append(_row(line, shared, where))
            continue
        key, _, value = line[1:].partition(" ")
        if key in ("table", "figure"):
            yield from finished()
            shared = {name: said for name, said in shared.items() if name not in _OWN}
            shared |= {"kind": key, "number": value.strip()}
            rows, many = [], {"note": [], "stated": []}
        elif key in many:
            many[key].append(value.strip())
        else:
            shared[key] = value.strip()
    yield from finished()


def _table(
    paper: str, shared: Mapping[str, str], many: Mapping[str, list[str]], rows: list[TableRow]
) -> PaperTable:
    return PaperTable(
        paper=paper,
        source=shared["paper"],
        number=shared["number"],
        figure=shared["kind"] == "figure",
        title=shared["title"],
        listed=shared.get("listed", ""),
        notes=tuple(many["note"]),
        stated=tuple(many["stated"]),
        options=_pairs(shared.get("options", ""), " "),
        gold=shared.get("gold", "as_found"),
        x=shared.get("x", ""),
        rows=tuple(rows),
    )


_HEAD = re.compile(r"(-|[\w:]+)(?:\[([^\]]*)\])?(?:\{([^}]*)\})?")


def _row(line: str, shared: Mapping[str, str], where: str) -> TableRow:
    name, row, *cells = [cell.strip() for cell in line.split("|")]
    head = _HEAD.fullmatch(name)
    columns = [
        (dataset, metric)
        for datasets, metric in (one.split(":") for one in shared["columns"].split())
        for dataset in datasets.split("+")
    ]
    values = _spread(" ".join(cells).split(), shared["columns"])
    if head is None or (values and len(values) != len(columns)):
        raise UsageError(f"{where}: is no row of these columns: {line}")
    method, options, run = head.groups(default="")
    printed = dict(zip(columns, values or [""] * len(columns), strict=True))
    return TableRow(
        method=method,
        row=row,
        cells={place: _value(text) for place, text in printed.items() if text != "-"},
        shared=dict(shared),
        options=_pairs(options, ","),
        run=_pairs(run, ","),
    )


def _spread(values: list[str], columns: str) -> list[str]:
    """Repeat the value of a column that several data sets share."""
    shared = [one.partition(":")[0].count("+") + 1 for one in columns.split()]
    if len(values) != len(shared):
        return values
    return [value for value, times in zip(values, shared, strict=True) for _ in range(times)]


def _value(text: str) -> float | None:
    return float(text) if text else None


def _pairs(text: str, separator: str) -> dict[str, str]:
    parts = [one.partition("=") for one in text.split(separator) if one.strip()]
    return {name.strip(): value.strip() for name, _, value in parts}


def _sample(text: str, dataset: str) -> int | None:
    """Read `400`, `nq:3459 squad:3448` or `-`."""
    found = text if text.isdigit() else _by_dataset(text, dataset)
    return int(found) if found else None


def _by_dataset(text: str, dataset: str) -> str:
    return dict(part.split(":") for part in text.split() if ":" in part).get(dataset, "")
