"""`ragweave trace`: a recorded run as a tree, or as one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def trace(
    run: Annotated[Path, typer.Argument(help="A run recorded by `ragweave ask --trace-file`.")],
    html: Annotated[
        Path | None,
        typer.Option(help="Write one page: the graph, the path taken, prompts, replies, passages."),
    ] = None,
) -> None:
    """Show a recorded run."""
    from ragweave.cli.record import read_run
    from ragweave.cli.screen import console, write_file
    from ragweave.cli.show import tree
    from ragweave.cli.trace_page import trace_page

    record = read_run(run)
    if html is None:
        console().print(tree(record["trace"]))
        return
    write_file(html, trace_page(record))
    typer.echo(f"wrote {html}", err=True)
