"""`ragweave train` and `ragweave part`: train a part from labelled rows, inspect and convert it.

Training shows its progress on a terminal; Ctrl-C saves a checkpoint before it stops.
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

from ragweave.cli.screen import progress_bar
from ragweave.errors import ModelError, UsageError
from ragweave.tools.text.plain import plain

if TYPE_CHECKING:
    from ragweave.trained import ModelCard
    from ragweave.training.job import Watch
    from ragweave.training.train import Plan


@contextmanager
def _training_bar() -> Iterator[Watch]:
    """Yield a watch that shows steps, loss and time left; in a pipe, only what it is given to say."""
    from ragweave.training.job import Watch

    bar = progress_bar("loss {task.fields[loss]}")
    task = bar.add_task("training", total=None, visible=False, loss="–")

    class Bar(Watch):
        def step(self, done: int, total: int, loss: float | None) -> None:
            bar.update(task, completed=done, total=total, visible=True)
            if loss is not None:
                bar.update(task, loss=f"{loss:.4f}")

        def say(self, line: str) -> None:
            bar.console.print(plain(line), markup=False)

    with bar:
        yield Bar()


@contextmanager
def _saving_on_interrupt(watch: Watch) -> Iterator[None]:
    """Make the first Ctrl-C save a checkpoint and stop, and the second one stop at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        if watch.stop_wanted:
            signal.signal(signal.SIGINT, before)
            raise KeyboardInterrupt
        watch.stop_wanted = True
        watch.say("stopping after this step, with a checkpoint (Ctrl-C again to stop at once)")

    signal.signal(signal.SIGINT, ask_to_stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


app = typer.Typer(
    help="Inspect a trained part, or convert it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(help="The part's folder.")]


@app.callback()
def root() -> None:
    """Inspect a trained part, or convert it."""


@app.command("show")
def show(folder: Folder) -> None:
    """Print the part's model card."""
    from ragweave.trained import read_card
    from ragweave.training.folder import readme

    typer.echo(plain(readme(read_card(folder))), nl=False)


@app.command("onnx")
def onnx(folder: Folder) -> None:
    """Add an ONNX form to a cross-encoder part: faster on a CPU, and used from then on."""
    from ragweave.training.encoders.onnx import export_onnx

    _of_kind(folder, "cross-encoder")
    typer.echo(f"wrote {export_onnx(folder)}; its outputs agree with the part's")


@app.command("merge")
def merge(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", help="Folder for the merged model.")],
) -> None:
    """Merge a causal-lora part with its base model, and print how to make a GGUF of it."""
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
        raise UsageError(
            f"{folder} is a {kind} part; this command takes {' or '.join(kinds)} parts"
        )


_SHOWN = 3


def train(
    role: Annotated[str, typer.Argument(help="judge, rewriter, filter, generator or router.")],
    rows: Annotated[Path, typer.Argument(help="Training rows, as written by `ragweave label`.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the part.")],
    kind: Annotated[
        str | None,
        typer.Option(
            help="linear, linear-router, span-encoder, cross-encoder, seq2seq or causal-lora (default: the role's "
            "smallest)."
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="Model to start from: minilm, a local path or a hub name.")
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option("--held-out", help="Rows to evaluate on (default: a tenth of the questions)."),
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the rows.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    batch: Annotated[int | None, typer.Option(help="Rows per step.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the split, the order and the weights.")
    ] = None,
    kb: Annotated[
        str | None,
        typer.Option(
            "--kb",
            help="For a router: knowledge base that it takes a first look at (BM25) before it "
            "chooses.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value of any other setting. Repeatable."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the unfinished training in --out.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show rows exactly as the model will see them, and train nothing."
        ),
    ] = False,
    show: Annotated[int, typer.Option(help="Number of rows that --dry-run shows.")] = _SHOWN,
) -> None:
    """Train a judge, rewriter, filter, generator or router. Ctrl-C saves; --resume continues."""
    from ragweave.trained import PartRole
    from ragweave.training.train import plan_training, train_part

    if role not in get_args(PartRole):
        raise UsageError(f"unknown role {role!r}; roles: {', '.join(get_args(PartRole))}")
    if kb is not None and role != "router":
        raise UsageError("--kb is what a router takes a first look at: leave it out")
    named = {
        "look": kb,
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
        with _training_bar() as watch, _saving_on_interrupt(watch):
            card = train_part(plan, resume=resume, watch=watch)
    except ModelError as error:
        raise UsageError(str(error)) from error
    _report(plan, card)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _settings(texts: list[str]) -> dict[str, Any]:
    from ragweave.graphs.method import read_option

    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set must be name=value, not {text!r}")
        values[name.strip().replace("-", "_")] = read_option(value, None)
    return values


def _show(plan: Plan, limit: int) -> None:
    """Print rows as the model sees them, on standard output and unwrapped."""
    for shown in plan.preview(limit):
        typer.echo(f"--- input\n{plain(shown.input)}\n--- target\n{plain(shown.target)}")
    sizes = f"{len(plan.rows.train)} rows to train on, {len(plan.rows.held_out)} held out"
    typer.echo(f"{sizes}; {plan.kind} from {plan.settings.base}; nothing was trained", err=True)


def _report(plan: Plan, card: ModelCard) -> None:
    typer.echo(f"{plan.folder}: a {card.role} ({card.kind}) from {card.base}")
    for name, value in card.metrics.items():
        if (shown := _metric(value)) is not None:
            typer.echo(f"  {name.replace('_', ' ')}: {shown}")
    for what in ("inputs", "targets"):
        if cut := card.data.get(f"{what}_cut"):
            typer.echo(
                f"warning: {cut} {what} were too long and were cut "
                f"(--set max_{'output' if what == 'targets' else 'input'}=…)",
                err=True,
            )
    if card.role == "router":
        own = card.settings.get("drafts", True) is False
        method = "adaptive_rag" if own else "adaptive --option route=classifier"
        use = f"--method {method} --option router={plan.folder}"
        typer.echo(f"use it: ragweave ask … {use}", err=True)
        return
    method = "slimplm" if card.role in ("judge", "rewriter") else "filco"
    typer.echo(
        f"use it: ragweave ask … --method {method} --option {card.role}={plan.folder}", err=True
    )


def _metric(value: object) -> str | None:
    """Return a metric as text; None for nested values, which only the card shows."""
    if isinstance(value, dict) and {"mean", "low", "high"} <= value.keys():
        return f"{value['mean']:.3f} (95% {value['low']:.3f} to {value['high']:.3f})"
    if isinstance(value, dict | list):
        return None
    return f"{value:.4g}" if isinstance(value, float) else str(value)
