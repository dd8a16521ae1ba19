"""Writing a report: `report.md`, `results.csv`, `report.html`, and a page for each question.

`report.html` is one file with tables and plots in it; the questions' pages are files of their own.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.metrics import infos_of, metric_info, primary_metric
from ragweave.evaluation.report.pairs import between_table
from ragweave.evaluation.report.plots import can_plot, plot_experiment
from ragweave.evaluation.report.summary import Experiment, Table, records
from ragweave.evaluation.report.tables import tables_of
from ragweave.evaluation.runs.outcome import Record
from ragweave.tools.drawing import html_page
from ragweave.tools.files import replacing, write_atomic


def write_markdown(
    path: Path, experiments: Sequence[Experiment], plots: Sequence[Sequence[Path]]
) -> None:
    """Write the report as Markdown, with the plots of each experiment beside it."""
    parts = ["# Evaluation report", ""]
    for experiment, drawn in zip(experiments, plots, strict=True):
        headline, *tables = tables_of(experiment)
        parts += [*markdown_table(headline, "##"), ""]
        for plot in drawn:
            if plot.suffix == ".png":
                parts += [f"![{plot.stem}]({plot.relative_to(path.parent).as_posix()})", ""]
        for table in tables:
            parts += [*markdown_table(table, "###"), ""]
        parts += [*settings_lines(experiment), ""]
    between = between_table(experiments)
    if between is not None:
        parts += [*markdown_table(between, "##"), ""]
    write_atomic(path, "\n".join(parts))


def settings_lines(experiment: Experiment) -> list[str]:
    """Return what the run was made with, a line each."""
    settings = experiment.settings
    roles = ", ".join(f"{role} {spec}" for role, spec in settings.models.items())
    versions = ", ".join(f"{name} {version}" for name, version in settings.versions.items())
    return [
        f"- data: {settings.dataset} ({settings.questions} questions, SHA-256 "
        f"{settings.dataset_hash[:16]}…)",
        f"- models: {roles}" + (f"; scorer {settings.scorer}" if settings.scorer else ""),
        f"- passages: {settings.corpus} {settings.kb} retriever {settings.retriever}, "
        + (f"searched again by {settings.second_retriever}, " if settings.second_retriever else "")
        + f"gold {settings.gold}",
        f"- seed {settings.seed}, limit {settings.limit}, sample {settings.sample}",
        f"- versions: {versions}",
    ]


def write_csv(path: Path, experiments: Sequence[Experiment]) -> None:
    """Write every mean with its interval, a row each, in the metrics' own units."""
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(
            ["run", "dataset", "model", "system", "method", "metric", "mean", "low", "high", "n"]
        )
        for experiment in experiments:
            settings = experiment.settings
            head = [experiment.name, settings.dataset_name, settings.models["answer"]]
            for column in experiment.columns.values():
                nodes = {
                    f"node_{kind}[{node}]": values
                    for node, taken in column.nodes.items()
                    for kind, values in taken.items()
                }
                for name, values in {**column.scores, **column.costs, **nodes}.items():
                    found = values.interval()
                    numbers = [f"{one:.6g}" for one in (found.mean, found.low, found.high)]
                    out.writerow(
                        [*head, column.label, column.system.method, name, *numbers, found.n]
                    )


def markdown_table(table: Table, mark: str) -> list[str]:
    """Return the lines of a table under a heading that begins with `mark`."""
    return [
        f"{mark} {table.title}",
        "",
        _line(table.head),
        _line(["---"] * len(table.head)),
        *(_line(row) for row in table.rows),
        "",
        *(f"{remark}  " for remark in table.remarks),
    ]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_STYLE = """
.wide{overflow-x:auto;margin:.5rem 0}table{border-collapse:separate;border-spacing:0;font-size:14px}
td,th{padding:.3rem .7rem;text-align:left;border-bottom:1px solid var(--rule);
vertical-align:top;overflow-wrap:normal}th{border-bottom:2px solid var(--dim);
white-space:nowrap}
td:first-child,th:first-child{padding-left:0;position:sticky;left:0;background:var(--paper)}
td+td{font-variant-numeric:tabular-nums;white-space:nowrap}
.remark{color:var(--dim);font-size:13px;margin:.2rem 0}
.wrong{color:var(--bad-line)}.gold{background:var(--good);padding:2px 8px;border-radius:6px}
img{max-width:100%;height:auto;background:#fff;border-radius:8px;vertical-align:top}
.plots{display:flex;flex-wrap:wrap;align-items:flex-start;gap:14px;margin:14px 0}.plots img{flex:0 1 550px;min-width:0}
summary h3{display:inline}
"""

FOLDED = frozenset({"Seconds by node"})
"""Tables that the page folds: for those who look for what is slow."""


def write_html(
    path: Path,
    experiments: Sequence[Experiment],
    plots: Sequence[Sequence[Path]],
    pages: Sequence[tuple[str, str, str]],
) -> None:
    """Write the report as one file that needs no other: of each run the scores and plots first.

    Args:
        path: Where to.
        experiments: What it is about.
        plots: The files of each experiment's plots; the PNGs are written into the page.
        pages: For each question's page its address, the question and a mark of how it went.
    """
    parts = ["<h1>Evaluation report</h1>"]
    for experiment, drawn in zip(experiments, plots, strict=True):
        headline, *tables = tables_of(experiment)
        parts += [_html_table(headline, "h2"), _pictures(drawn)]
        parts += [_html_table(table, "h3") for table in tables]
        lines = "".join(f"<li>{escape(line[2:])}</li>" for line in settings_lines(experiment))
        parts.append(f"<details><summary><h3>Settings</h3></summary><ul>{lines}</ul></details>")
    between = between_table(experiments)
    if between is not None:
        parts.append(_html_table(between, "h2"))
    if pages:
        rows = "".join(
            f'<li><a href="{escape(address)}">{escape(text)}</a> <span class="dim">{escape(mark)}'
            "</span></li>"
            for address, text, mark in pages
        )
        parts.append(f"<h2>Questions</h2><ol>{rows}</ol>")
    write_atomic(path, html_page("Evaluation report", parts, _STYLE))


def _pictures(plots: Iterable[Path]) -> str:
    """Return the PNGs among the plots, written into the page."""
    images = []
    for plot in plots:
        if plot.suffix == ".png":
            data = base64.b64encode(plot.read_bytes()).decode()
            images.append(f'<img alt="{escape(plot.stem)}" src="data:image/png;base64,{data}">')
    return f'<div class="plots">{"".join(images)}</div>' if images else ""


def question_page(records: Sequence[Record]) -> str:
    """Return the page of one question: gold, and each system's answer, passages and steps."""
    first = records[0]
    gold = "; ".join(map(_text, first["gold"])) or "none: the question has no answer"
    parts = [f"<h1>{escape(first['question'])}</h1>", f"<p>Gold: <b>{escape(gold)}</b></p>"]
    for record in records:
        parts.append(f"<h2>{escape(record['system'])}</h2>")
        parts += _failed(record) if record["error"] else _answered(record)
    return html_page(first["question"], parts, _STYLE)


def _answered(record: Record) -> Iterable[str]:
    scores = ", ".join(
        f"{metric_info(name).label} {value * 100:.0f}" for name, value in record["scores"].items()
    )
    usage = record["usage"]
    yield f"<p>Answer: <b>{escape(record['answer'])}</b> <span class=dim>({escape(scores)})</span>"
    yield (
        f"<p class=dim>{usage['calls']} calls, {usage['input_tokens']} tokens in, "
        f"{usage['output_tokens']} out, {record['seconds']:.2f} s</p>"
    )
    yield _nodes(record)
    yield from _passages(record)


def _nodes(record: Record) -> str:
    """Return what each node did: calls, tokens, time, what it wrote, its notes, its replies."""
    usage, seconds = record["usage"]["by_node"], record.get("node_seconds", {})
    rows = "".join(
        f"<tr><td>{escape(node)}{_spent(usage.get(node))}{_taken(seconds.get(node))}</tr>"
        for node in {**seconds, **usage}
    )
    head = "<th>node<th>calls<th>tokens<th>executions<th>s elapsed<th>s in total"
    parts = [f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>']
    found = {
        **record["trace"],
        **{f"found for {key}": ids for key, ids in record["retrieved"].items()},
        **{f"kept of {key}": ids for key, ids in record["kept"].items()},
        **{f"note: {one['event']} ({one['node']})": one["detail"] for one in record["notes"]},
        **{f"judge: {name}": said for name, said in record.get("judgements", {}).items()},
    }
    parts += [
        f"<p class=dim>{escape(key)}<pre>{escape(_text(v))}</pre>" for key, v in found.items()
    ]
    for key, one in record["candidates"].items():
        parts.append(
            f"<p class=dim>{escape(key)} → {escape(one['answer'])}<pre>{escape(one['reply'])}</pre>"
        )
    return f"<details><summary>What each node did</summary>{''.join(parts)}</details>"


def _spent(tokens: Mapping[str, Any] | None) -> str:
    if tokens is None:
        return "<td><td>"
    return f"<td>{tokens['calls']}<td>{tokens['input_tokens']} + {tokens['output_tokens']}"


def _taken(seconds: Mapping[str, Any] | None) -> str:
    if seconds is None:
        return "<td><td><td>"
    return f"<td>{seconds['runs']}<td>{seconds['elapsed']:.3f}<td>{seconds['total']:.3f}"


def _passages(record: Record) -> Iterable[str]:
    for number, one in enumerate(record["passages"], start=1):
        mark = ' class="gold"' if one["gold"] else ""
        label = " (gold)" if one["gold"] else ""
        yield f"<p{mark}>{number}. <b>{escape(one['title'])}</b>{label} {escape(one['text'])}</p>"


def _failed(record: Record) -> Iterable[str]:
    error = record["error"]
    yield f"<p class=wrong>Failed: {escape(error['kind'])}: {escape(error['text'])}</p>"


def _html_table(table: Table, mark: str) -> str:
    head = "".join(f"<th>{escape(cell)}" for cell in table.head)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}' for cell in row)}</tr>" for row in table.rows
    )
    remarks = "".join(f"<p class=remark>{escape(remark)}</p>" for remark in table.remarks)
    title = f"<{mark}>{escape(table.title)}</{mark}>"
    body = f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>{remarks}'
    if table.title in FOLDED:
        return f"<details><summary>{title}</summary>{body}</details>"
    return f"{title}{body}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    kept: Mapping[str, Any] | Any = value
    return json.dumps(kept, ensure_ascii=False, indent=1, default=str)


def write_report(
    folder: Path, experiments: Sequence[Experiment], *, pages: int = 200, plots: bool = True
) -> list[Path]:
    """Write `report.md`, `report.html`, `results.csv`, plots and questions' pages.

    Args:
        folder: Where to; made where it is missing.
        experiments: What `read_runs` returned.
        pages: Pages of single questions, for the first so many of each experiment.
        plots: Whether to draw; without matplotlib nothing is drawn.

    Returns:
        The files written, but for the questions' pages.

    Raises:
        UsageError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        drawn = [
            plot_experiment(folder / "plots", experiment) if plots and can_plot() else []
            for experiment in experiments
        ]
        asked = [page for experiment in experiments for page in _pages(folder, experiment, pages)]
        files = [folder / "report.md", folder / "report.html", folder / "results.csv"]
        write_markdown(files[0], experiments, drawn)
        write_html(files[1], experiments, drawn, asked)
        write_csv(files[2], experiments)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error}") from error
    return [*files, *(path for listed in drawn for path in listed)]


def _pages(folder: Path, experiment: Experiment, most: int) -> list[tuple[str, str, str]]:
    """Write the pages of the experiment's first questions; hold only their records."""
    held: dict[int, list[Record]] = {}
    for record in records(experiment):
        held.setdefault(record["at"], []).append(record)
        if len(held) > most:
            del held[max(held)]
    found = []
    order = {label: place for place, label in enumerate(experiment.columns)}
    for index in sorted(held):
        listed = sorted(held[index], key=lambda record: order[record["system"]])
        address = f"questions/{experiment.name}-{index}.html"
        path = folder / address
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, question_page(listed), sync=False)
        found.append((address, listed[0]["question"], _mark(listed, experiment)))
    return found


def _mark(listed: Sequence[Record], experiment: Experiment) -> str:
    """Say how each system did on a question, in a word."""
    metrics = infos_of(experiment.settings.metrics)
    marks = []
    for record in listed:
        score = primary_metric(record["scoring"], record["scores"], metrics)
        value = None if score is None else record["scores"][score]
        shown = "failed" if record["error"] else "–" if value is None else f"{value * 100:.0f}"
        marks.append(f"{record['system']} {shown}")
    return ", ".join(marks)
