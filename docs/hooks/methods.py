"""A page a method, from its file: paper, picture, cost, options, prompts."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from langchain_core.runnables import RunnableLambda

from ragweave import METHODS, build_graph
from ragweave.graphs import Method
from ragweave.nodes.options import Options, make_options
from ragweave.tools.drawing import draw_svg


def methods_page() -> str:
    """Return the page that lists the methods."""
    rows = [f"| [`{one.name}`]({one.name}.md) | {one.summary} | {_cost(one)} | {one.paper} |" for one in METHODS.ours()]
    return "\n".join(
        [
            "# Methods",
            "",
            'Every method takes `{"question"}` and gives `question`, `answer`, `status`, `passages`, `candidates` and '
            "`usage`: swap them by name. Model calls are those of one question with the default options, at best and "
            "at worst.",
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
    about = inspect.getdoc(inspect.getmodule(method.wire)) or ""
    return "\n".join(
        [
            *(f"# {name}", "", f"**{method.summary}**", "", about, "", f"Paper: {method.paper}.", ""),
            *("## When to use it", "", method.when, ""),
            *("## Cost", "", f"Model calls a question, with the default options: **{_cost(method)}**.", ""),
            *("## Picture", "", f"![The graph of {name}]({name}.svg)", ""),
            f"Dashed edges are choices. `ragweave methods {name} --mermaid` prints it as mermaid text.",
            *("", "## Use", "", "```py", "from ragweave import build_graph", ""),
            f'graph = build_graph("{name}", model="openai:gpt-4o-mini", retriever=retriever)',
            *('graph.invoke({"question": "…"})["answer"]', "```", "", "## Options", ""),
            'Set them when the graph is built, or for one run: `graph.invoke(x, context={"k": 8})`.',
            *("", "| option | default | values | what it does |", "|---|---|---|---|"),
            *option_rows(method.options),
            *("", *_prompts(method)),
        ]
    )


def picture(name: str) -> str:
    """Return the picture of a method's graph, drawn here."""
    model: Any = RunnableLambda(lambda asked: asked)
    return draw_svg(build_graph(name, model=model).get_graph(), title=f"The graph of {name}")


def option_rows(options: type[Options]) -> list[str]:
    """Return a table row for each option, the method's own first."""
    own = vars(options).get("__annotations__", {})
    fields = sorted(options.model_fields.items(), key=lambda item: item[0] not in own)
    schema = options.model_json_schema()["properties"]
    return [
        f"| `{name}` | `{field.default!r}` | {_cell(_values(schema[name]))} | {_text(field.description or '')} |"
        for name, field in fields
    ]


def _values(schema: dict[str, Any]) -> str:
    """Say which values an option takes: those of a literal, else its type."""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return ", ".join(map(_values, schema["anyOf"]))
    if "const" in schema:
        return str(schema["const"])
    items = schema.get("items")
    return f"some of {_values(items)}" if items else str(schema.get("type", ""))


def _text(text: str) -> str:
    """Write a table's cell; a bar would end it."""
    return text.replace("|", "\\|")


def _cell(text: str) -> str:
    return f"`{_text(text)}`" if text else ""


def _cost(method: Method) -> str:
    best, worst = method.calls(make_options(method.options, {}))
    return str(best) if best == worst else f"{best} to {worst}"


def _prompts(method: Method) -> list[str]:
    lines = ["## Prompts", "", "Replace any of them by name: see [your own prompt](../howto/prompt.md)."]
    for name, template in method.prompts.items():
        body = textwrap.indent(f"```text\n{template.pretty_repr()}\n```", "    ")
        lines += ["", f'??? note "`{name}`"', "", body]
    return [*lines, ""]
