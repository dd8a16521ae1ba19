"""Write what is generated from the registries into the repository, or check that it is current.

    python docs/sync.py            # what `make sync` runs
    python docs/sync.py --check    # what `make lint` runs: fails where a file is stale, and names it

Generated are `langgraph.json`, the diagrams in `docs/diagrams`, README's badges, the names and
signatures that type checkers see, and the blocks between `<!-- NAME: begin -->` and
`<!-- NAME: end -->` in README and docs. The site's own pages (a page a
method, metrics, formats, glossary) are made when it is built, so that they can't be stale.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from ragweave.cli.methods import diagrams, passages_by_default, stale, write
from ragweave.datasets.dataset import FORMATS
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import METRICS
from ragweave.evaluation.published import PaperTable, data_of, paper_tables
from ragweave.graphs import METHODS, Method
from ragweave.tools.filters import FILTERS
from ragweave.tools.knowledge.chunking import CHUNKERS
from ragweave.tools.models import MODELS

sys.path.append(str(Path(__file__).parent))

import effects
from signatures import typed_files

ROOT = Path(__file__).parents[1]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; a bar in a cell doesn't end it."""
    heads = list(head)
    lines = [heads, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    shown = ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join([shown[0], "|" + "---|" * len(heads), *shown[1:]])


def calls(method: Method) -> str:
    """Return a method's model calls, best to worst."""
    return method.best if method.best == method.worst else f"{method.best} to {method.worst}"


def methods_table() -> str:
    """Return the README's table of the methods, and what its letters mean."""
    rows = table(
        ["name", "what it does", "model calls, best to worst", "paper"],
        [[f"`{one.name}`", one.summary, calls(one), one.paper] for one in METHODS.ours()],
    )
    samples = "p: self-consistency samples (default 1; more are drawn at temperature 0.7); second_look: 1 (0 where it is off, or there is nothing to search)."
    return f"{rows}\n\n{passages_by_default()}; {samples}"


def metrics_table() -> str:
    """Return the table of the metrics."""
    return table(
        ["name", "label", "what it says", "better", "source"],
        [
            [
                f"`{one.name}`",
                one.label + (" (primary)" if one.primary else ""),
                one.summary,
                "higher" if one.higher_is_better else "lower",
                one.source,
            ]
            for one in METRICS.ours()
        ],
    )


def formats_table() -> str:
    """Return the table of the data set formats."""
    return table(
        ["format", "what comes in it", "data sets", "fields"],
        [
            [
                f"`{one.name}`",
                one.summary,
                ", ".join(f"`{name}`" for name in one.names),
                one.expects,
            ]
            for one in FORMATS.ours()
        ],
    )


def models_table() -> str:
    """Return the table of the model providers."""
    rows = [[f"`{one.spec}`", one.summary] for one in MODELS.ours()]
    rows.append(
        ["`provider:NAME`", "whatever LangChain's `init_chat_model` knows, where it is installed"]
    )
    return table(["text", "model"], rows)


def filters_table() -> str:
    """Return the table of the context filters."""
    return table(["name", "what it keeps"], [[f"`{o.name}`", o.summary] for o in FILTERS.ours()])


def chunkers_table() -> str:
    """Return the table of the chunkers."""
    return table(
        ["name", "where passages begin and end"],
        [[f"`{one.name}`", one.summary] for one in CHUNKERS.ours()],
    )


def reproductions() -> str:
    """Return every table and figure of the papers, a list a paper."""
    parts = []
    for paper, tables in paper_tables().items():
        rows = [[f"`{one.name}`", one.title, *_reproduction(one)] for one in tables]
        head = ["name", "what it shows", "rows", "data sets", "the paper's model and passages"]
        parts += [f"### {tables[0].source}", "", f"`ragweave reproduce {paper} NAME`", ""]
        parts += [table(head, rows), ""]
        parts += [f"`{one.name}`: {note}.  " for one in tables for note in one.notes] + [""]
    return "\n".join(parts).strip()


def _reproduction(one: PaperTable) -> list[str]:
    if one.listed:
        return [f"not run: {one.listed}", "", ""]
    names = dict.fromkeys(row.row for row in one.rows)
    about = dict.fromkeys([*one.models, *(row.corpus for row in one.rows)])
    return ["; ".join(names), ", ".join(f"`{name}`" for name in one.datasets), "; ".join(about)]


def reproduction_data() -> str:
    """Return which questions each paper asked, and where their files are published."""
    rows = []
    for paper, tables in paper_tables().items():
        for dataset in dict.fromkeys(name for one in tables for name in one.datasets):
            data = data_of(paper, dataset)
            rows.append([f"`{paper}`", f"`{dataset}`", data.about, f"`{data.file}`", data.where])
    return table(["paper", "data set", "questions", "file", "where"], rows)


def comparison() -> str:
    """Return the comparison with other projects, which stands in a file of its own."""
    text = (ROOT / "docs" / "comparison.md").read_text("utf-8").strip()
    return text.replace("| METHODS |", f"| {len(METHODS.ours())} |")


def effect(name: str) -> str:
    """Return a table of what the methods buy with real models."""
    head, *rows = effects.rows(name)
    return f"{effects.caption(name)}\n\n{table(head, rows)}"


BLOCKS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "README.md": {"methods": methods_table, "comparison": comparison},
    "docs/index.md": {"comparison": comparison},
    "docs/evaluation.md": {"metrics": metrics_table, "formats": formats_table},
    "docs/effects.md": {name: partial(effect, name) for name in effects.TABLES},
    "docs/models.md": {"models": models_table},
    "docs/reproduce.md": {
        "reproductions": reproductions,
        "reproduction-data": reproduction_data,
    },
    "docs/howto/documents.md": {"chunkers": chunkers_table},
    "docs/howto/retriever.md": {"filters": filters_table},
}
"""Files with generated blocks: what stands between `<!-- NAME: begin -->` and its end."""


CHAT = "A conversation over a method: follow-ups are restated, answers quote their sources."


def langgraph_json(text: str) -> str:
    """Return `langgraph.json` with the conversation and our methods as its graphs; all else stays."""
    settings = json.loads(text)
    settings["graphs"] = {"chat": {"path": "ragweave.serving.studio:chat", "description": CHAT}} | {
        one.name: {"path": f"ragweave.serving.studio:{one.name}", "description": one.summary}
        for one in METHODS.ours()
    }
    return json.dumps(settings, ensure_ascii=False, indent=2) + "\n"


def badges(root: Path) -> dict[Path, str]:
    """Return README's badges, from `pyproject.toml`: pictures of our own, so that none can break."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    versions = [
        one.rpartition(" ")[2]
        for one in project["classifiers"]
        if one.startswith("Programming Language :: Python :: 3.")
    ]
    facts = {
        "python": f"{versions[0]} – {versions[-1]}",
        "licence": project["license"],
        "typed": "mypy, pyright",
    }
    return {root / "docs" / "assets" / f"{k}.svg": badge(k, value) for k, value in facts.items()}


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


def with_block(text: str, name: str, content: str, where: str) -> str:
    """Return `text` with a block's content replaced.

    Raises:
        UsageError: It has no such block, or several.
    """
    block = re.compile(f"(?<=<!-- {name}: begin -->\n).*?(?=<!-- {name}: end -->)", re.DOTALL)
    if len(block.findall(text)) != 1:
        raise UsageError(
            f"{where}: must have one block <!-- {name}: begin --> … <!-- {name}: end -->"
        )
    return block.sub(lambda _: f"\n{content}\n\n", text)


def generated(root: Path) -> dict[Path, str]:
    """Return every generated file, as it should be."""
    files = diagrams(root) | badges(root)
    for path, blocks in BLOCKS.items():
        text = files.get(root / path) or (root / path).read_text("utf-8")
        for name, content in blocks.items():
            text = with_block(text, name, content(), path)
        files[root / path] = text
    settings = root / "langgraph.json"
    files[settings] = langgraph_json(settings.read_text("utf-8"))
    return files | typed_files(root)


def main(arguments: list[str]) -> int:
    """Do what the command line asks for; return the exit code."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python docs/sync.py [--check]\n")
        return 2
    check, wanted = bool(arguments), generated(ROOT)
    changed = stale(ROOT, wanted) if check else write(ROOT, wanted)
    files = [str(path.relative_to(ROOT)) for path in changed]
    if check and files:
        sys.stderr.write(f"stale: {', '.join(files)}: run `make sync` and commit the result\n")
        return 1
    sys.stderr.write("\n".join(files) + "\n" if files else "everything generated is current\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
