"""`ragweave draw`: a method's graph as mermaid text, as characters, or as a picture."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ragweave.errors import MissingExtraError, UsageError


def draw(
    method: Annotated[str, typer.Argument(help="Name of the method (see `ragweave methods`).")],
    ascii: Annotated[  # noqa: A002
        bool, typer.Option("--ascii", help="Draw with characters (needs the extra `draw`).")
    ] = False,
    png: Annotated[
        Path | None,
        typer.Option("--png", help="Write a picture, with mermaid-cli (mmdc) or Graphviz (dot)."),
    ] = None,
) -> None:
    """Draw the graph of a method: mermaid text unless asked otherwise. Nothing leaves the machine."""
    from ragweave.graphs import build_graph

    graph = build_graph(method).get_graph()
    if png is not None:
        _picture(graph.draw_mermaid(), graph, png)
        typer.echo(f"wrote {png}", err=True)
    elif ascii:
        if importlib.util.find_spec("grandalf") is None:
            raise MissingExtraError("Drawing with characters", "draw")
        typer.echo(graph.draw_ascii())
    else:
        typer.echo(graph.draw_mermaid())


def _picture(mermaid: str, graph: object, target: Path) -> None:
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


def _dot(graph: object) -> str:
    """Write the graph in Graphviz' language: dashed edges are choices, as in mermaid."""
    lines = ["digraph {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    lines += [f'  "{node}";' for node in graph.nodes]  # type: ignore[attr-defined]
    for edge in graph.edges:  # type: ignore[attr-defined]
        style = ' [style=dashed label="{}"]'.format(edge.data or "") if edge.conditional else ""
        lines.append(f'  "{edge.source}" -> "{edge.target}"{style};')
    return "\n".join([*lines, "}"])
