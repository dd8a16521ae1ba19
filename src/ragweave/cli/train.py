"""`ragweave train`: labelled rows into a trained part that any graph takes.

Progress of a training on a terminal, and Ctrl-C that saves before it stops.

`ragweave part`: look into a trained part, make other forms of it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from ragweave.cli.screen import plain, progress_bar
from ragweave.errors import ModelError, UsageError
from ragweave.training.job import Watch

if TYPE_CHECKING:
    from ragweave.trained import ModelCard
    from ragweave.training.train import Plan


class TrainingBar(Watch):
    """Shows steps, the loss and the time left; in a pipe only what is worth a line."""

    def __init__(self) -> None:
        """Set up the bar; it shows from the first step on."""
        super().__init__()
        self._bar = progress_bar("loss {task.fields[loss]}")
        self._task: Any = None

    def __enter__(self) -> TrainingBar:
        """Begin to show."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End showing."""
        self._bar.stop()

    def step(self, done: int, total: int, loss: float | None) -> None:
        """Move the bar."""
        if self._task is None:
            self._task = self._bar.add_task("training", total=total, loss="–")
        self._bar.update(self._task, completed=done, total=total)
        if loss is not None:
            self._bar.update(self._task, loss=f"{loss:.4f}")

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(plain(line), markup=False)


@contextmanager
def saving_on_interrupt(watch: Watch) -> Iterator[None]:
    """Let the first Ctrl-C ask for a checkpoint and a stop, the second stop at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        if watch.stop_wanted:
            signal.signal(signal.SIGINT, before)
            raise KeyboardInterrupt
        watch.stop_wanted = True
        watch.say("stopping after this step; a checkpoint is saved (Ctrl-C again: at once)")

    signal.signal(signal.SIGINT, ask_to_stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
    from ragweave.trained import read_card
    from ragweave.training.folder import readme

    typer.echo(plain(readme(read_card(folder))), nl=False)


@app.command("onnx")
def onnx(folder: Folder) -> None:
    """Add an ONNX form to a small part: faster on a CPU, and used from then on."""
    from ragweave.training.encoders.onnx import export_onnx

    _of_kind(folder, "cross-encoder")
    typer.echo(f"{export_onnx(folder)}: written, and checked against the part itself")


@app.command("merge")
def merge(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", help="Folder of the whole model.")],
) -> None:
    """Merge a causal-lora part with its base into one model; print how it becomes a GGUF."""
    from ragweave.training.writers.export import gguf_commands
    from ragweave.training.writers.export import merge as merge_into

    _of_kind(folder, "causal-lora")
    merge_into(folder, out)
    typer.echo(f"{out}: the merged model. For llama.cpp:")
    for line in gguf_commands(out):
        typer.echo(f"  {line}")


def _of_kind(folder: Path, *kinds: str) -> None:
    from ragweave.trained import read_card

    kind = read_card(folder).kind
    if kind not in kinds:
        raise UsageError(f"{folder}: is a {kind} part; this is for {' and '.join(kinds)}")


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
    from ragweave.trained import PartRole
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
    from ragweave.graphs.method import read_option

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
