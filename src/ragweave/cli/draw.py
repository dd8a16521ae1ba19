"""`ragweave draw`: a method's graph as mermaid text, as characters, or as a picture."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragweave.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Graph


def draw(
    method: Annotated[
        str, typer.Argument(help="Name of the method (see `ragweave methods`).")
    ] = "",
    ascii: Annotated[  # noqa: A002
        bool, typer.Option("--ascii", help="Draw with characters (needs the extra `draw`).")
    ] = False,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write an SVG picture.")] = None,
    png: Annotated[
        Path | None,
        typer.Option("--png", help="Write a picture, with mermaid-cli (mmdc) or Graphviz (dot)."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Write the diagrams of README and docs in this folder.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="With --all: write nothing, fail where one is stale.")
    ] = False,
) -> None:
    """Draw the graph of a method: mermaid text unless asked otherwise. Nothing leaves the machine."""
    if every == bool(method) or (check and not every):
        raise UsageError("name one method, or take --all (with --check where wanted)")
    if every:
        _all(check)
        return
    from ragweave.graphs.picture import drawable

    graph = drawable(method).get_graph()
    if svg is not None:
        _svg(graph, method, svg)
    elif png is not None:
        _picture(graph.draw_mermaid(), graph, png)
    elif ascii:
        if importlib.util.find_spec("grandalf") is None:
            raise MissingExtraError("Drawing with characters", "draw")
        typer.echo(graph.draw_ascii())
    else:
        typer.echo(graph.draw_mermaid())
    for target in filter(None, (svg, png)):
        typer.echo(f"wrote {target}", err=True)


def _all(check: bool) -> None:
    from ragweave.cli.diagrams import stale, write

    root = Path.cwd()
    files = [str(path.relative_to(root)) for path in (stale(root) if check else write(root))]
    if check and files:
        typer.echo(f"not current: {', '.join(files)}: run `ragweave draw --all`", err=True)
        raise typer.Exit(1)
    typer.echo("\n".join(files) or "all diagrams are current", err=True)


def _svg(graph: Graph, method: str, target: Path) -> None:
    from ragweave.cli.output import write_file
    from ragweave.tools.drawing import draw_svg, shape_of

    write_file(target, draw_svg(shape_of(graph), title=f"The graph of {method}"))


def _picture(mermaid: str, graph: Graph, target: Path) -> None:
    if not target.parent.is_dir():
        raise UsageError(f"no such folder: {target.parent}")
    if shutil.which("mmdc"):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "graph.mmd"
            source.write_text(mermaid, encoding="utf-8")
            _run(["mmdc", "-i", str(source), "-o", str(target)])
    elif shutil.which("dot"):
        _run(["dot", "-Tpng", "-o", str(target)], _dot(graph))
    else:
        raise UsageError(
            "no local renderer: install mermaid-cli (mmdc) or Graphviz (dot), or paste the text "
            "of `ragweave draw` into any mermaid viewer"
        )


def _run(command: list[str], text: str | None = None) -> None:
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UsageError(f"{command[0]} failed: {last}")


def _dot(graph: Graph) -> str:
    """Write the graph in Graphviz' language: dashed edges are choices, as in mermaid."""
    lines = ["digraph {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    lines += [f'  "{node}";' for node in graph.nodes]
    for edge in graph.edges:
        label = "" if edge.data is None else edge.data
        style = f' [style=dashed label="{label}"]' if edge.conditional else ""
        lines.append(f'  "{edge.source}" -> "{edge.target}"{style};')
    return "\n".join([*lines, "}"])
