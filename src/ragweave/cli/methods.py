"""`ragweave methods` and `ragweave draw`: list the methods, draw their graphs.

`ragweave draw --all` writes the diagrams of the repository's README and docs; `--check` says which
are stale.
"""

from __future__ import annotations

import importlib.util
import json as json_
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli.screen import write_file
from ragweave.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Graph
    from rich.table import Table

    from ragweave.registry import Registry


README_METHOD = "concat_pf"
_BLOCK = re.compile(r"(?<=```mermaid\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)


def diagrams(root: Path) -> dict[Path, str]:
    """Return every file that holds diagrams, with the content that it should have.

    Args:
        root: The repository's folder, with `docs/diagrams/METHOD.mmd` for each method and a
            mermaid block in `README.md`.

    Raises:
        UsageError: The folder has no README with exactly one mermaid block.
    """
    from ragweave.graphs import METHODS
    from ragweave.graphs.build import drawable

    folder = root / "docs" / "diagrams"
    names = [method.name for method in METHODS.ours()]
    files = {folder / f"{name}.mmd": drawable(name).get_graph().draw_mermaid() for name in names}
    readme = root / "README.md"
    text = readme.read_text("utf-8") if readme.is_file() else ""
    if len(_BLOCK.findall(text)) != 1:
        raise UsageError(
            f"{readme} does not have exactly one mermaid block: run `ragweave draw --all` in the "
            "repository of ragweave"
        )
    picture = files[folder / f"{README_METHOD}.mmd"].rstrip() + "\n"
    files[readme] = _BLOCK.sub(lambda _: picture, text)
    return files


def stale(root: Path, wanted: Mapping[Path, str] | None = None) -> list[Path]:
    """Return the files that are not current, diagrams of removed methods included.

    Args:
        root: The repository's folder.
        wanted: The files with their content; None: those that hold diagrams.
    """
    wanted = diagrams(root) if wanted is None else wanted
    changed = [path for path, text in wanted.items() if not _is(path, text)]
    return changed + [path for path in (root / "docs/diagrams").glob("*.mmd") if path not in wanted]


def write(root: Path, wanted: Mapping[Path, str] | None = None) -> list[Path]:
    """Bring every file up to date and return those that changed."""
    wanted = diagrams(root) if wanted is None else wanted
    changed = stale(root, wanted)
    (root / "docs" / "diagrams").mkdir(parents=True, exist_ok=True)
    for path in changed:
        if path in wanted:
            write_file(path, wanted[path])
        else:
            path.unlink()
    return changed


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text


def draw(
    method: Annotated[
        str, typer.Argument(help="Name of the method (see `ragweave methods`).")
    ] = "",
    ascii: Annotated[  # noqa: A002
        bool, typer.Option("--ascii", help="Draw with characters (needs the extra draw).")
    ] = False,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write an SVG picture.")] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            "--png", help="Write a PNG picture, with mermaid-cli (mmdc) or Graphviz (dot)."
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="Write the diagrams of README and docs in the current folder."),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="With --all: write nothing, and fail if a diagram is stale."),
    ] = False,
) -> None:
    """Draw the graph of a method, as mermaid text by default. Nothing leaves the machine."""
    if every == bool(method) or (check and not every):
        raise UsageError("give one method, or --all (with or without --check)")
    if every:
        _all(check)
        return
    from ragweave.graphs.build import drawable

    graph = drawable(method).get_graph()
    if svg is not None or png is not None:
        _draw_files(graph, method, svg, png)
    elif ascii:
        if importlib.util.find_spec("grandalf") is None:
            raise MissingExtraError("Drawing with characters", "draw")
        typer.echo(graph.draw_ascii())
    else:
        typer.echo(graph.draw_mermaid())


def _draw_files(graph: Graph, method: str, svg: Path | None, png: Path | None) -> None:
    if svg is not None:
        _svg(graph, method, svg)
        typer.echo(f"wrote {svg}", err=True)
    if png is not None:
        _picture(graph.draw_mermaid(), graph, png)
        typer.echo(f"wrote {png}", err=True)


def _all(check: bool) -> None:
    root = Path.cwd()
    files = [str(path.relative_to(root)) for path in (stale(root) if check else write(root))]
    if check and files:
        typer.echo(f"stale: {', '.join(files)}: run `ragweave draw --all`", err=True)
        raise typer.Exit(1)
    typer.echo("\n".join(files) or "all diagrams are current", err=True)


def _svg(graph: Graph, method: str, target: Path) -> None:
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
    """Write the graph in Graphviz's language: dashed edges are choices, as in mermaid."""
    lines = ["digraph {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    lines += [f'  "{node}";' for node in graph.nodes]
    for edge in graph.edges:
        label = "" if edge.data is None else edge.data
        style = f' [style=dashed label="{label}"]' if edge.conditional else ""
        lines.append(f'  "{edge.source}" -> "{edge.target}"{style};')
    return "\n".join([*lines, "}"])


KINDS = ("methods", "metrics", "datasets", "models", "filters", "chunkers")
"""What `--kind` takes: the entry-point groups, without `ragweave.`."""


def methods(
    name: Annotated[
        str, typer.Argument(help="A method: show its options, prompts, costs and paper.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON, options included.")] = False,
    kind: Annotated[str, typer.Option(help=f"What to list: {', '.join(KINDS)}.")] = "methods",
) -> None:
    """List the methods with their cost and paper, and what other packages add."""
    if kind not in KINDS:
        raise UsageError(f"--kind must be one of {', '.join(KINDS)}, not {kind!r}")
    found = registries()
    if name:
        _show_method(found[kind], name, json=json)
        return
    if json:
        facts = _method_facts if kind == "methods" else _facts
        typer.echo(json_.dumps([facts(found[kind], name) for name in found[kind]], indent=2))
        return
    from ragweave.cli.screen import console

    screen = console()
    screen.print(_methods_table(found[kind]) if kind == "methods" else _table(found[kind]))
    if kind == "methods":
        legend = f"{passages_by_default()}; p: self-consistency samples (default 1); second_look: 1, or 0 where it is off."
        screen.print(legend, soft_wrap=not screen.is_terminal)
    for other, registry in found.items():
        added = registry.others() if other != kind else {}
        if added:
            listed = ", ".join(f"{name} ({package})" for name, package in added.items())
            screen.print(f"{other} from other packages: {listed}", markup=False)


def passages_by_default() -> str:
    """Return what `k` is, with its default in each of our methods, most of which share one."""
    from ragweave.graphs import METHODS

    named: dict[int, list[str]] = {}
    for one in METHODS.ours():
        named.setdefault(one.options().k, []).append(one.name)
    usual = max(named, key=lambda k: len(named[k]))
    others = [f"{k} in {', '.join(named[k])}" for k in sorted(named) if k != usual]
    return f"k: passages per query (default {'; '.join([str(usual), *others])})"


def _show_method(found: Registry[Any], name: str, *, json: bool) -> None:
    """Print all there is to know of one declaration; of a method, its options too."""
    from ragweave.cli.screen import console
    from ragweave.graphs import Method

    one = found.named(name)
    if json:
        facts = _method_facts if isinstance(one, Method) else _facts
        typer.echo(json_.dumps(facts(found, name), indent=2))
        return
    screen = console()
    screen.print(f"{one.name}: {one.summary}", markup=False)
    if not isinstance(one, Method):
        return
    if one.when:
        screen.print(one.when, markup=False)
    screen.print(f"Paper: {one.paper}", markup=False)
    screen.print(f"Model calls: {one.best} at best, {one.worst} at worst", markup=False)
    screen.print(f"Prompts: {', '.join(one.prompts) or 'none'}", markup=False)
    screen.print(_options_table(one.options))


def _options_table(options: type[Any]) -> Table:
    """Return a method's options, its own first, with their defaults."""
    import dataclasses

    from ragweave.nodes.options import field_texts

    texts, own = field_texts(options), vars(options).get("__annotations__", {})
    table = _empty(["option", "default", "meaning"])
    for field in sorted(dataclasses.fields(options), key=lambda one: one.name not in own):
        table.add_row(*_cells([field.name, repr(field.default), texts.get(field.name, "")]))
    return table


def registries() -> dict[str, Registry[Any]]:
    """Return every registry, keyed by `KINDS`."""
    from ragweave.datasets.dataset import FORMATS
    from ragweave.evaluation.metrics import METRICS
    from ragweave.graphs import METHODS
    from ragweave.tools.filters import FILTERS
    from ragweave.tools.knowledge.chunking import CHUNKERS
    from ragweave.tools.models import MODELS

    return dict(zip(KINDS, (METHODS, METRICS, FORMATS, MODELS, FILTERS, CHUNKERS), strict=True))


def _methods_table(found: Registry[Any]) -> Table:
    others = found.others()
    head = ["method", "what it does", "calls: best", "worst", "paper"]
    table = _empty([*head, "package"] if others else head)
    for name, method in found.items():
        cells = [method.name, method.summary, method.best, method.worst, method.paper]
        table.add_row(*_cells([*cells, others.get(name, "ragweave")] if others else cells))
    return table


def _table(found: Registry[Any]) -> Table:
    table = _empty([found.word, "description", "package"])
    for name, one in found.items():
        table.add_row(*_cells([name, one.summary, found.package(name)]))
    return table


def _empty(heads: list[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, head in enumerate(heads):
        table.add_column(head, no_wrap=index == 0, overflow="fold")
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
