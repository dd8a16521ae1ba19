"""`ragweave methods`: the methods, one method with its options and graph, and all else that is registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli.screen import console, table_of
from ragweave.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from langchain_core.prompts import ChatPromptTemplate

    from ragweave.graphs import Method
    from ragweave.registry import Registry

KINDS = {
    "methods": "ragweave.graphs:METHODS",
    "metrics": "ragweave.evaluation.metrics:METRICS",
    "datasets": "ragweave.datasets:FORMATS",
    "models": "ragweave.tools.providers:MODELS",
    "filters": "ragweave.tools.filters:FILTERS",
    "chunkers": "ragweave.tools.knowledge.chunking:CHUNKERS",
    "file_types": "ragweave.tools.knowledge.loaders:FILE_TYPES",
}
"""The registries by what they hold."""


def methods(
    name: Annotated[str, typer.Argument(help="A method to show, with its options, model calls and graph.")] = "",
    kind: Annotated[str, typer.Option(help=f"What to list: {', '.join(KINDS)}.")] = "methods",
    svg: Annotated[Path | None, typer.Option(help="With NAME: write a picture of its graph.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the methods, or show one."""
    registry = _registry(kind)
    if svg and not (name and kind == "methods"):
        raise UsageError("--svg draws one method: name it, as in ragweave methods concat_pf --svg graph.svg")
    if not name:
        _list(registry, kind, json=json)
    elif svg:
        from ragweave.graphs import build_graph
        from ragweave.tools.drawing import draw_svg

        svg.write_text(draw_svg(build_graph(name).get_graph(), title=f"The graph of {name}"), "utf-8")
        typer.echo(f"wrote {svg}", err=True)
    else:
        _show(registry, name, kind, json=json)


def _registry(kind: str) -> Registry[Any]:
    if kind not in KINDS:
        raise UsageError(f"--kind {kind}: {did_you_mean(kind, KINDS)}")
    module, _, name = KINDS[kind].partition(":")
    registry: Registry[Any] = getattr(import_module(module), name)
    return registry


def _list(registry: Registry[Any], kind: str, *, json: bool) -> None:
    from ragweave.cli.ask import to_json

    if json:
        typer.echo(to_json([_facts(registry, name) for name in registry]))
        return
    others = registry.others()
    columns = {"methods": ["calls", "paper"], "file_types": ["files", "extra"]}.get(kind, [])
    head = [registry.word, "what it does", *columns]
    rows = []
    for name, declaration in registry.items():
        more = []
        if kind == "methods":
            more = [_calls(declaration), declaration.paper]
        elif kind == "file_types":
            more = [" ".join(declaration.suffixes), declaration.extra]
        rows.append([name, declaration.summary, *more, *([others.get(name, "ragweave")] if others else [])])
    console().print(table_of([*head, "package"] if others else head, rows))


def _calls(method: Method) -> str:
    best, worst = _best_and_worst(method)
    return str(best) if best == worst else f"{best} to {worst}"


def _best_and_worst(method: Method) -> tuple[int, int]:
    """Return the minimum and maximum model calls of one question with the default options."""
    from ragweave.nodes.options import make_options

    return method.calls(make_options(method.options, {}))


def _show(registry: Registry[Any], name: str, kind: str, *, json: bool) -> None:
    from ragweave.cli.ask import to_json
    from ragweave.graphs import build_graph
    from ragweave.tools.drawing import edges_of

    declaration, screen = registry.named(name), console()
    if json:
        typer.echo(to_json(_facts(registry, name)))
        return
    screen.print(f"{declaration.name}: {declaration.summary}", markup=False)
    if kind != "methods":
        return
    graph = build_graph(name).get_graph()
    lines = (
        declaration.when,
        f"Paper: {declaration.paper}",
        f"Model calls with the default options: {_calls(declaration)}",
    )
    screen.print("\n".join(lines), markup=False)
    ends: dict[str, list[str]] = {}
    for edge in edges_of(graph):
        ends.setdefault(edge.source, []).append(edge.target.strip("_") + (f" ({edge.label})" if edge.label else ""))
    screen.print(
        table_of(["node", "leads to"], ([node.strip("_"), ", ".join(targets)] for node, targets in ends.items()))
    )
    own = vars(declaration.options).get("__annotations__", {})
    fields = sorted(declaration.options.model_fields.items(), key=lambda item: item[0] not in own)
    rows = ([name, _text(field.default), field.description or ""] for name, field in fields)
    screen.print(table_of(["option", "default", "meaning"], rows))


def _text(value: Any) -> str:
    """Return a default as `--option` takes it."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _facts(registry: Registry[Any], name: str) -> Mapping[str, Any]:
    declaration = registry[name]
    facts = {"name": name, "summary": declaration.summary, "package": registry.package(name)}
    if registry.word != "method":
        return facts
    best, worst = _best_and_worst(declaration)
    defaults = {option: field.default for option, field in declaration.options.model_fields.items()}
    about = {"when": declaration.when, "paper": declaration.paper, "calls": {"best": best, "worst": worst}}
    prompts = {prompt: _messages(template) for prompt, template in declaration.prompts.items()}
    return {**facts, **about, "options": defaults, "prompts": prompts}


def _messages(template: ChatPromptTemplate) -> list[tuple[str, str]]:
    """Return a template's roles and texts, in the form that `eval --prompts` takes."""
    messages: Sequence[Any] = template.messages
    return [
        (type(message).__name__.removesuffix("MessagePromptTemplate").lower(), message.prompt.template)
        for message in messages
    ]
