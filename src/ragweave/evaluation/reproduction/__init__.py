"""Reproducing the papers' tables: plan and cost, durable runs, our values beside the printed ones."""

from ragweave.evaluation.reproduction.comparison import Cell, ComparedRow, compare_table
from ragweave.evaluation.reproduction.estimate import HOW, Estimate, estimate
from ragweave.evaluation.reproduction.outputs import Scrubber, publish
from ragweave.evaluation.reproduction.pages import (
    about_lines,
    comparison_tables,
    difference_tables,
    write_pages,
)
from ragweave.evaluation.reproduction.runs import (
    PlannedRun,
    Request,
    check_request,
    missing_of,
    runs_of_table,
)

__all__ = [
    # planning
    "PlannedRun",
    "Request",
    "check_request",
    "missing_of",
    "runs_of_table",
    "HOW",
    "Estimate",
    "estimate",
    # results
    "Cell",
    "ComparedRow",
    "compare_table",
    "about_lines",
    "comparison_tables",
    "difference_tables",
    "write_pages",
    # outputs
    "Scrubber",
    "publish",
]
