"""Write what is generated from the registries into the repository, or check that it is current.

    python docs/sync.py            # what `make sync` runs
    python docs/sync.py --check    # what `make lint` runs: fails if a file is stale, and names it

Generated are `langgraph.json`, the diagrams in `docs/diagrams` and README, README's badges, the names that type
checkers see, and the blocks between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableLambda

from ragweave import METHODS, build_graph
from ragweave.datasets import FORMATS
from ragweave.evaluation import METRICS, reproduce
from ragweave.graphs import Method
from ragweave.nodes.options import make_options
from ragweave.tools.filters import FILTERS
from ragweave.tools.knowledge.chunking import CHUNKERS
from ragweave.tools.knowledge.retrievers import MODES
from ragweave.tools.models import MODELS

ROOT = Path(__file__).parents[1]
README_METHOD = "concat_pf"
CHAT = "A conversation over a method: follow-ups are restated, answers quote their sources."


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; a bar in a cell doesn't end it."""
    heads = list(head)
    lines = [heads, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    shown = ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join([shown[0], "|" + "---|" * len(heads), *shown[1:]])


def named(registry: Any, *head: str, form: str = "name") -> str:
    """Return the table of a registry's names and summaries."""
    return table(head, [[f"`{getattr(one, form)}`", one.summary] for one in registry.ours()])


def calls(method: Method) -> str:
    """Return a method's model calls with its default options, best to worst."""
    best, worst = method.calls(make_options(method.options, {}))
    return str(best) if best == worst else f"{best} to {worst}"


def methods() -> str:
    """Return README's table of the methods."""
    rows = [[f"`{one.name}`", one.summary, calls(one), one.paper] for one in METHODS.ours()]
    about = "Model calls are those of one question with the default options, at best and at worst."
    return f"{table(['name', 'what it does', 'model calls', 'paper'], rows)}\n\n{about}"


def metrics() -> str:
    """Return the table of the metrics."""
    rows = [
        [f"`{one.name}`", one.label, one.summary, "higher" if one.higher_is_better else "lower", one.source]
        for one in METRICS.ours()
    ]
    return table(["name", "label", "what it says", "better", "source"], rows)


def models() -> str:
    """Return the table of the model providers."""
    rest = ["`PROVIDER:NAME`", "any other that LangChain's `init_chat_model` knows, where it is installed"]
    return "\n".join([named(MODELS, "text", "model", form="spec"), f"| {' | '.join(rest)} |"])


def reproductions() -> str:
    """Return the papers' tables."""
    rows = [[f"`{paper}`", f"`{name}`", *more] for paper, name, *more in reproduce.listing()]
    return table(["paper", "table", "what it shows", "data sets"], rows)


def comparison() -> str:
    """Return the comparison with other projects, which stands in a file of its own."""
    text = (ROOT / "docs" / "comparison.md").read_text("utf-8").strip()
    return text.replace("| METHODS |", f"| {len(METHODS.ours())} |")


BLOCKS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "README.md": {"methods": methods, "comparison": comparison},
    "docs/index.md": {"comparison": comparison},
    "docs/evaluation.md": {"metrics": metrics, "formats": lambda: named(FORMATS, "format", "what comes in it")},
    "docs/models.md": {"models": models},
    "docs/reproduce.md": {"reproductions": reproductions},
    "docs/howto/documents.md": {"chunkers": lambda: named(CHUNKERS, "name", "where passages begin and end")},
    "docs/howto/retriever.md": {"filters": lambda: named(FILTERS, "name", "what it keeps")},
}
"""Files with generated blocks."""


def mermaid(name: str) -> str:
    """Return a method's graph as mermaid text."""
    model: Any = RunnableLambda(lambda asked: asked)
    return build_graph(name, model=model).get_graph().draw_mermaid()


def diagrams(root: Path) -> dict[Path, str]:
    """Return the diagrams of the methods, and README with the diagram of one."""
    files = {root / "docs" / "diagrams" / f"{one.name}.mmd": mermaid(one.name) for one in METHODS.ours()}
    picture = mermaid(README_METHOD).rstrip() + "\n"
    block = re.compile(r"(?<=```mermaid\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
    readme = root / "README.md"
    return files | {readme: block.sub(lambda _: picture, readme.read_text("utf-8"), count=1)}


def langgraph_json(text: str) -> str:
    """Return `langgraph.json` with the conversation and our methods as its graphs; all else stays."""
    settings, place = json.loads(text), "ragweave.serving.studio"
    settings["graphs"] = {"chat": {"path": f"{place}:chat", "description": CHAT}} | {
        one.name: {"path": f"{place}:{one.name}", "description": one.summary} for one in METHODS.ours()
    }
    return json.dumps(settings, ensure_ascii=False, indent=2) + "\n"


def names() -> str:
    """Return the module of the names that type checkers know."""
    head = (
        '"""The names of ragweave\'s own methods, retrievers and metrics, as types.\n\nWritten by `make sync` from the '
        'registries. Other packages\' go by their declarations:\n`build_graph(METHODS["draft_check"])`.\n"""\n\n'
        "from typing import Literal\n"
    )
    listed = {
        "MethodName": [one.name for one in METHODS.ours()],
        "RetrieverName": [*MODES],
        "MetricName": [one.name for one in METRICS.ours()],
    }
    return head + "".join(
        f"\n{kind} = Literal[\n" + "".join(f'    "{one}",\n' for one in some) + "]\n" for kind, some in listed.items()
    )


def badges(root: Path) -> dict[Path, str]:
    """Return README's badges, from `pyproject.toml`: pictures of our own, so that none can break."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    versions = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    facts = {"python": f"{versions[0]} – {versions[-1]}", "licence": project["license"], "typed": "mypy, pyright"}
    return {root / "docs" / "assets" / f"{name}.svg": badge(name, value) for name, value in facts.items()}


def badge(name: str, value: str) -> str:
    """Draw a badge."""
    left, right = 12 + 6.6 * len(name), 14 + 6.6 * len(value)
    width = left + right
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="20" role="img">'
        f"<title>{name}: {value}</title>"
        f'<clipPath id="r"><rect width="{width:.0f}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left:.0f}" height="20" fill="#555"/>'
        f'<rect x="{left:.0f}" width="{right:.0f}" height="20" fill="#2c53c0"/></g>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" '
        f'text-anchor="middle"><text x="{left / 2:.1f}" y="14" textLength="{left - 12:.0f}">{name}'
        f'</text><text x="{left + right / 2:.1f}" y="14" textLength="{right - 14:.0f}">{value}'
        "</text></g></svg>\n"
    )


def with_block(text: str, name: str, content: str) -> str:
    """Return `text` with a block's content replaced."""
    block = re.compile(f"(?<=<!-- {name}: begin -->\n).*?(?=<!-- {name}: end -->)", re.DOTALL)
    return block.sub(lambda _: f"\n{content}\n\n", text)


def generated(root: Path) -> dict[Path, str]:
    """Return every generated file, as it should be."""
    files = diagrams(root) | badges(root)
    for path, blocks in BLOCKS.items():
        text = files.get(root / path) or (root / path).read_text("utf-8")
        for name, content in blocks.items():
            text = with_block(text, name, content())
        files[root / path] = text
    files[root / "src/ragweave/names.py"] = names()
    files[root / "langgraph.json"] = langgraph_json((root / "langgraph.json").read_text("utf-8"))
    return files


def main(arguments: list[str]) -> int:
    """Do what the command line asks for; return the exit code."""
    wanted = generated(ROOT)
    changed = [path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
    changed += [path for path in (ROOT / "docs/diagrams").glob("*.mmd") if path not in wanted]
    listed = ", ".join(str(path.relative_to(ROOT)) for path in changed)
    if arguments == ["--check"]:
        sys.stderr.write(f"stale: {listed}: run `make sync` and commit the result\n" if listed else "")
        return 1 if listed else 0
    for path in changed:
        if path in wanted:
            path.write_text(wanted[path], "utf-8")
        else:
            path.unlink()
    sys.stderr.write(f"wrote {listed}\n" if listed else "everything generated is current\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
