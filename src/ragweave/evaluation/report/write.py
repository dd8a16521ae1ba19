"""Writing a report's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragweave.errors import UsageError
from ragweave.evaluation.report.html import question_page, write_html
from ragweave.evaluation.report.markdown import write_csv, write_markdown
from ragweave.evaluation.report.plots import can_plot, plot_experiment
from ragweave.evaluation.report.summary import Experiment, records
from ragweave.evaluation.runs.outcome import Record
from ragweave.tools.files import write_atomic


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
            path
            for experiment in experiments
            if plots and can_plot()
            for path in plot_experiment(folder / "plots", experiment)
        ]
        listed = [page for experiment in experiments for page in _pages(folder, experiment, pages)]
        files = [folder / "report.md", folder / "report.html", folder / "results.csv"]
        write_markdown(files[0], experiments, drawn)
        write_html(files[1], experiments, drawn, listed)
        write_csv(files[2], experiments)
    except OSError as fault:
        raise UsageError(f"{folder}: cannot be written: {fault}") from fault
    return [*files, *drawn]


def _pages(folder: Path, experiment: Experiment, most: int) -> list[tuple[str, str, str]]:
    """Write the pages of the experiment's first questions; hold only their records."""
    held: dict[int, list[Record]] = {}
    for record in records(experiment):
        held.setdefault(record["at"], []).append(record)
        if len(held) > most:
            del held[max(held)]
    found = []
    order = {label: place for place, label in enumerate(experiment.columns)}
    for at in sorted(held):
        listed = sorted(held[at], key=lambda record: order[record["system"]])
        address = f"questions/{experiment.name}-{at}.html"
        path = folder / address
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, question_page(listed), sync=False)
        found.append((address, listed[0]["question"], _mark(listed, experiment)))
    return found


def _mark(listed: Sequence[Record], experiment: Experiment) -> str:
    """Say how each system did on a question, in a word."""
    score = experiment.primary
    told = []
    for record in listed:
        value = record["scores"].get(score)
        shown = "failed" if record["error"] else "–" if value is None else f"{value * 100:.0f}"
        told.append(f"{record['system']} {shown}")
    return ", ".join(told)
