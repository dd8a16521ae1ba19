"""Durable runs: questions × systems as one stream that can be stopped and resumed."""

from ragweave.evaluation.runs.cluster import evaluate_on_ray
from ragweave.evaluation.runs.directory import (
    RunDirectory,
    claim_directory,
    record_moved_servers,
    records_of,
)
from ragweave.evaluation.runs.plan import plan
from ragweave.evaluation.runs.progress import Progress, RunConfig
from ragweave.evaluation.runs.recorder import RecordingError
from ragweave.evaluation.runs.run import RunResult, evaluate
from ragweave.evaluation.runs.settings import RunSettings, System, parse_systems, system
from ragweave.evaluation.runs.workers import WorkerError, evaluate_in_workers

__all__ = [
    "RunResult",
    "RecordingError",
    "RunDirectory",
    "RunSettings",
    "RunConfig",
    "System",
    "Progress",
    "WorkerError",
    "claim_directory",
    "evaluate",
    "evaluate_in_workers",
    "evaluate_on_ray",
    "parse_systems",
    "plan",
    "record_moved_servers",
    "records_of",
    "system",
]
