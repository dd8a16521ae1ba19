"""What the suites try on a method: passages to ask about, option values, declared costs.

`CARDS` are the passages; nothing in them is true. `cases_of` derives, for each option, values other
than the default and the settings in which they must make a difference. `declared_calls` reads the
number of model calls from a method's `best` and `worst`, such as `(1 + k)·p` or `p, and 2 small`.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.nodes.options import Options
from ragweave.testing.scripted import Script

_TEXTS = (
    "The bridge at Alden was built by Ada Brenner in 1931. Its five arches are of grey granite.",
    "The river Sorre runs under the bridge at Alden. In spring it carries ice from the hills.",
    "Ada Brenner studied in Norhaven and wrote two books on stone arches.",
    "Norhaven has had a school of engineering since 1874.",
    "The town hall at Alden was designed by Karl Oster. It burned down in 1902.",
    "A ferry crossed the Sorre before there was a bridge, and it was the ferryman who rang a bell.",
    "Granite for many bridges came from the quarry at Veld. The quarry closed in 1950.",
    "The lighthouse of Norhaven was lit in 1891.",
)

CARDS = tuple(
    Document(page_content=text, id=f"doc{index}", metadata={"title": f"Card {index}"})
    for index, text in enumerate(_TEXTS)
)
"""Eight passages, of which the first answers "Who built the bridge at Alden?"."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a method is built and asked for one run."""

    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of `build_graph`: `embeddings`, `scorer`, `filter`, …"""
    input: Mapping[str, Any] = field(default_factory=dict)
    """More of the graph's input: `passages`, `answer_type`, `gold_answers`."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """More of the scripted models: `profile`, `offers_grammar`."""
    replies: Script = ()
    """What the models reply in this setting; empty: what the suite's script says."""
    finds: bool = True
    """Whether the retriever finds anything."""

    def joined(self, more: Setting) -> Setting:
        """Return this setting with what `more` says, which goes first."""
        tables = {
            name: {**getattr(self, name), **getattr(more, name)}
            for name in ("options", "parts", "input", "model")
        }
        return Setting(
            **tables, replies=more.replies or self.replies, finds=self.finds and more.finds
        )

    def with_options(self, **values: Any) -> Setting:
        """Return this setting with more options."""
        return dataclasses.replace(self, options={**self.options, **values})


@dataclass(frozen=True)
class OptionCase:
    """A value at which an option shows, where it takes more than the value itself to see it."""

    value: Any
    setting: Setting = field(default_factory=Setting)
    """What holds both in the run with the option's default and in the run with `value`."""
    raises: bool = False
    """Whether an error that ends the run with `value` is what the option does; else it is none."""


_SMALL_CONTEXT = Setting(model={"profile": {"max_input_tokens": 10_000}})

_SHARED: Mapping[str, list[OptionCase]] = {
    "sample_temperature": [OptionCase(0.1, Setting(options={"samples": 2}))],
    "prompt_tokens": [OptionCase(150), OptionCase(1, raises=True)],
    "reply_tokens": [
        OptionCase(9_850, _SMALL_CONTEXT),
        OptionCase(9_990, _SMALL_CONTEXT, raises=True),
    ],
    "constrain": [
        OptionCase(False, Setting(model={"offers_grammar": True}, input={"answer_type": kind}))
        for kind in ("short", "yes_no")
    ],
    "profile": [OptionCase("paper"), OptionCase("slimplm")],
    "unknown": [OptionCase(False), OptionCase(True)],
    "ask_again": [OptionCase(False, Setting(replies=["<passage 1>"]))],
    "timeout": [OptionCase(1e-9, raises=True)],
}
"""Cases of the options that every method has."""


def cases_of(
    options: type[Options], name: str, own: Mapping[str, OptionCase]
) -> Iterator[OptionCase]:
    """Yield cases of the option `name`: the caller's own, or what its type and default suggest."""
    if name in own:
        yield own[name]
        return
    if name in _SHARED:
        yield from _SHARED[name]
        return
    default = next(one.default for one in dataclasses.fields(options) if one.name == name)
    for value in others(get_type_hints(options)[name], default):
        yield OptionCase(value)


def accepted(options: type[Options], values: Mapping[str, Any]) -> bool:
    """Say whether the options' class takes these values."""
    try:
        options(**values)
    except UsageError:
        return False
    return True


def others(hint: Any, default: Any) -> list[Any]:
    """Return values of a type hint other than the default; none for a text."""
    values = [one for one in _values(hint, default) if one != default or type(one) is bool]
    return [one for one in values if one is not default]


def _values(hint: Any, default: Any) -> list[Any]:
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return [one for kind in kinds for one in _values(kind, default)] + [None]
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) is tuple:
        return [(one,) for one in default or ()]
    if hint is bool:
        return [not default]
    number = default if isinstance(default, int | float) else 0
    if hint is int:
        return [1, 2, 0, 10, number + 1]
    if hint is float:
        return [0.0, 1.0, 0.5, number / 2, 2.0]
    return []


_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def declared_calls(text: str, options: Options, more: Mapping[str, float]) -> float | None:
    """Return the calls to all models that a declared cost comes to; None: it can't be computed.

    Names are `p` (samples), options by name, and the limit `max_NAME` for `NAME`. What comes "in
    sequence" counts nothing, calls to "small" models count as calls.

    Args:
        text: The cost.
        options: The options of the run.
        more: Values of other names.
    """
    total = 0.0
    for part in text.split(","):
        clause = part.strip().removeprefix("and ")
        if clause.endswith("in sequence"):
            continue
        value = _value(clause.removesuffix("small").strip(), _names(options, more))
        if value is None:
            return None
        total += value
    return total


def _names(options: Options, more: Mapping[str, float]) -> dict[str, Any]:
    names: dict[str, Any] = {"p": options.samples}
    for one in dataclasses.fields(options):
        value = getattr(options, one.name)
        names |= {one.name: value, one.name.removeprefix("max_"): value}
    return {**names, **more}


def _value(text: str, names: Mapping[str, Any]) -> float | None:
    sum_of = re.sub(r"(?<=\d)(?=[a-z(])", "*", text.replace("·", "*").replace("'", "_prime"))
    try:
        return _computed(ast.parse(sum_of, mode="eval").body, names)
    except (SyntaxError, LookupError):
        return None


def _computed(node: ast.expr, names: Mapping[str, Any]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name):
        value = names[node.id]
        if isinstance(value, int | float):
            return value
    if isinstance(node, ast.BinOp):
        work = _OPERATORS[type(node.op)]
        return work(_computed(node.left, names), _computed(node.right, names))
    raise LookupError(ast.dump(node))
