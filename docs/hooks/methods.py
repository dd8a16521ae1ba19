"""A page a method, from its file: paper, picture, cost, options, prompts."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ragweave import METHODS
from ragweave.graphs.method import Method
from ragweave.graphs.picture import drawable
from ragweave.tools.drawing import draw_svg, shape_of

WHEN = {
    "direct": "To know what the model knows by itself: the baseline of any comparison. With "
    "`retrieve=True` it is the plainest RAG there is.",
    "cot": "A baseline for questions that take several steps of reasoning, with a model that "
    "can reason.",
    "concat": "The everyday choice where calls are dear: one prompt, one call. It may say Unknown "
    "though the answer stands in a passage.",
    "post_fusion": "Where passages are long or distract from one another, and k calls a question "
    "are acceptable. A wrong majority can vote a right answer down.",
    "pruning": "One call, with a model that follows a worked example: it first rules passages out.",
    "summary": "One call, with a model that follows a worked example: it first sums up what helps.",
    "concat_pf": "The recommended start: Concat's price on most questions, and k more calls only "
    "where there would be no answer at all.",
    "pf_concat": "Where quality is worth k + 1 calls on each question: passages that gave no "
    "answer are dropped, and the candidates help to decide.",
    "blendfilter": "Multi-hop questions, and retrievers that bring much that is off-topic. Eleven "
    "calls a question, of which five in sequence.",
    "slimplm": "Many easy questions, a dear model and a small one at hand: the small one decides "
    "when and what to retrieve, and the big one is called once.",
    "filco": "Long passages of which a sentence helps. The paper's scores need a filter trained "
    "on its labels; without one, sentences are scored against the question.",
    "adaptive": "As a laboratory: every part of the four papers, each of which can be switched "
    "off. Start with all of it, look at the trace, switch off what does not earn its calls.",
    "iter_retgen": "Questions whose answer's words find better passages than the question's; a "
    "baseline of BlendFilter and SlimPLM.",
    "self_ask": "Multi-hop questions, with a model that asks good follow-up questions.",
    "react": "Multi-hop questions, with a model that keeps to the Thought and Action format.",
    "flare": "Long answers, with a model that reports log-probabilities: it looks up what it is "
    "unsure of while it writes.",
    "self_eval": "Where some questions need no retrieval and the model can tell which.",
    "skr_knn": "Where you have training questions labelled with whether retrieval helped "
    "(`ragweave label needed`).",
}
"""When to use each method; a test says that none is missing."""


def methods_page() -> str:
    """Return the page that lists the methods."""
    rows = [
        f"| [`{one.name}`]({one.name}.md) | {one.summary} | {_cost(one)} | {one.paper} |"
        for one in METHODS.values()
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
            WHEN[name],
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


def field_texts(options: type[Any]) -> dict[str, str]:
    """Return the docstring below each field of a dataclass, inherited ones included."""
    texts: dict[str, str] = {}
    for kind in reversed(options.__mro__[:-1]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for node, below in itertools.pairwise(body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                texts[node.target.id] = " ".join(str(below.value.value).split())
    return texts


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
