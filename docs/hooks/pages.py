"""Pages that are made when the site is built: one for each method, and `llms.txt`."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any, get_args

from mkdocs.structure.files import File, Files

from ragweave import METHODS, build_graph
from ragweave.graphs import Method
from ragweave.graphs.base import Group


def on_config(config: Any) -> Any:
    """Put the methods into the navigation, and keep it for `llms.txt`."""
    for section in config.nav:
        if "Methods" in section:
            section["Methods"] = [
                {group.capitalize(): pages}
                for group in get_args(Group)
                if (pages := [f"methods/{one.name}.md" for one in METHODS.ours() if one.group == group])
            ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages and pictures."""
    for one in METHODS.ours():
        graph = build_graph(one)
        picture = graph._repr_mimebundle_()["image/svg+xml"]
        files.append(File.generated(config, f"methods/{one.name}.md", content=method_page(one)))
        files.append(File.generated(config, f"methods/{one.name}.svg", content=picture))
    files.append(File.generated(config, "llms.txt", content=llms(files)))
    return files


def method_page(one: Method) -> str:
    """Return the page of a method."""
    fewest, most = one.calls(one.options())
    cost = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return "\n\n".join(
        [
            f"# {one.name}",
            f"**{one.summary}** {one.paper}.",
            one.when,
            f"Model calls per question with the default options: **{cost}**. [What we measured](../results.md).",
            f"![The graph of {one.name}]({one.name}.svg)",
            f'```py\ngraph = build_graph("{one.name}", model="openai:gpt-4o-mini", retriever=retriever)\n```',
            f'```\nragweave ask "…" --kb kb --method {one.name} --model openai:gpt-4o-mini\n```',
            "## Source",
            inspect.getdoc(inspect.getmodule(one.wire)) or "",
            "## Options",
            options_table(one),
            "## Prompts",
            "Replace any of them [by name](../extend.md#a-prompt).",
            *prompts(one),
        ]
    )


def options_table(one: Method) -> str:
    """Return a method's options, its own first, with their descriptions."""
    own = one.options.__annotations__
    fields = sorted(one.options.model_fields.items(), key=lambda item: item[0] not in own)
    rows = ["| option | default | what it does |", "|---|---|---|"]
    for name, field in fields:
        values = [value for value in get_args(field.annotation) if isinstance(value, str)]
        about = (field.description or "") + (f" One of: {', '.join(map(str, values))}." if values else "")
        rows.append(f"| `{name}` | `{field.default!r}` | {about.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def prompts(one: Method) -> list[str]:
    """Return a method's own prompts, folded."""
    return [
        f'??? note "`{name}`"\n\n' + textwrap.indent(f"```text\n{template.pretty_repr()}\n```", "    ")
        for name, template in one.prompts.items()
    ]


def llms(files: Files) -> str:
    """Return `llms.txt`: what this is, and its pages, for language models."""
    pages = [one for one in files.documentation_pages() if "/" not in one.src_uri and one.content_string]
    lines = [f"- [{_title(one)}]({one.url})" for one in pages]
    methods = [f"- [{one.name}](methods/{one.name}/): {one.summary} ({one.paper})" for one in METHODS.ours()]
    about = (
        "> Published retrieval-augmented-generation methods as LangGraph graphs: `build_graph(name, model=…, "
        'retriever=…)`, then `graph.invoke({"question": …})["answer"]`.'
    )
    return "\n".join(["# ragweave", "", about, "", "## Pages", "", *lines, "", "## Methods", "", *methods, ""])


def _title(page: File) -> str:
    return next(line[2:] for line in page.content_string.splitlines() if line.startswith("# "))
