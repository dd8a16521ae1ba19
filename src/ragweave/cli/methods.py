"""`ragweave methods`: what there is, what it costs, where it comes from."""

from __future__ import annotations

import json as json_
from typing import Annotated

import typer


def methods(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, options included.")] = False,
) -> None:
    """List the methods: name, what each does, model calls, paper."""
    from ragweave.graphs import METHODS

    if json:
        typer.echo(json_.dumps([_facts(name) for name in METHODS], indent=2))
        return
    from rich import box
    from rich.table import Table

    from ragweave.cli.screen import console

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("method", "what it does", "calls: best", "worst", "paper"):
        table.add_column(head, no_wrap=head == "method", overflow="fold")
    for method in METHODS.values():
        table.add_row(method.name, method.summary, method.best, method.worst, method.paper)
    screen = console()
    screen.print(table)
    screen.print("k: passages per query (default 5); p: self-consistency samples (default 1).")


def _facts(name: str) -> dict[str, object]:
    import dataclasses

    from ragweave.graphs import METHODS

    method = METHODS[name]
    return {
        "name": name,
        "summary": method.summary,
        "calls": {"best": method.best, "worst": method.worst},
        "paper": method.paper,
        "options": {field.name: field.default for field in dataclasses.fields(method.options)},
        "prompts": list(method.prompts),
    }
