"""`ragweave label`: training data out of labelled questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Make training data from labelled questions.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def root() -> None:
    """Make training data from labelled questions."""


@app.command("needed")
def needed(
    source: Annotated[
        Path,
        typer.Argument(help="JSON lines (.gz too) with question and needed, known, or a draft."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The training file to write.")],
    draft: Annotated[
        str | None,
        typer.Option(help="Field of the model's answer without retrieval; labels are made by it."),
    ] = None,
    gold: Annotated[str, typer.Option(help="Field of the gold answers.")] = "answers",
    theta: Annotated[
        float, typer.Option(help="Share of gold answers above which a draft counts as known.")
    ] = 0.5,
) -> None:
    """Label questions as needing retrieval or not, for skr_knn."""
    from ragweave.tools.training_questions import write_training

    done = write_training(source, out, draft=draft, gold=gold, theta=theta)
    typer.echo(f"{done.path}: {done.questions} questions, {done.needed} of them need retrieval")
    typer.echo(f"use it: ragweave ask … --method skr_knn --option training={done.path}", err=True)
