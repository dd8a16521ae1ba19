"""`ragweave train`: labelled rows into a trained part that any graph takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from ragweave.errors import ModelError, UsageError

if TYPE_CHECKING:
    from ragweave.tools.parts import ModelCard
    from ragweave.training.train import Plan

_SHOWN = 3


def train(
    role: Annotated[str, typer.Argument(help="judge, rewriter, filter or generator.")],
    rows: Annotated[Path, typer.Argument(help="Training rows, as `ragweave label` writes them.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the part.")],
    kind: Annotated[
        str | None,
        typer.Option(
            help="linear, span-encoder, cross-encoder, seq2seq or causal-lora (the smallest)."
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="Model to begin from: minilm, a local path, a hub name.")
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option("--held-out", help="Rows to measure on; else a tenth of the questions."),
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Times each row is seen.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Highest learning rate.")] = None,
    batch: Annotated[int | None, typer.Option(help="Rows a step.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of split, order and weights.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value of any other setting; repeatable."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished training in --out.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show rows exactly as the model will see them.")
    ] = False,
    show: Annotated[int, typer.Option(help="Rows that --dry-run shows.")] = _SHOWN,
) -> None:
    """Train a judge, rewriter, filter or generator. Ctrl-C saves; --resume goes on."""
    from ragweave.cli.training_bar import TrainingBar, saving_on_interrupt
    from ragweave.tools.parts import PartRole
    from ragweave.training.train import plan_training, train_part

    if role not in get_args(PartRole):
        raise UsageError(f"unknown role {role!r}; roles: {', '.join(get_args(PartRole))}")
    named = {
        "base": base,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch": batch,
        "seed": seed,
    }
    plan = plan_training(
        cast("PartRole", role),
        rows,
        out,
        kind=kind,
        held_out=held_out,
        settings={**_settings(setting or []), **_given(named)},
    )
    try:
        if dry_run:
            _show(plan, show)
            return
        with TrainingBar() as watch, saving_on_interrupt(watch):
            card = train_part(plan, resume=resume, watch=watch)
    except ModelError as fault:
        raise UsageError(str(fault)) from fault
    _tell(plan, card)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _settings(texts: list[str]) -> dict[str, Any]:
    from ragweave.graphs.option_texts import read_option

    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set takes name=value, not {text!r}")
        values[name.strip().replace("-", "_")] = read_option(value, None)
    return values


def _show(plan: Plan, limit: int) -> None:
    """Print rows as the model sees them; results, so on standard output and unwrapped."""
    from ragweave.cli.screen import plain

    for shown in plan.show(limit):
        typer.echo(f"--- input\n{plain(shown.input)}\n--- target\n{plain(shown.target)}")
    sizes = f"{len(plan.rows.train)} rows to train on, {len(plan.rows.held_out)} held out"
    typer.echo(f"{sizes}; {plan.kind} from {plan.settings.base}; nothing was trained", err=True)


def _tell(plan: Plan, card: ModelCard) -> None:
    typer.echo(f"{plan.folder}: a {card.role} ({card.kind}) from {card.base}")
    for name, value in card.metrics.items():
        if (shown := _metric(value)) is not None:
            typer.echo(f"  {name.replace('_', ' ')}: {shown}")
    for what in ("inputs", "targets"):
        if cut := card.data.get(f"{what}_cut"):
            typer.echo(
                f"warning: {cut} {what} were too long, and were cut "
                f"(--set max_{'output' if what == 'targets' else 'input'}=…)",
                err=True,
            )
    method = "slimplm" if card.role in ("judge", "rewriter") else "filco"
    typer.echo(
        f"use it: ragweave ask … --method {method} --option {card.role}={plan.folder}", err=True
    )


def _metric(value: object) -> str | None:
    """Write a measure; what is nested deeper stands in the card alone."""
    if isinstance(value, dict) and {"mean", "low", "high"} <= value.keys():
        return f"{value['mean']:.3f} (95% {value['low']:.3f} to {value['high']:.3f})"
    if isinstance(value, dict | list):
        return None
    return f"{value:.4g}" if isinstance(value, float) else str(value)
