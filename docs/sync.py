"""Write what is generated into the repository, or check that it is current.

    python docs/sync.py            # what `make sync` runs
    python docs/sync.py --check    # what `make lint` runs: fails where a file is stale, and names it

Generated are `langgraph.json`'s graphs, the names that type checkers see, and the blocks between
`<!-- NAME: begin -->` and `<!-- NAME: end -->` in the docs. The site's own pages (`hooks/pages.py`) are made when it
is built.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import get_args

from ragweave.evaluation import METRICS
from ragweave.evaluation.reproduce import listing
from ragweave.graphs import METHODS, Method
from ragweave.graphs.base import Group
from ragweave.roles import ROLES
from ragweave.tools.filters import FILTERS
from ragweave.tools.knowledge.chunking import CHUNKERS
from ragweave.tools.knowledge.loaders import FILE_TYPES
from ragweave.tools.providers import MODELS

ROOT = Path(__file__).parents[1]
CHAT = "A conversation over a method: follow-ups are restated, answers quote their sources."


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; `head` separates its columns by bars."""
    cells = [[cell.strip() for cell in head.split("|")], *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def calls(method: Method) -> str:
    """Return a method's model calls with its default options."""
    fewest, most = method.calls(method.options())
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def methods() -> str:
    """Return the tables of the methods, a group each."""
    tables = []
    for group in get_args(Group):
        rows = [
            [f"`{method.name}`", method.summary, calls(method), method.paper]
            for method in METHODS.ours()
            if method.group == group
        ]
        if rows:
            tables += [f"### {group.capitalize()}", table("method | what it does | calls | paper", rows)]
    return "\n\n".join(tables)


def models() -> str:
    """Return the table of the model specs."""
    rows = [[f"`{provider.spec}`", provider.summary] for provider in MODELS.ours()]
    return table("spec | model", [*rows, ["`PROVIDER:NAME`", "any other provider of LangChain's `init_chat_model`"]])


def roles() -> str:
    """Return the table of the roles."""
    rows = [
        [
            f"`{role.name}`",
            role.summary + " (`build_chat`)" * role.in_chat,
            f"`{role.fallback}`" if role.fallback else "",
            "yes" if role.may_decide else "",
        ]
        for role in ROLES.values()
    ]
    return table("role | what its model does | if not given | may be a decision model", rows)


def reproductions() -> str:
    """Return the papers with their tables and data sets."""
    papers: dict[str, tuple[list[str], dict[str, None]]] = {}
    for paper, name, _, data in listing():
        names, sets = papers.setdefault(paper, ([], {}))
        names.append(name)
        sets.update(dict.fromkeys(data.split(", ")))
    rows = [[f"`{paper}`", ", ".join(names), ", ".join(sets)] for paper, (names, sets) in papers.items()]
    return table("paper | tables and figures | data sets", rows)


def recall() -> str:
    """Return what graph retrieval gains over hybrid retrieval, from the benchmark's results."""
    sets = json.loads((ROOT / "benchmarks/results/graph_retrieval.json").read_text("utf-8"))["sets"]
    shown = {"2WikiMultihopQA": "2wiki", "HotpotQA": "hotpotqa", "MuSiQue": "musique", "NQ (one hop)": "nq"}
    columns = [sets[name] for name in shown.values()]
    gains = ["{:+} [{}, {}]".format(*column["gain over hybrid"]).replace("-", "−") for column in columns]
    rows = [
        ["hybrid retrieval (BM25 and MiniLM)", *(str(column["hybrid"]) for column in columns)],
        ["graph retrieval, the default", *(str(column["graph"]) for column in columns)],
        ["gain, 95 % interval", *gains],
    ]
    return table(" | ".join(["", *shown]), rows)


def file_types() -> str:
    """Return the table of the file types."""
    rows = [
        [f"`{kind.name}`", " ".join(kind.suffixes), kind.summary + (f" (extra `{kind.extra}`)" if kind.extra else "")]
        for kind in FILE_TYPES.ours()
    ]
    return table("type | files | passages are made of", rows)


BLOCKS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "README.md": {"recall": recall},
    "docs/choose.md": {"methods": methods},
    "docs/models.md": {"models": models, "roles": roles},
    "docs/documents.md": {
        "file types": file_types,
        "chunkers": lambda: table("chunker | passages", [[f"`{kind.name}`", kind.summary] for kind in CHUNKERS.ours()]),
    },
    "docs/extend.md": {
        "filters": lambda: table(
            "filter | what it keeps", [[f"`{kind.name}`", kind.summary] for kind in FILTERS.ours()]
        )
    },
    "docs/reproduce.md": {"reproductions": reproductions},
}


def with_block(text: str, name: str, content: str) -> str:
    """Return a page with one of its blocks replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, after = text[: text.index(begin)], text[text.index(end) :]
    return f"{before}{begin}\n\n{content}\n\n{after}"


def with_names(text: str) -> str:
    """Return `names.py` with the names of our metrics."""
    quoted = ", ".join(f'"{metric.name}"' for metric in METRICS.ours())
    lines = textwrap.wrap(quoted, 100, break_on_hyphens=False)
    listed = "".join(f"    Literal[{line.rstrip(',')}],\n" for line in lines)
    return re.sub(r"MetricName = Literal\[\n.*?\n\]", lambda _: f"MetricName = Literal[\n{listed}]", text, flags=re.S)


def langgraph_json(text: str) -> str:
    """Return `langgraph.json` with the conversation and our methods as its graphs; the rest stays."""
    settings = json.loads(text)
    listed = {"chat": CHAT, **{method.name: method.summary for method in METHODS.ours()}}
    settings["graphs"] = {
        name: {"path": f"ragweave.serving.studio:{name}", "description": about} for name, about in listed.items()
    }
    return json.dumps(settings, ensure_ascii=False, indent=2) + "\n"


def generated() -> dict[Path, str]:
    """Return every generated file, as it should be."""
    names, settings = ROOT / "src/ragweave/names.py", ROOT / "langgraph.json"
    files = {
        names: with_names(names.read_text("utf-8")),
        settings: langgraph_json(settings.read_text("utf-8")),
    }
    for page, blocks in BLOCKS.items():
        text = (ROOT / page).read_text("utf-8")
        for name, content in blocks.items():
            text = with_block(text, name, content())
        files[ROOT / page] = text
    return files


def main(arguments: list[str]) -> int:
    """Do what the command line asks for; return the exit code."""
    changed = {path: text for path, text in generated().items() if path.read_text("utf-8") != text}
    names = ", ".join(str(path.relative_to(ROOT)) for path in changed)
    if "--check" in arguments and changed:
        sys.stderr.write(f"stale: {names}: run `make sync` and commit the result\n")
        return 1
    for path, text in changed.items():
        path.write_text(text, "utf-8")
    sys.stderr.write(f"{names or 'everything generated is current'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
