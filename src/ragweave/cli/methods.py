"""`ragweave methods`: what there is, what it costs, where it comes from."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from ragweave.registry import Registry

KINDS = ("methods", "metrics", "datasets", "models", "retrievers", "filters")
"""What `--kind` takes: the entry-point groups, without `ragweave.`."""


def methods(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, options included.")] = False,
    kind: Annotated[str, typer.Option(help=f"What to list: {', '.join(KINDS)}.")] = "methods",
) -> None:
    """List the methods (name, what each does, model calls, paper), and what other packages bring."""
    if kind not in KINDS:
        raise UsageError(f"--kind must be one of {', '.join(KINDS)}, not {kind!r}")
    found = registries()
    if json:
        facts = _method_facts if kind == "methods" else _facts
        typer.echo(json_.dumps([facts(found[kind], name) for name in found[kind]], indent=2))
        return
    from ragweave.cli.screen import console

    screen = console()
    screen.print(_methods_table(found[kind]) if kind == "methods" else _table(found[kind]))
    if kind == "methods":
        screen.print("k: passages per query (default 5); p: self-consistency samples (default 1).")
    for other, registry in found.items():
        brought = registry.others() if other != kind else {}
        if brought:
            listed = ", ".join(f"{name} ({package})" for name, package in brought.items())
            screen.print(f"{other} of other packages: {listed}", markup=False)


def registries() -> dict[str, Registry[Any]]:
    """Return every registry, by the words of `KINDS`."""
    from ragweave.evaluation.datasets.registry import FORMATS
    from ragweave.evaluation.metrics import METRICS
    from ragweave.graphs import METHODS
    from ragweave.tools.filters import FILTERS
    from ragweave.tools.knowledge import RETRIEVERS
    from ragweave.tools.models import MODELS

    listed = (METHODS, METRICS, FORMATS, MODELS, RETRIEVERS, FILTERS)
    return dict(zip(KINDS, listed, strict=True))


def _methods_table(found: Registry[Any]) -> Table:
    others = found.others()
    head = ["method", "what it does", "calls: best", "worst", "paper"]
    table = _empty([*head, "package"] if others else head)
    for name, method in found.items():
        cells = [method.name, method.summary, method.best, method.worst, method.paper]
        table.add_row(*_cells([*cells, others.get(name, "ragweave")] if others else cells))
    return table


def _table(found: Registry[Any]) -> Table:
    table = _empty([found.word, "what it is", "package"])
    for name, one in found.items():
        table.add_row(*_cells([name, one.summary, found.package(name)]))
    return table


def _empty(heads: list[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, no_wrap=place == 0, overflow="fold")
    return table


def _cells(texts: list[str]) -> list[str]:
    from rich.markup import escape

    return [escape(text) for text in texts]


def _method_facts(found: Registry[Any], name: str) -> Mapping[str, object]:
    import dataclasses

    method = found[name]
    return {
        "name": name,
        "summary": method.summary,
        "when": method.when,
        "calls": {"best": method.best, "worst": method.worst},
        "paper": method.paper,
        "package": found.package(name),
        "options": {field.name: field.default for field in dataclasses.fields(method.options)},
        "prompts": list(method.prompts),
    }


def _facts(found: Registry[Any], name: str) -> Mapping[str, object]:
    return {"name": name, "summary": found[name].summary, "package": found.package(name)}
