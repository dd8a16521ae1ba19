"""A reproduction as people read it: tables, Markdown, JSON, and plots of the figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ragweave.evaluation.metrics import Interval
from ragweave.evaluation.published.tables import PaperTable
from ragweave.evaluation.report import Line, can_plot, plot_bars, plot_lines
from ragweave.evaluation.report.pages import markdown_table
from ragweave.evaluation.report.summary import Table
from ragweave.evaluation.reproduction.comparison import ComparedRow, plain
from ragweave.evaluation.reproduction.outcomes import column_label, is_share
from ragweave.tools.files import write_atomic

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def comparison_tables(
    table: PaperTable, rows: Sequence[ComparedRow], models: Mapping[str, str]
) -> list[Table]:
    """Return a table for each data set and corpus, ours beside the paper's."""
    places = dict.fromkeys((one.dataset, one.corpus) for one in rows)
    several = len({corpus for _, corpus in places}) > 1
    found = []
    for dataset, corpus in places:
        listed = [one for one in rows if (one.dataset, one.corpus) == (dataset, corpus)]
        where = f", {corpus}" if several else ""
        title = f"{table.source}, {table.label}: {dataset}{where}"
        found.append(_table(title, table, listed, models))
    return found


def difference_tables(table: PaperTable, rows: Sequence[ComparedRow]) -> list[Table]:
    """Return a table for each data set of where which rows must differ from the paper's."""
    found = []
    for dataset in dict.fromkeys(one.dataset for one in rows):
        listed = [one for one in rows if one.dataset == dataset]
        run = [one for one in listed if not one.why_not and not one.row.method.startswith("best:")]
        texts: dict[str, list[str]] = {}
        for one in listed:
            for text in [f"not run: {one.why_not}"] if one.why_not else one.differs:
                texts.setdefault(text, []).append(_named(one, listed))
        lines = [
            [_mark(place), text, "all" if len(names) == len(run) > 1 else "; ".join(names)]
            for place, (text, names) in enumerate(texts.items())
        ]
        title = f"{table.label}, {dataset}: where rows differ from the paper's"
        found.append(Table(title, ["", "differs in", "rows"], lines))
    return found


def _named(one: ComparedRow, among: Sequence[ComparedRow]) -> str:
    """Return a row's name, with what the paper searched where that tells rows apart."""
    if sum(one.row.row == other.row.row for other in among) == 1:
        return one.row.row
    return f"{one.row.row} ({one.corpus.rpartition(', ')[2]})"


def _table(
    title: str, table: PaperTable, rows: Sequence[ComparedRow], models: Mapping[str, str]
) -> Table:
    common = _common(rows)
    marks: dict[str, str] = {}
    for row in rows:
        for text in row.differs:
            if text not in common:
                marks.setdefault(text, _mark(len(marks)))
    printed = _printed(table, rows)
    lines = [
        [
            row.row.row if place == 0 else "",
            column_label(cell.metric),
            _ours(cell.ours, cell.metric) if not row.why_not else "not run" if not place else "",
            *(_value(cell.printed.get(model)) for model in printed),
            " ".join(marks[text] for text in row.differs if text in marks) if not place else "",
        ]
        for row in rows
        for place, cell in enumerate(row.cells)
    ]
    head = ["row", "metric", "ours", *printed.values(), "differs"]
    remarks = list(_remarks(table, rows, models, common, marks))
    return Table(title, *_without_empty(head, lines, keep=3 + len(printed)), remarks)


def _printed(table: PaperTable, rows: Sequence[ComparedRow]) -> dict[str, str]:
    """Return the heads of the printed values by the paper's model, whose name would be too wide.

    Values of systems with models of their own stand in a last column, under the model "".
    """
    heads = {model: f"paper {place}" for place, model in enumerate(table.models, start=1)}
    if len(heads) < 2:
        heads = dict.fromkeys(heads or [""], "paper")
    if any("" in cell.printed for row in rows for cell in row.cells):
        heads.setdefault("", "other")
    return heads


def _without_empty(
    head: list[str], lines: list[list[str]], keep: int
) -> tuple[list[str], list[list[str]]]:
    """Leave out the last column where no row has anything in it."""
    if any(line[keep] for line in lines):
        return head, lines
    return head[:keep], [line[:keep] for line in lines]


def _common(rows: Sequence[ComparedRow]) -> list[str]:
    told = [row.differs for row in rows if row.differs]
    return [text for text in told[0] if all(text in one for one in told)] if told else []


def _remarks(
    table: PaperTable,
    rows: Sequence[ComparedRow],
    models: Mapping[str, str],
    common: Sequence[str],
    marks: Mapping[str, str],
) -> Iterator[str]:
    here = ", ".join(f"{role} {spec}" for role, spec in models.items())
    yield "Scores in percent; in brackets the 95% bootstrap interval."
    heads = _printed(table, rows)
    own = "systems with models of their own"
    told = ", ".join(f"{head}: {model or own}" for model, head in heads.items() if any(heads))
    yield f"Models: {f'{told}; ' if told else ''}ours: {here}."
    if common:
        yield f"All rows differ in: {'; '.join(common)}."
    for text, mark in marks.items():
        yield f"{mark}: {text}."
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.why_not:
            reasons.setdefault(row.why_not, []).append(row.row.row)
    for reason, labels in reasons.items():
        yield f"Not run: {', '.join(dict.fromkeys(labels))}: {reason}."


def _mark(place: int) -> str:
    return _LETTERS[place % 26] * (place // 26 + 1)


def _ours(found: Interval | None, metric: str) -> str:
    if found is None:
        return "–"
    if is_share(metric):
        return f"{found.mean * 100:.1f} [{found.low * 100:.1f}, {found.high * 100:.1f}]"
    return f"{found.mean:.1f} [{found.low:.1f}, {found.high:.1f}]"


def _value(value: float | None) -> str:
    """Return a printed value as the paper prints it: with one decimal or two."""
    if value is None:
        return "–"
    return f"{value:.2f}" if round(value, 1) != value else f"{value:.1f}"


def about_lines(table: PaperTable) -> list[str]:
    """Return what a reader must know of a table, and what the paper's text says of a figure."""
    lines = [f"Note: {one}." for one in table.notes]
    if table.figure:
        lines.append("The paper draws these values and does not print them.")
    return [*lines, *(f"The paper's text: {one}." for one in table.stated)]


def write_pages(
    folder: Path, table: PaperTable, rows: Sequence[ComparedRow], models: Mapping[str, str]
) -> list[Path]:
    """Write a table's comparison as Markdown and JSON, and a figure's plots.

    Returns:
        The files written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = _plots(folder / "plots", table, rows) if table.figure and can_plot() else []
    page, data = folder / f"{table.name}.md", folder / f"{table.name}.json"
    parts = [f"# {table.source}, {table.label}", "", f"{table.title}.", ""]
    parts += [f"{line}  " for line in about_lines(table)] + [""]
    for one in comparison_tables(table, rows, models):
        parts += [*markdown_table(one, "##"), ""]
    for plot in drawn:
        if plot.suffix == ".png":
            parts += [f"![{plot.stem}]({plot.relative_to(folder).as_posix()})", ""]
    write_atomic(page, "\n".join(parts))
    text = json.dumps(plain(table, rows, models), ensure_ascii=False, indent=2)
    write_atomic(data, f"{text}\n")
    return [page, data, *drawn]


def _plots(folder: Path, table: PaperTable, rows: Sequence[ComparedRow]) -> list[Path]:
    """Draw a figure for each data set and corpus: lines where it has an axis, else bars."""
    found = []
    several = len({one.corpus for one in rows}) > 1
    for dataset, corpus in dict.fromkeys((one.dataset, one.corpus) for one in rows):
        listed = [one for one in rows if (one.dataset, one.corpus) == (dataset, corpus)]
        stem = f"{table.name}-{dataset}" + (f"-{_word(corpus)}" if several else "")
        if table.x.endswith("above"):
            found += _curves(folder, stem, table, listed)
        elif table.x:
            found += _lines(folder, stem, table, listed)
        else:
            found += _bars(folder, stem, listed)
    return found


def _bars(folder: Path, name: str, rows: Sequence[ComparedRow]) -> list[Path]:
    """Draw a bar for each row and metric, scores apart from tokens."""
    found = []
    for share, unit in ((True, "percent"), (False, "tokens a question")):
        known = [
            (one, cell.metric, cell.ours)
            for one in rows
            for cell in one.cells
            if cell.ours is not None and is_share(cell.metric) == share
        ]
        metrics = {metric for _, metric, _ in known}
        if known:
            labels = [
                f"{one.row.row}: {column_label(metric)}" if len(metrics) > 1 else one.row.row
                for one, metric, _ in known
            ]
            what = column_label(metrics.pop()) + ", " if len(metrics) == 1 else ""
            values = [ours if share else _hundredth(ours) for _, _, ours in known]
            stem = name if share else f"{name}-tokens"
            found += plot_bars(folder, stem, labels, values, f"{what}{unit}, 95% interval")
    return found


def _hundredth(one: Interval) -> Interval:
    """Return tokens as plots take them, which show everything times 100."""
    return Interval(one.mean / 100, one.low / 100, one.high / 100, one.n)


def _lines(folder: Path, name: str, table: PaperTable, rows: Sequence[ComparedRow]) -> list[Path]:
    """Draw a line for each method over the figure's axis, a plot for each metric."""
    found = []
    for metric in dict.fromkeys(cell.metric for one in rows for cell in one.cells):
        lines: dict[str, list[tuple[float, Interval]]] = {}
        for one in rows:
            ours = next(cell.ours for cell in one.cells if cell.metric == metric)
            if ours is not None:
                at = (float(one.row.options[table.x]), ours)
                lines.setdefault(one.row.row.partition(",")[0], []).append(at)
        drawn = [Line(key, [x for x, _ in at], [y for _, y in at]) for key, at in lines.items()]
        label = f"{column_label(metric)} (%), 95% interval"
        if drawn:
            found += plot_lines(folder, f"{name}-{_word(metric)}", drawn, table.x, label)
    return found


def _curves(folder: Path, name: str, table: PaperTable, rows: Sequence[ComparedRow]) -> list[Path]:
    """Draw the share of questions above each score, a line a row."""
    lines = []
    for one in rows:
        at = [(float(c.metric.partition(">")[2]), c.ours) for c in one.cells if c.ours is not None]
        if at:
            lines.append(Line(one.row.row, [x for x, _ in at], [y for _, y in at]))
    label = "samples above (%), 95% interval"
    return plot_lines(folder, name, lines, table.x, label) if lines else []


def _word(text: str) -> str:
    """Return a text as part of a file's name."""
    return "".join(sign if sign.isalnum() else "_" for sign in text.rpartition(", ")[2]).strip("_")
