"""`ragweave report`: a run, its shards together, or several runs, as tables and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(help="A run's folder; several are compared.")],
    main: Annotated[str, typer.Option(help="The metric that systems are compared by.")] = "",
    langsmith: Annotated[
        bool, typer.Option("--langsmith", help="Write a run on langsmith:NAME to LangSmith, as experiments.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write.  [default: the first run]")] = None,
) -> None:
    """Show a run as a table, and write report.md, report.csv and report.html."""
    from ragweave.evaluation.report import read_report, show, write

    found = read_report(runs, main)
    show(found)
    folder = out or runs[0]
    folder.mkdir(parents=True, exist_ok=True)
    typer.echo(f"wrote {', '.join(map(str, write(found, folder)))}", err=True)
    if langsmith:
        from ragweave.evaluation.langsmith import write_experiments

        names = [name for run in runs for name in write_experiments(run)]
        typer.echo(f"wrote to LangSmith: {', '.join(names)}", err=True)
