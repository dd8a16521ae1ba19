"""What `eval`, `reproduce` and `label` share: models and prices by role, `--ray [ADDRESS]`, how a run ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from ragweave.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from ragweave.evaluation.run import Summary

Model = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="[ROLE=]SPEC, repeatable: openai:NAME, llamacpp:FILE, PROVIDER:NAME, a trained component's folder; "
        "without a role it answers.",
    ),
]
Option = Annotated[list[str] | None, typer.Option("--option", "-o", help="NAME=VALUE, for each method that has it.")]
Price = Annotated[
    list[str] | None, typer.Option("--price", help="[ROLE=]READ,WRITTEN in US dollars a million tokens; repeatable.")
]
Kb = Annotated[str, typer.Option("--kb", metavar="KB", help="Knowledge base to search: a folder or an address.")]
Limit = Annotated[int | None, typer.Option(help="Only the first N questions.")]
Concurrency = Annotated[int, typer.Option(help="Questions in flight at once.")]
MaxCalls = Annotated[int | None, typer.Option(help="Most model calls of the whole run.")]
MaxCost = Annotated[float | None, typer.Option(help="Most US dollars of the whole run.")]
Shard = Annotated[str, typer.Option(help="I/N: every N-th question, from the I-th on.")]
Cache = Annotated[Path | None, typer.Option(help="File of replies that several runs share.")]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray", metavar="[ADDRESS]", help="Run shards on a Ray cluster: auto, HOST:PORT; no address: this machine."
    ),
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


def models_of(texts: Iterable[str] | None, roles: Sequence[str], default: str = "answer") -> dict[str, str]:
    """Return model specs by role.

    Args:
        texts: `[ROLE=]SPEC`.
        roles: The roles that there are.
        default: The role of a spec that names none.

    Raises:
        UsageError: There is no such role, a role is given twice, or a spec is empty.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        role, equals, spec = text.partition("=")
        named = bool(equals) and re.fullmatch(r"[a-z_]+", role) is not None
        role, spec = (role, spec) if named else (default, text)
        if role not in roles:
            raise UsageError(f"--model {text}: no role {role!r}: {did_you_mean(role, roles)}")
        if role in found or not spec.strip():
            raise UsageError(f"--model {role}: {'given twice' if role in found else 'names no model'}")
        found[role] = spec
    return found


def prices_of(texts: Iterable[str] | None) -> dict[str, tuple[float, float]]:
    """Return prices by role; `*` for all others.

    Raises:
        UsageError: A text is no pair of numbers.
    """
    found = {}
    for text in texts or ():
        role, equals, pair = text.rpartition("=")
        try:
            read, written = map(float, pair.split(","))
        except ValueError as error:
            raise UsageError(f"--price is READ,WRITTEN, such as 0.15,0.60, not {pair!r}") from error
        found[role if equals else "*"] = (read, written)
    return found


def finish(summary: Summary, folder: Path) -> None:
    """Show a run's report and write its files, say what was paid, and exit with the run's code."""
    from ragweave.evaluation.folder import read_results
    from ragweave.evaluation.report import read_report, show, write

    if next(read_results(folder), None) is not None:
        report = read_report(folder)
        show(report)
        write(report, folder)
    spent = f"{summary.calls} calls" + (f", ${summary.dollars:.4f}" if summary.dollars else "")
    skipped = f", {summary.skipped} before" if summary.skipped else ""
    typer.echo(f"{folder}: {summary.answered} answered{skipped}, {summary.failed} failed; {spent}", err=True)
    end(summary)


def end(summary: Summary) -> None:
    """Say why a run ended early, and exit with its code."""
    if summary.stopped:
        typer.echo(f"stopped: {summary.stopped}", err=True)
    raise typer.Exit(summary.exit_code)
