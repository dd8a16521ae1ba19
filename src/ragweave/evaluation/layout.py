"""A report as a table on screen, `report.md`, `report.csv` and `report.html`.

The page is self-contained and fits any screen, light or dark.
"""

import csv
import io
import math
import os
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import get_args
from urllib.parse import quote

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ragweave.evaluation.folder import Record
from ragweave.evaluation.metrics import Metric
from ragweave.evaluation.report import Line, Lost, Report
from ragweave.evaluation.statistics import Comparison, Interval
from ragweave.evaluation.tune import Outcome, sentence
from ragweave.evaluation.why import SUMMARIES, Stage
from ragweave.tools.footnotes import html_page

WIDTH = 100
"""Maximum width of the table in columns of a terminal."""
_SIGNIFICANT = 0.05


def verdict(report: Report) -> str:
    """Return one sentence on which system did best, by how much, and at what cost."""
    main, label = report.main, report.metric.label
    scored = [line for line in report.lines if main in line.scores]
    if not scored:
        return "No question has a score."
    ranked = sorted(scored, key=lambda line: line.scores[main].mean, reverse=report.metric.higher_is_better)
    best = ranked[0]
    score = _score(best.scores[main], report.metric, interval=True)
    if len(ranked) == 1:
        return f"{best.system} has {label} {score} (n = {best.scores[main].n})."
    other = ranked[1]
    second = _score(other.scores[main], report.metric)
    if best.scores[main].mean == other.scores[main].mean:
        return f"{best.system} and {other.system} are tied at {label} {score}."
    pair = next((pair for pair in report.pairs if {pair.first, pair.second} == {best.system, other.system}), None)
    times = f"at {best.tokens / other.tokens:.1f} times the tokens of" if best.tokens and other.tokens else "before"
    text = f"{best.system} leads with {label} {score}, {times} {other.system}, which has {second}"
    if pair is None:
        return f"{text}."
    level = "significant" if pair.comparison.p < _SIGNIFICANT else "not significant"
    return f"{text}; the difference is {level} (p {_p(pair.comparison.p, '= ')})."


def cells(
    report: Report, metrics: Sequence[Metric] | None = None, *, brief: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of a report with some metrics, or all; `brief` shows half an interval's width: 40.1 ±3.2."""
    shown = report.metrics if metrics is None else metrics
    printed = {column for _, column, _ in report.paper.values}
    priced = any(line.dollars is not None for line in report.lines)
    head = ["System"]
    for metric in shown:
        head += [metric.label] + ["paper"] * (metric.name in printed)
    head += ["calls", "tokens", *["$/1,000"] * priced, "s", "n"]
    compared = len(report.lines) > 1 and bool(report.pairs)
    head += [f"Δ {report.metric.label}", "p"] * compared
    first = report.lines[0].system
    against = {pair.second: pair.comparison for pair in report.pairs if pair.first == first}
    rows = []
    for line in report.lines:
        row = [line.system]
        for metric in shown:
            row.append(_score(line.scores.get(metric.name), metric, interval=metric.name == report.main, brief=brief))
            if metric.name in printed:
                value = report.paper.printed(line.system, metric.name)
                row.append("" if value is None else f"{value:.1f}")
        row += _costs(line, priced)
        if compared:
            row += _difference(against.get(line.system), report.metric, brief=brief)
        rows.append(row)
    return head, rows


def _costs(line: Line, priced: bool) -> list[str]:
    if not line.answered + line.failed:
        return [""] * (4 + priced)
    dollars = ["" if line.dollars is None else f"{line.dollars * 1000:.2f}"] * priced
    failed = f" ({line.failed} failed)" if line.failed else ""
    return [f"{line.calls:.1f}", f"{line.tokens:,.0f}", *dollars, f"{line.seconds:.1f}", f"{line.answered}{failed}"]


def _difference(comparison: Comparison | None, metric: Metric, *, brief: bool = False) -> list[str]:
    return (
        ["", ""]
        if comparison is None
        else [_score(comparison.difference, metric, "+", interval=True, brief=brief), _p(comparison.p)]
    )


def _score(
    score: Interval | None, metric: Metric, sign: str = "", *, interval: bool = False, brief: bool = False
) -> str:
    """Return a mean, with its interval if wanted; "" without a score."""
    if score is None:
        return ""
    times = 100 if metric.percent else 1
    mean, low, high = (f"{value * times:{sign}.1f}" for value in (score.mean, score.low, score.high))
    if not interval:
        return mean
    return f"{mean} ±{(score.high - score.low) * times / 2:.1f}" if brief else f"{mean} [{low}, {high}]"


def _p(value: float, equals: str = "") -> str:
    return "< .001" if value < 0.001 else f"{equals}{value:.3f}"


def pair_cells(report: Report) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of the table of all pairs."""
    rows = [[pair.second, pair.first, *_difference(pair.comparison, report.metric)] for pair in report.pairs]
    return ["System", "against", f"Δ {report.metric.label}", "p (Holm)"], rows


def show(report: Report, console: Console | None = None) -> None:
    """Print a report with as many metrics as fit."""
    console = console or Console()
    width = min(console.width, WIDTH)
    shown = list(report.metrics)
    head, rows = cells(report, shown, brief=True)
    while len(shown) > 1 and _width(head, rows) > width:
        shown.pop()
        head, rows = cells(report, shown, brief=True)
    tables = [(report.title, head, rows), *[("", *lost_cells(report.lost))] * bool(report.lost)]
    for title, names, lines in tables:
        table = RichTable(box=None, padding=(0, 2, 0, 0), title=Text(title, "dim"), title_justify="left")
        for at, name in enumerate(names):
            table.add_column(Text(name, "bold"), justify="right" if at else "left", overflow="fold", no_wrap=at > 0)
        for line in lines:
            table.add_row(*map(Text, line))
        console.print(table, width=width)
    for text, style in [(verdict(report), "bold"), *((note, "yellow") for note in report.notes)]:
        console.print(text, style=style, markup=False, width=width)


def _width(head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    first, *others = (max(map(len, column)) + 2 for column in zip(head, *rows, strict=True))
    return min(first, 24) + sum(others)  # long names are folded


def lost_cells(lost: Lost) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of the table of lost answers: a row for each system, a column for each stage with any."""
    counts = {system: {stage: len(records) for stage, records in by.items()} for system, by in lost.items()}
    stages = [stage for stage in get_args(Stage) if any(by[stage] for by in counts.values())]
    rows = [[system, *(str(by[stage]) for stage in stages), str(sum(by.values()))] for system, by in counts.items()]
    return ["Questions lost in", *stages, "all"], rows


# ---- files


def write(report: Report, folder: Path) -> list[Path]:
    """Write `report.md`, `report.csv` and `report.html` into a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"md": markdown(report), "csv": comma_separated(report), "html": html(report, folder)}
    for kind, text in texts.items():
        (folder / f"report.{kind}").write_text(text, "utf-8", "replace", "")
    return [folder / f"report.{kind}" for kind in texts]


def markdown(report: Report) -> str:
    """Return a report as Markdown."""
    lines = [f"# {report.title}", "", verdict(report), "", *_md(*cells(report)), ""]
    lines += [f"> {' '.join(note.split())}" for note in report.notes]
    if len(report.pairs) > 1:
        lines += ["", "## All pairs", "", *_md(*pair_cells(report))]
    if report.lost:
        lines += ["", "## Lost answers", "", *_md(*lost_cells(report.lost))]
    lines += ["", "## Metrics", "", *legend(report), "", "## Settings", ""]
    lines += [f"- {name}: {value}" for name, value in report.about.items()]
    return "\n".join(lines) + "\n"


def _md(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table whose cells hold neither HTML nor line ends."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    clean = ((" ".join(cell.split()).replace("<", "&lt;").replace("|", r"\|") for cell in row) for row in lines)
    return [f"| {' | '.join(row)} |" for row in clean]


def legend(report: Report) -> list[str]:
    """Return a line on each metric, which says how many questions it covers if not all."""
    answered = max((line.answered for line in report.lines), default=0)
    lines = []
    for metric in report.metrics:
        covered = max((line.scores[metric.name].n for line in report.lines if metric.name in line.scores), default=0)
        over = f" Over {covered} of {answered} questions." if covered < answered else ""
        source, lower = f" {metric.source}." * bool(metric.source), " Lower is better." * (not metric.higher_is_better)
        lines.append(f"- **{metric.label}**: {metric.summary}{source}{lower}{over}")
    return lines


def comma_separated(report: Report) -> str:
    """Return a report as CSV with a row for each score."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["system", "metric", "mean", "low", "high", "n", "paper"])
    for line in report.lines:
        for name, score in line.scores.items():
            printed = report.paper.printed(line.system, name)
            table.writerow([line.system, name, score.mean, score.low, score.high, score.n, printed])
        for name in ("calls", "tokens", "seconds", "dollars"):
            table.writerow([line.system, name, getattr(line, name), "", "", line.answered, ""])
    return text.getvalue()


# ---- the page

_STYLE = Path(__file__).with_suffix(".css").read_text("utf-8")


def html(report: Report, place: Path = Path()) -> str:
    """Return a report as one HTML page, with links from its folder to the traces of lost answers."""
    pairs = f"<h2>All pairs</h2>{_table(*pair_cells(report))}" if len(report.pairs) > 1 else ""
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in report.notes)
    settings = [f"{name}: {value}" for name, value in report.about.items()]
    body = f"""<h1>{escape(report.title)}</h1>
<p class="verdict">{escape(verdict(report))}</p>
{_table(*cells(report, report.metrics[:3]))}
{notes}
<h2>{escape(report.metric.label)} against tokens per question</h2>
{scatter(report)}
{pairs}
{lost_html(report.lost, place)}
<details><summary>All metrics</summary>
{_table(*cells(report))}
{_list(line.removeprefix("- ").replace("**", "") for line in legend(report))}</details>
<details><summary>Settings</summary>{_list(settings)}</details>"""
    return html_page(report.title, _STYLE, body)


def lost_html(lost: Lost, place: Path) -> str:
    """Return the table of lost answers, and each question under its stage, with a link to its trace."""
    if not lost:
        return ""
    lists = []
    for system, by_stage in lost.items():
        for stage, records in by_stage.items():
            items = "".join(f"<li>{_lost(record, place)}</li>" for record in records)
            title = f"{system}: {len(records)} lost in {stage}. {SUMMARIES[stage]}"
            lists += [f"<details><summary>{escape(title)}</summary><ul>{items}</ul></details>"] * bool(records)
    return f"<h2>Lost answers</h2>{_table(*lost_cells(lost))}{''.join(lists)}"


def _lost(record: Record, place: Path) -> str:
    question = escape(record["question"])
    if record.get("trace"):
        question = f'<a href="{escape(quote(os.path.relpath(record["trace"], place)))}">{question}</a>'
    return f"{question} {escape(record['answer'])} (right: {escape(str(record['gold'][0]))})"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    body = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows)
    top = f"<thead><tr>{_cells(head, 'th')}</tr></thead>"
    return f'<div class="wide"><table>{top}<tbody>{body}</tbody></table></div>'


def _cells(row: Iterable[str], tag: str) -> str:
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


_WIDE, _HIGH, _LEFT, _LOW = 640, 360, 50, 44
"""Width and height of the plot, and its margins left of and below the axes, in pixels."""


def _plot(label: str, bottom: float, top: float) -> tuple[list[str], Callable[[float], float]]:
    """Begin an SVG plot with a grid of the values from `bottom` to `top`; return its parts, and what places a value."""

    def down(value: float) -> float:
        return _HIGH - _LOW - (_HIGH - _LOW - 10) * (value - bottom) / (top - bottom)

    parts = [f'<div class="wide"><svg viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="{label}">']
    for tick in _ticks(bottom, top):
        y = down(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDE}" y1="{y:.0f}" y2="{y:.0f}"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{tick:g}", "end"))
    return parts, down


def scatter(report: Report) -> str:
    """Return an SVG plot of the main score, with its interval, against tokens per question."""
    times = 100 if report.metric.percent else 1
    scored = [
        (line.system, line.tokens, line.scores[report.main]) for line in report.lines if report.main in line.scores
    ]
    points = [(name, x, times * score.mean, times * score.low, times * score.high) for name, x, score in scored]
    if not points:
        return ""
    most = max(x for _, x, *_ in points) * 1.15 or 1.0
    bottom, top = min(point[3] for point in points), max(point[4] for point in points)
    margin = max((top - bottom) / 10, 0.5)
    parts, down = _plot("score against tokens", bottom - margin, top + margin)

    def across(x: float) -> float:
        return _LEFT + (_WIDE - _LEFT - 20) * x / most

    parts += [_text(across(x), _HIGH - 24, f"{x:,.0f}", "middle") for x in _ticks(0, most)]
    parts.append(_text(_WIDE, _HIGH - 4, "tokens per question", "end"))
    taken = [(across(x) - 6, across(x) + 6, down(y) + 4) for _, x, y, *_ in points]
    for name, tokens, mean, low, high in sorted(points, key=lambda point: -point[2]):
        x, y = across(tokens), down(mean)
        left = x > _WIDE * 0.6
        parts.append(f'<line class="bar" x1="{x:.1f}" x2="{x:.1f}" y1="{down(low):.1f}" y2="{down(high):.1f}"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{escape(name)}</title></circle>')
        shown = _short(name, 40)
        start = x - 9 - 8 * len(shown) if left else x + 9
        height = _free(start, y + 4, 8 * len(shown), taken)
        parts.append(_text(x + (-9 if left else 9), height, shown, "end" if left else "start"))
    return "\n".join([*parts, "</svg></div>"])


def _short(name: str, length: int) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"


def _ticks(low: float, high: float) -> list[float]:
    """Return a few round numbers between `low` and `high`."""
    size = 10.0 ** math.floor(math.log10(high - low))
    step = next(size * factor for factor in (0.1, 0.2, 0.5, 1, 2, 5) if (high - low) / (size * factor) <= 6)
    return [at * step for at in range(math.ceil(low / step), math.floor(high / step) + 1)]


_Taken = list[tuple[float, float, float]]
"""Left, right and height of labels."""


def _free(x: float, y: float, length: float, taken: _Taken) -> float:
    """Return the first height from `y` down at which a label of this length, starting at `x`, covers no other."""
    while any(abs(top - y) < 15 and left < x + length and x < right for left, right, top in taken):
        y += 15
    taken.append((x, x + length, y))
    return y


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


# ---- the page of `tune`


def write_tuned(outcome: Outcome) -> Path:
    """Write `report.html` beside the choice, and return its path."""
    path = outcome.choice.with_name("report.html")
    unit = "US dollars" if outcome.unit == "dollars" else "tokens"
    spent = ", ".join(f"{_cost(value, name)} {name}" for name, value in outcome.spent.items())
    body = f"""<h1>{escape(outcome.chosen.name)}</h1>
<p class="verdict">{escape(sentence(outcome))}</p>
{_table(*gain_cells(outcome))}
<h2>The race: {escape(outcome.metric.label)} after each block of questions</h2>
{course(outcome)}
{_table(*arm_cells(outcome))}
<p>Costs are in {unit} per question. The run has cost {spent}.</p>
{lost_html(outcome.lost, outcome.choice.parent)}"""
    path.write_text(html_page("tune", _STYLE, body), "utf-8", "replace")
    return path


def gain_cells(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of the finalist's gain as shown, and as confirmed."""
    head = [f"Δ {outcome.metric.label}", "mean", "95 % interval", "questions", "p (one-sided)"]
    rows = [["shown, where it was chosen", f"{100 * outcome.shown:+.1f}", "", str(outcome.chosen_by), ""]]
    if verdict := outcome.verdict:
        mean, _, interval = _score(verdict.gain, outcome.metric, "+", interval=True).partition(" ")
        p = "" if verdict.p is None else _p(verdict.p)
        rows.append(["confirmed, on those kept back", mean, interval, str(verdict.gain.n), p])
    return head, rows


def arm_cells(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of the race: an arm's questions, its mean score on them, and its cost."""
    last = {name: (asked, score) for asked, means in outcome.course for name, score in means.items()}
    order = sorted(last, key=last.__getitem__, reverse=True)
    rows = [
        [name, f"{last[name][0]}", f"{100 * last[name][1]:.1f}", _cost(outcome.costs[name], outcome.unit)]
        for name in order
    ]
    return ["Arm", "questions", outcome.metric.label, outcome.unit], rows


def _cost(value: float, unit: str) -> str:
    return f"{value:,.4g}" if unit == "dollars" else f"{value:,.0f}"


def course(outcome: Outcome) -> str:
    """Return an SVG plot of each arm's mean score after each block; an arm that left has no more points."""
    scores = [100 * score for _, means in outcome.course for score in means.values()]
    if not scores:
        return ""
    parts, down = _plot("scores during the race", min(scores) - 2, max(scores) + 2)
    last, taken = outcome.course[-1][0], _Taken()

    def across(asked: int) -> float:
        return _LEFT + (_WIDE - _LEFT - 260) * asked / last

    parts += [_text(across(asked), _HIGH - 24, str(asked), "middle") for asked, _ in outcome.course]
    parts.append(_text(across(last), _HIGH - 4, "questions answered", "end"))
    for name in dict.fromkeys(name for _, means in outcome.course for name in means):
        points = [(across(asked), down(100 * means[name])) for asked, means in outcome.course if name in means]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="bar" fill="none" points="{line}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in points]
        shown, (x, y) = _short(name, 34), points[-1]
        parts.append(_text(x + 8, _free(x + 8, y + 4, 8 * len(shown), taken), shown, "start"))
    return "\n".join([*parts, "</svg></div>"])
