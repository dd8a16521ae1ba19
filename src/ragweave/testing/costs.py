"""Model calls that a method declares, read from its `best` and `worst`: `(1 + k)·p`, `p, and 2 small`."""

from __future__ import annotations

import ast
import dataclasses
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from ragweave.nodes.options import Options

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
