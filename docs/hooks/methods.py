"""A page a method, from its file: paper, picture, cost, options, prompts."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ragweave.graphs.method import Method

from ragweave import METHODS
from ragweave.graphs.build import drawable
from ragweave.nodes.options import field_texts
from ragweave.tools.drawing import draw_svg, shape_of


def methods_page() -> str:
    """Return the page that lists the methods."""
    rows = [
        f"| [`{one.name}`]({one.name}.md) | {one.summary} | {_cost(one)} | {one.paper} |"
        for one in METHODS.ours()
    ]
    return "\n".join(
        [
            "# Methods",
            "",
            'Every method takes `{"question"}` and gives `question`, `answer`, `status`, '
            "`passages`, `candidates` and `usage`: swap them by name.",
            "Calls are given for the best and the worst case, with k passages a query "
            "(5 unless said otherwise) and p self-consistency samples (1).",
            "",
            "| name | what it does | model calls | paper |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def method_page(name: str) -> str:
    """Return the page of a method."""
    method = METHODS[name]
    about = inspect.getdoc(inspect.getmodule(method.options)) or ""
    return "\n".join(
        [
            f"# {name}",
            "",
            f"**{method.summary}**",
            "",
            about,
            "",
            f"Paper: {method.paper}.",
            "",
            "## When to use it",
            "",
            method.when,
            "",
            "## Cost",
            "",
            f"Model calls a question: **{_cost(method)}** (k passages a query, p samples).",
            "",
            "## Picture",
            "",
            f"![The graph of {name}]({name}.svg)",
            "",
            f"Dashed edges are choices. `ragweave draw {name}` prints it as mermaid text.",
            "",
            "## Use",
            "",
            "```py",
            "from ragweave import build_graph",
            "",
            f'graph = build_graph("{name}", model="openai:gpt-4o-mini", retriever=retriever)',
            'graph.invoke({"question": "…"})["answer"]',
            "```",
            "",
            "## Options",
            "",
            "Set them when the graph is built, or for one run: "
            '`graph.invoke(x, context={"k": 8})`.',
            "",
            "| option | default | values | what it does |",
            "|---|---|---|---|",
            *option_rows(method.options),
            "",
            *_prompts(method),
        ]
    )


def picture(name: str) -> str:
    """Return the picture of a method's graph, drawn here."""
    return draw_svg(shape_of(drawable(name).get_graph()), title=f"The graph of {name}")


def option_rows(options: type[Any]) -> list[str]:
    """Return a table row for each option; the texts are the docstrings below the fields."""
    texts = field_texts(options)
    own = list(vars(options).get("__annotations__", {}))
    hints = get_type_hints(options)
    fields = sorted(dataclasses.fields(options), key=lambda field: field.name not in own)
    return [
        f"| `{field.name}` | `{field.default!r}` | {_cell(_values(hints[field.name], str(field.type)))} "
        f"| {_cell(texts[field.name], code=False)} |"
        for field in fields
    ]


def _values(hint: Any, written: str) -> str:
    """Say which values an option takes: those of a literal, else its type as written."""
    return ", ".join(map(str, get_args(hint))) if get_origin(hint) is Literal else written


def _cell(text: str, *, code: bool = True) -> str:
    """Write a table's cell; a bar would end it."""
    plain = text.replace("|", "\\|")
    return f"`{plain}`" if code else plain


def _cost(method: Method) -> str:
    best, worst = method.best, method.worst
    return best if best == worst else f"{best}; at worst {worst}"


def _prompts(method: Method) -> list[str]:
    lines = [
        "## Prompts",
        "",
        "Replace any of them by name: see [your own prompt](../howto/prompt.md).",
    ]
    for name, template in method.prompts.items():
        body = textwrap.indent(f"```text\n{template.pretty_repr()}\n```", "    ")
        lines += ["", f'??? note "`{name}`"', "", body]
    return [*lines, ""]
