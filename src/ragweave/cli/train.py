"""`ragweave train`: labelled rows in, the folder of a trained component out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ragweave.errors import UsageError
from ragweave.tools.text.plain import plain


def train(
    role: Annotated[str, typer.Argument(help="judge, rewriter, filter, generator or router.")],
    labels: Annotated[Path, typer.Argument(help="The folder that `ragweave label` made, or a file of rows.")],
    out: Annotated[Path, typer.Argument(help="Folder of the component.")],
    kind: Annotated[
        str | None,
        typer.Option(
            help="linear (judge, router), span-encoder (filter), cross-encoder (judge, filter), seq2seq or causal-lora "
            "(all but router); the first that plays the role if none is given."
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="Model to start from: minilm (packaged), a folder, or a downloaded hub name.")
    ] = None,
    held_out: Annotated[
        Path | None, typer.Option(help="Rows to measure on; else a tenth of the questions of LABELS.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value of another setting, such as epochs=2. Repeatable."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished training in OUT.")] = False,
) -> None:
    """Train a judge, rewriter, filter, generator or router. Ctrl-C saves a checkpoint; --resume goes on."""
    from ragweave.training import train as train_component

    settings = _settings(setting or []) | ({"base": base} if base else {})
    given: dict[str, Any] = {"kind": kind, "held_out": held_out, "resume": resume, "settings": settings}
    card = train_component(cast("Any", role), labels, out, **given)
    typer.echo(plain(f"{out}: a {card.role} ({card.kind}) from {card.base}"))
    for name, value in card.metrics.items():
        typer.echo(f"  {name.replace('_', ' ')}: {value:.3f}")
    typer.echo(plain(f"use it: ragweave ask … {_USE[card.role].format(out=out)}"), err=True)


_USE = {
    "judge": "--method slimplm --model judge={out}/",
    "rewriter": "--method slimplm --model rewrite={out}/",
    "filter": "--method filco --option filter={out}/",
    "generator": "--method filco --model {out}/",
    "router": "--method slimplm --option route=classifier --model router={out}/",
}


def _settings(texts: list[str]) -> dict[str, str]:
    named = [text.partition("=") for text in texts]
    if wrong := next((text for text, (_, equals, _) in zip(texts, named, strict=True) if not equals), None):
        raise UsageError(f"--set must be name=value, not {wrong!r}")
    return {name.strip().replace("-", "_"): value for name, _, value in named}
