"""Plots as PNG and SVG: labelled axes, units, 95% intervals."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragweave.errors import MissingExtraError
from ragweave.evaluation.metrics import Interval
from ragweave.evaluation.report.summary import Column, Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe & Ito's palette: told apart with colour blindness too."""


_MANY = 12
"""Points from which on costs are shown on a logarithmic axis, and points are numbered."""


@dataclass(frozen=True)
class Line:
    """One line of a study's plot."""

    name: str
    x: Sequence[float]
    y: Sequence[Interval]


@dataclass(frozen=True)
class Point:
    """One method of a plot of score against cost."""

    name: str
    x: float
    y: Interval


TOKENS = "tokens a question, in and out (mean)"
"""What stands at the axis of a plot against tokens."""


def can_plot() -> bool:
    """Say whether matplotlib is there."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_experiment(folder: Path, experiment: Experiment) -> list[Path]:
    """Draw an experiment, each primary score: by method, and against tokens.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    return [
        plot
        for score in experiment.primaries
        for draw in (_scores, _tokens)
        for plot in draw(folder, experiment, score)
    ]


def plot_lines(folder: Path, name: str, lines: Sequence[Line], x: str, y: str) -> list[Path]:
    """Draw a study over a number: a line with its intervals for each method."""
    figure, axes = _figure()
    for line, colour in zip(lines, _colours(len(lines)), strict=True):
        means = [one.mean * 100 for one in line.y]
        bars = _bars(line.y)
        axes.errorbar(
            line.x, means, yerr=bars, label=line.name, color=colour, marker="o", capsize=3
        )
    axes.set_xticks(sorted({value for line in lines for value in line.x}))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    figure.legend(loc="outside right upper", frameon=False)
    return _saved(figure, folder, name)


def plot_points(folder: Path, name: str, points: Sequence[Point], x: str, y: str) -> list[Path]:
    """Draw a point with its interval for each method, named in the margin.

    Where there are many, the x axis is logarithmic, and numbers, by score, say which is which.
    """
    many = len(points) >= _MANY
    figure, axes = _figure(height=max(3.6, 0.8 + _LINE * len(points)))
    named = []
    for point, colour in zip(points, _colours(len(points)), strict=True):
        mean = point.y.mean * 100
        axes.errorbar(
            [point.x],
            [mean],
            yerr=_bars([point.y]),
            marker="o",
            color=colour,
            capsize=0 if many else 3,
            elinewidth=0.4 if many else None,
            markersize=5 if many else None,
        )
        named.append(_Named(point.x, mean, point.name, colour))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if many:
        axes.set_xscale("log")
        _number_points(axes, named)
    else:
        axes.set_xlim(left=0)
        _name_points(axes, named)
    return _saved(figure, folder, name)


def plot_bars(
    folder: Path, name: str, labels: Sequence[str], values: Sequence[Interval], y: str
) -> list[Path]:
    """Draw a bar with its interval for each label."""
    figure, axes = _figure(height=1.2 + 0.4 * len(labels))
    means = [one.mean * 100 for one in values]
    places = list(range(len(labels)))[::-1]
    axes.barh(places, means, xerr=_bars(values), color=_COLOURS[0], height=0.6, capsize=3)
    axes.set_yticks(places, labels)
    axes.set_xlabel(y)
    if all(one.low >= 0 for one in values):
        axes.set_xlim(left=0)
    return _saved(figure, folder, name)


def _scores(folder: Path, experiment: Experiment, score: str) -> list[Path]:
    found = [
        (column.label, column.scores[score].interval())
        for column in experiment.columns.values()
        if score in column.scores
    ]
    if not found:
        return []
    label = f"{experiment.metric(score).label} (%), 95% interval"
    labels, values = [one for one, _ in found], [one for _, one in found]
    return plot_bars(folder, f"{experiment.name}-{_file(score)}", labels, values, label)


def _tokens(folder: Path, experiment: Experiment, score: str) -> list[Path]:
    columns = [one for one in experiment.columns.values() if score in one.scores]
    if len(columns) < 2:
        return []
    points = [
        Point(one.label, _spent(one, one.scores[score].index), one.scores[score].interval())
        for one in columns
    ]
    label = f"{experiment.metric(score).label} (%), 95% interval"
    which = "" if [score] == experiment.primaries else f"-{_file(score)}"
    return plot_points(folder, f"{experiment.name}-tokens{which}", points, TOKENS, label)


def _spent(column: Column, asked: Collection[int]) -> float:
    """Return the tokens, in and out, that a question took of those asked."""
    wanted, costs = set(asked), (column.costs["input_tokens"], column.costs["output_tokens"])
    spent = (
        value
        for one in costs
        for at, value in zip(one.index, one.values, strict=True)
        if at in wanted
    )
    return sum(spent) / len(wanted)


_LINE = 0.2
"""Room for a line of text, in inches."""


class _Named(NamedTuple):
    x: float
    y: float
    name: str
    colour: str


def _name_points(axes: Axes, points: Sequence[_Named]) -> None:
    """Name points in the right margin, each with a line to it: names never meet, however many."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    gap = _LINE / (axes.get_figure().get_figheight() - 0.8)  # type: ignore[union-attr]
    places: list[float] = []
    ordered = sorted(points, key=lambda point: (point.y, -point.x))
    for point in ordered:
        lowest = places[-1] + gap if places else 0.0
        places.append(max(lowest, (point.y - low) / (high - low)))
    for at in reversed(range(len(places))):
        highest = places[at + 1] - gap if at + 1 < len(places) else 1.0
        places[at] = min(highest, places[at])
    for point, place in zip(ordered, places, strict=True):
        axes.annotate(
            point.name,
            (point.x, point.y),
            xytext=(1.03, place),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            arrowprops={
                "arrowstyle": "-",
                "color": point.colour,
                "lw": 0.8,
                "shrinkA": 1,
                "shrinkB": 4,
            },
        )


def _number_points(axes: Axes, points: Sequence[_Named]) -> None:
    """Number points by score, the highest first, and list the names in the right margin."""
    ordered = sorted(points, key=lambda point: (-point.y, point.x))
    height = axes.get_figure().get_figheight() - 0.8  # type: ignore[union-attr]
    axes.set_ylim(*axes.get_ylim())
    axes.set_xlim(*axes.get_xlim())
    inner = axes.transScale + axes.transLimits
    size = (4.5 * _INCH, height * _INCH)
    places = [inner.transform((point.x, point.y)) * size for point in ordered]
    numbered = zip(ordered, beside([(x, y) for x, y in places]), strict=True)
    for number, (point, offset) in enumerate(numbered, 1):
        axes.annotate(
            str(number),
            (point.x, point.y),
            xytext=offset,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8,
            color=point.colour,
            fontweight="bold",
            bbox={"boxstyle": "square,pad=0.05", "fc": "white", "ec": "none", "alpha": 0.8},
        )
        axes.annotate(
            f"{number}  {point.name}",
            (1.03, 1 - (number - 1) * _LINE / height),
            xycoords="axes fraction",
            va="center",
            fontsize=9,
            color=point.colour,
        )


_INCH = 72
"""Typographic points."""
LABEL = (12.0, 9.0)
"""Width and height of a number of two digits, in typographic points."""
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def beside(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return where a label stands beside each point, from the point: the nearest free place.

    Args:
        points: Places in typographic points, x and y.

    Returns:
        Offsets of the labels' middles; no label meets another one or a point, as long as one of
        the 48 places around a point is free.
    """
    width, height = LABEL
    taken: list[tuple[float, float]] = []
    offsets: list[tuple[float, float]] = []
    for x, y in points:
        around = [
            (dx * (0.8 + step / 2) * width, dy * (0.9 + step / 2) * height)
            for step in range(6)
            for dx, dy in _DIRECTIONS
        ]
        free = (
            (dx, dy)
            for dx, dy in around
            if not any(_meet((x + dx, y + dy), one, width, height) for one in taken)
            and not any(_meet((x + dx, y + dy), one, width * 0.7, height * 0.8) for one in points)
        )
        offset = next(free, around[0])
        offsets.append(offset)
        taken.append((x + offset[0], y + offset[1]))
    return offsets


def _meet(
    one: tuple[float, float], other: tuple[float, float], width: float, height: float
) -> bool:
    return abs(one[0] - other[0]) < width and abs(one[1] - other[1]) < height


def _figure(height: float = 3.6) -> tuple[Figure, Axes]:
    if not can_plot():
        raise MissingExtraError("Plotting", "eval")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="both", alpha=0.25)
    axes.set_axisbelow(True)
    return figure, axes


def _bars(values: Sequence[Interval]) -> Any:
    return [
        [(one.mean - one.low) * 100 for one in values],
        [(one.high - one.mean) * 100 for one in values],
    ]


def _colours(n: int) -> list[str]:
    return [_COLOURS[index % len(_COLOURS)] for index in range(n)]


def _saved(figure: Figure, folder: Path, name: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    figure.savefig(paths[0], dpi=150, metadata={"Software": None})
    figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _file(name: str) -> str:
    return name.replace("@", "_at_")
