"""Pages that are made when the site is built: methods, commands, lists of what has a name, and `llms.txt`."""

from __future__ import annotations

import inspect
import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import typer
from mkdocs.structure.files import File, Files
from typer.main import get_command

from ragweave import METHODS, build_graph
from ragweave.cli.main import app
from ragweave.datasets import FORMATS
from ragweave.evaluation import METRICS
from ragweave.evaluation.reproduce import listing
from ragweave.graphs import Method
from ragweave.graphs.base import Group

ARXIV = {
    "A-RAG": "2602.03442",
    "Adaptive-RAG": "2403.14403",
    "Astute RAG": "2410.07176",
    "BlendFilter": "2402.11129",
    "CRAG": "2401.15884",
    "Chain-of-Note": "2311.09210",
    "Chain-of-Thought": "2201.11903",
    "DFA": "2602.01355",
    "DOS RAG": "2506.03989",
    "FILCO": "2311.08377",
    "FLARE": "2305.06983",
    "IRCoT": "2212.10509",
    "ITER-RETGEN": "2305.15294",
    "MAIN-RAG": "2501.00332",
    "Post-fusion as Fallback": "2308.12574",
    "Question Decomposition": "2507.00355",
    "ReAct": "2210.03629",
    "SKR": "2310.05002",
    "STORM": "2402.14207",
    "Search-R1": "2503.09516",
    "Search-o1": "2501.05366",
    "Self-Ask": "2210.03350",
    "Self-Eval": "2207.05221",
    "SlimPLM": "2402.12052",
    "SuRe": "2404.13081",
    "TARG": "2511.09803",
}
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
RESULTS = Path(__file__).parents[1] / "results.md"


def on_config(config: Any) -> Any:
    """Put the methods into the navigation, and a link to the repository if its address is set."""
    hooks = tomllib.loads(PROJECT.read_text("utf-8"))["tool"]["hatch"]["metadata"]["hooks"]
    if address := hooks["custom"]["repository"]:
        config.repo_url, config.repo_name = address, "Repository"
    for section in config.nav:
        if "Methods" in section:
            section["Methods"] = ["methods.md"] + [
                {group.capitalize(): pages}
                for group in get_args(Group)
                if (pages := [f"methods/{method.name}.md" for method in METHODS.ours() if method.group == group])
            ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages and pictures."""
    rows = measured()
    for method in METHODS.ours():
        picture = build_graph(method)._repr_mimebundle_()["image/svg+xml"]
        files.append(File.generated(config, f"methods/{method.name}.md", content=method_page(method, rows)))
        files.append(File.generated(config, f"methods/{method.name}.svg", content=picture))
    files.append(File.generated(config, "commands.md", content=commands()))
    files.append(File.generated(config, "lists.md", content=lists()))
    files.append(File.generated(config, "llms.txt", content=llms(files)))
    return files


def measured() -> dict[str, list[str]]:
    """Read the table of results.md that has a row for each method: its first row is the head."""
    block = RESULTS.read_text("utf-8").partition("<!-- methods: begin -->")[2].partition("<!-- methods: end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if line[:3] != "|--"]
    return {cells[0].strip("`").partition("[")[0]: cells for cells in rows if len(cells) > 1}


def method_page(method: Method, rows: dict[str, list[str]]) -> str:
    """Return the page of a method."""
    fewest, most = method.calls(method.options())
    cost = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    paper = re.sub("|".join(map(re.escape, ARXIV)), lambda name: f"[{name[0]}]({_arxiv(name[0])})", method.paper)
    own = rows.get(method.name)
    results = (
        [
            table(rows["method"], [own]),
            "HotpotQA and 2WikiMultihopQA, with a small model: [how and when this was measured](../results.md).",
        ]
        if own
        else ["[The results](../results.md) have no row for this method yet."]
    )
    return "\n\n".join(
        [
            f"# {method.name}",
            f"**{method.summary}** {paper}.",
            method.when,
            f"Model calls per question with the default options: **{cost}**.",
            f"![The graph of {method.name}]({method.name}.svg)",
            f'```py\ngraph = build_graph("{method.name}", model="openai:gpt-4o-mini", retriever=retriever)\n```',
            f'```\nragweave ask "…" --kb kb --method {method.name} --model openai:gpt-4o-mini\n```',
            "## Source",
            inspect.getdoc(inspect.getmodule(method.wire)) or "",
            "## Measured",
            *results,
            "## Options",
            options_table(method),
            "## Prompts",
            "Replace any of them [by name](../extend.md#a-prompt).",
            *prompts(method),
        ]
    )


def _arxiv(name: str) -> str:
    return f"https://arxiv.org/abs/{ARXIV[name]}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def lists() -> str:
    """Return the page of the metrics, the formats of data sets, and the papers' tables."""
    return "\n\n".join(
        [
            "# Metrics, formats, papers' tables",
            "## Metrics",
            "`ragweave methods --kind metrics` lists them too. Choose some by `ragweave eval --metrics em,f1`.",
            table(["metric", "what it says", "source"], [[f"`{m.name}`", m.summary, m.source] for m in METRICS.ours()]),
            "## Data set formats",
            "`ragweave methods --kind datasets` lists them too. [How to name a data set](evaluate.md#data-sets).",
            table(["format", "data"], [[f"`{kind.name}`", kind.summary] for kind in FORMATS.ours()]),
            "## Tables and figures of papers",
            "`ragweave reproduce` lists them too. [How to run one](reproduce.md).",
            table(["paper", "table", "shows", "data sets"], listing()),
        ]
    )


def commands() -> str:
    """Return the page of the commands, with each one's arguments and options, as `--help` shows them."""
    group: Any = get_command(app)
    root = typer.Context(group, info_name="ragweave")
    parts = ["# Commands", "`ragweave COMMAND --help` shows the same."]
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        context = typer.Context(command, info_name=name, parent=root)
        records = [parameter.get_help_record(context) for parameter in command.params]
        parts += [
            f"## {name}",
            f"`ragweave {name} {' '.join(command.collect_usage_pieces(context))}`",
            inspect.cleandoc(command.help),
            table(["argument or option", "meaning"], [(f"`{names}`", about) for names, about in filter(None, records)]),
        ]
    return "\n\n".join(parts) + "\n"


def options_table(method: Method) -> str:
    """Return a method's options, its own first, with their descriptions."""
    own = method.options.__annotations__
    fields = sorted(method.options.model_fields.items(), key=lambda item: item[0] not in own)
    rows = []
    for name, field in fields:
        values = [value for value in get_args(field.annotation) if isinstance(value, str)]
        about = (field.description or "") + (f" One of: {', '.join(map(str, values))}." if values else "")
        rows.append([f"`{name}`", f"`{field.default!r}`", about])
    return table(["option", "default", "what it does"], rows)


def prompts(method: Method) -> list[str]:
    """Return a method's prompts, folded: first its own, then those that it shares with most methods."""
    users = Counter(name for other in METHODS.ours() for name in other.prompts)
    shared = {name for name in method.prompts if name != method.name and 2 * users[name] > len(METHODS.ours())}
    texts = {
        name: f'??? note "`{name}`"\n\n' + textwrap.indent(f"```text\n{template.pretty_repr()}\n```", "    ")
        for name, template in method.prompts.items()
    }
    own = [text for name, text in texts.items() if name not in shared]
    rest = "\n\n".join(text for name, text in texts.items() if name in shared)
    return [*own, '??? note "Prompts that methods share"\n\n' + textwrap.indent(rest, "    ")]


def llms(files: Files) -> str:
    """Return `llms.txt`: what this is, and its pages, for language models."""
    pages = [page for page in files.documentation_pages() if "/" not in page.src_uri and page.content_string]
    lines = [f"- [{_title(page)}]({page.url})" for page in pages]
    methods = [
        f"- [{method.name}](methods/{method.name}/): {method.summary} ({method.paper})" for method in METHODS.ours()
    ]
    about = (
        "> Published retrieval-augmented-generation methods as LangGraph graphs: `build_graph(name, model=…, "
        'retriever=…)`, then `graph.invoke({"question": …})["answer"]`.'
    )
    return "\n".join(["# ragweave", "", about, "", "## Pages", "", *lines, "", "## Methods", "", *methods, ""])


def _title(page: File) -> str:
    return next(line[2:] for line in page.content_string.splitlines() if line.startswith("# "))
