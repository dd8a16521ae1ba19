"""`ragweave report`: what runs say, as tables, files and plots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(help="Directories of runs; shards are merged.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to write (the first run's `report`).")
    ] = None,
    pages: Annotated[int, typer.Option(help="Pages of single questions, at most.")] = 200,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw plots.")] = True,
) -> None:
    """Show runs as tables; write report.md, report.html, results.csv and plots."""
    from ragweave.cli.eval_run import show_tables
    from ragweave.cli.screen import progress_console
    from ragweave.evaluation.report import (
        between_table,
        can_plot,
        read_runs,
        tables_of,
        write_report,
    )

    experiments = read_runs(runs)
    for experiment in experiments:
        show_tables(tables_of(experiment))
    between = between_table(experiments)
    show_tables([between] if between is not None else [])
    folder = out or runs[0] / "report"
    files = write_report(folder, experiments, pages=pages, plots=plots)
    remarks = progress_console()
    listed = ", ".join(path.relative_to(folder).as_posix() for path in files)
    remarks.print(f"written to {folder}: {listed}", markup=False, soft_wrap=True)
    if plots and not can_plot():
        remarks.print('no plots: pip install "ragweave[eval]"', markup=False)
