"""Reports: tables with intervals, plots, the papers' values beside ours, a page a question."""

from ragweave.evaluation.report.differences import between_table
from ragweave.evaluation.report.plots import Line, can_plot, plot_bars, plot_lines
from ragweave.evaluation.report.summary import Column, Experiment, read_runs
from ragweave.evaluation.report.table import Table
from ragweave.evaluation.report.tables import tables_of
from ragweave.evaluation.report.write import write_report

__all__ = [
    "Column",
    "Experiment",
    "Line",
    "Table",
    "between_table",
    "can_plot",
    "plot_bars",
    "plot_lines",
    "read_runs",
    "tables_of",
    "write_report",
]
