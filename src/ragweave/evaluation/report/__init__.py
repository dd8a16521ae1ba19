"""Reports: tables with intervals, plots, published results next to ours, a page a question."""

from ragweave.evaluation.report.pages import write_report
from ragweave.evaluation.report.pairs import between_table
from ragweave.evaluation.report.plots import (
    TOKENS,
    Line,
    Point,
    can_plot,
    plot_bars,
    plot_lines,
    plot_points,
)
from ragweave.evaluation.report.summary import Column, Experiment, Table, read_runs
from ragweave.evaluation.report.tables import tables_of

__all__ = [
    "Column",
    "Experiment",
    "Line",
    "Point",
    "TOKENS",
    "Table",
    "between_table",
    "can_plot",
    "plot_bars",
    "plot_lines",
    "plot_points",
    "read_runs",
    "tables_of",
    "write_report",
]
