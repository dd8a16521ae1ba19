"""What `eval`, `reproduce` and `label` share: models and prices by role, `--ray [ADDRESS]`, how a run ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ragweave.errors import UsageError

if TYPE_CHECKING:
    from ragweave.evaluation.run import Summary

Model = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="[ROLE=]SPEC",
        help="openai:NAME, llamacpp:FILE, PROVIDER:NAME, or a trained component's folder. Repeatable.",
    ),
]
Price = Annotated[
    list[str] | None, typer.Option("--price", help="[ROLE=]INPUT,OUTPUT in US dollars per million tokens. Repeatable.")
]
Kb = Annotated[str, typer.Option("--kb", metavar="KB", help="Knowledge base to search: a folder or an address.")]
Limit = Annotated[int | None, typer.Option(help="Use only the first N questions.")]
Concurrency = Annotated[int, typer.Option(help="Questions in flight at once.")]
MaxCalls = Annotated[int | None, typer.Option(help="Stop the run after this many model calls.")]
MaxCost = Annotated[float | None, typer.Option(help="Stop the run after this many US dollars.")]
Shard = Annotated[str, typer.Option(help="I/N: use every N-th question, starting with the I-th.")]
Cache = Annotated[Path | None, typer.Option(help="File of replies to share among runs.")]
Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="[ADDRESS]", help="Run shards on Ray: auto, HOST:PORT; none: this machine."),
]
_ADDRESS = re.compile(r"auto|local|(?:ray://)?[\w.\-\[\]]+:\d+")


class RayCommand(TyperCommand):
    """A command with `--ray [ADDRESS]`: typer's own options cannot go without their value."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put in the address of this machine if none follows."""
        if "--ray" in args:
            at = args.index("--ray") + 1
            if at == len(args) or not _ADDRESS.fullmatch(args[at]):
                args = [*args[:at], "local", *args[at:]]
        return super().parse_args(ctx, args)


def prices_of(texts: Iterable[str] | None) -> dict[str, tuple[float, float]]:
    """Return prices by role, with `*` for all others; raise `UsageError` for what is no pair of numbers."""
    found = {}
    for text in texts or ():
        role, equals, pair = text.rpartition("=")
        try:
            read, written = map(float, pair.split(","))
        except ValueError as error:
            raise UsageError(f"--price is INPUT,OUTPUT, such as 0.15,0.60, not {pair!r}") from error
        found[role if equals else "*"] = (read, written)
    return found


def sharded(work: Callable[..., Summary], folder: Path, *, ray: str | None, shard: str, **budget: Any) -> Summary:
    """Do work here, or as shards on a cluster if `ray` is its address."""
    if ray is None:
        return work(shard=shard, **budget)
    from ragweave.evaluation.on_ray import run_on_ray

    if shard:
        raise UsageError("--ray makes the shards itself: omit --shard")
    return run_on_ray(work, folder, address=ray, **budget)


def finish(summary: Summary, folder: Path) -> None:
    """Show a run's report and write its files, say what was paid, and exit with the run's code."""
    from ragweave.evaluation.folder import read_results
    from ragweave.evaluation.report import read_report, show, write

    if next(read_results(folder), None) is not None:
        report = read_report(folder)
        show(report)
        write(report, folder)
    dollars = f", ${summary.dollars:.4f}" if summary.dollars else ""
    done = f"{summary.answered} answered" + (f", {summary.skipped} before" if summary.skipped else "")
    typer.echo(f"{folder}: {done}, {summary.failed} failed; {summary.calls} calls{dollars}", err=True)
    end(summary)


def end(summary: Summary) -> None:
    """Say why a run ended early, and exit with its code."""
    if summary.stopped:
        typer.echo(f"stopped: {summary.stopped}", err=True)
    raise typer.Exit(summary.exit_code)
