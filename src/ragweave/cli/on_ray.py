"""The option `--ray`, whose value may be left out, and what does not go with it."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperCommand

from ragweave.errors import UsageError

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Work on the nodes of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT; without an "
        "address, of this machine alone.",
    ),
]


class RayCommand(TyperCommand):
    """A command with `--ray [ADDRESS]`: typer's own options cannot go without their value."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put in the address that stands for this machine where none follows."""
        if "--ray" in args:
            from ragweave.tools.cluster import LOCAL, is_address

            at = args.index("--ray") + 1
            if at == len(args) or not is_address(args[at]):
                args = [*args[:at], LOCAL, *args[at:]]
        return super().parse_args(ctx, args)


def check_ray(ray: str | None, *, workers: int = 1, shard: str = "1/1") -> None:
    """Check `--ray` before anything is done: its value, and what else divides the work.

    Raises:
        UsageError: It is no address, or `--workers` or `--shard` is given too.
        MissingExtraError: Ray is not installed.
    """
    if ray is None:
        return
    from ragweave.tools.cluster import check_address

    for name, given in (("--workers", workers != 1), ("--shard", shard != "1/1")):
        if given:
            raise UsageError(f"--ray divides the work among the cluster's nodes: leave out {name}")
    check_address(ray)
