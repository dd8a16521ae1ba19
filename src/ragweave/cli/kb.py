"""`ragweave kb`: look after a knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Look after a knowledge base.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def root() -> None:
    """Look after a knowledge base."""


@app.command("check")
def check(
    folder: Annotated[Path, typer.Argument(help="The knowledge base.")],
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend it: make both indexes anew from its passages.")
    ] = False,
) -> None:
    """Verify the counts, hashes and both indexes: a line for each finding, and exit code 1."""
    from ragweave.cli.screen import marked_up, progress_bar
    from ragweave.tools.knowledge import checking

    found = checking.check(folder)
    for one in found:
        typer.echo(marked_up(one.text))
    if repair and found:
        with progress_bar():
            checking.repair(folder, found)
        found = checking.check(folder)
        for one in found:
            typer.echo(f"still: {marked_up(one.text)}")
        if not found:
            typer.echo(f"{folder}: mended")
    elif not found:
        typer.echo(f"{folder}: all is well")
    if found:
        raise typer.Exit(1)
