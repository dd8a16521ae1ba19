"""`ragweave part`: look into a trained part, make other forms of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragweave.errors import UsageError

app = typer.Typer(
    help="Look into a trained part; make other forms of it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(help="The part's folder.")]


@app.callback()
def root() -> None:
    """Look into a trained part; make other forms of it."""


@app.command("show")
def show(folder: Folder) -> None:
    """Print the part's model card."""
    from ragweave.cli.screen import plain
    from ragweave.tools.parts import read_card
    from ragweave.training.readme import readme

    typer.echo(plain(readme(read_card(folder))), nl=False)


@app.command("onnx")
def onnx(folder: Folder) -> None:
    """Add an ONNX form to a small part: faster on a CPU, and used from then on."""
    from ragweave.training.small.onnx import export_onnx

    _of_kind(folder, "cross-encoder")
    typer.echo(f"{export_onnx(folder)}: written, and checked against the part itself")


@app.command("merge")
def merge(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", help="Folder of the whole model.")],
) -> None:
    """Merge a causal-lora part with its base into one model; print how it becomes a GGUF."""
    from ragweave.training.large.export import gguf_commands
    from ragweave.training.large.export import merge as merge_into

    _of_kind(folder, "causal-lora")
    merge_into(folder, out)
    typer.echo(f"{out}: the merged model. For llama.cpp:")
    for line in gguf_commands(out):
        typer.echo(f"  {line}")


def _of_kind(folder: Path, *kinds: str) -> None:
    from ragweave.tools.parts import read_card

    kind = read_card(folder).kind
    if kind not in kinds:
        raise UsageError(f"{folder}: is a {kind} part; this is for {' and '.join(kinds)}")
