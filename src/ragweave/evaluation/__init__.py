"""Evaluation: durable runs of several methods over a data set, metrics, reports, the papers' tables, labels."""

from ragweave.evaluation.evaluate import EVAL_ROLES, EvalSettings, evaluate
from ragweave.evaluation.layout import write
from ragweave.evaluation.metrics import METRICS, Metric, citation_metrics, given
from ragweave.evaluation.report import Report, read_report
from ragweave.evaluation.run import Run, Summary, System
from ragweave.tools.models.budget import Limits

__all__ = [
    "METRICS",
    "EVAL_ROLES",
    "Limits",
    "Metric",
    "Report",
    "Run",
    "EvalSettings",
    "Summary",
    "System",
    "citation_metrics",
    "evaluate",
    "given",
    "read_report",
    "write",
]
