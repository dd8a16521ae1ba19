"""`ragweave report`: a run, its shards together, or several runs, as tables and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(help="A run's folder; several are compared.")],
    main: Annotated[str, typer.Option(help="The metric that systems are compared by.")] = "",
    out: Annotated[Path | None, typer.Option(help="Where to write.  [default: the first run]")] = None,
) -> None:
    """Show a run as a table, and write report.md, report.csv and report.html."""
    from ragweave.evaluation.report import read_report, show, write

    found = read_report(runs, main)
    show(found)
    folder = out or runs[0]
    folder.mkdir(parents=True, exist_ok=True)
    typer.echo(f"wrote {', '.join(map(str, write(found, folder)))}", err=True)
