"""Systems as text: `METHOD`, or `METHOD[option=value,…]`; several are separated by commas.

Several values of one option are joined by `+` or, outside brackets, by commas: `queries=question,internal`.
`proxy:METHOD` is answered by the proxy in the place of the answering model.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

from ragweave.errors import UsageError
from ragweave.graphs.base import Method
from ragweave.graphs.registry import METHODS
from ragweave.nodes.options import Options, make_options
from ragweave.tools.filters import FILTERS, FilterName
from ragweave.tools.providers import trained_folder

_SPEC = re.compile(r"(proxy:)?([\w.]+)(?:\[(.*)\])?", re.DOTALL)


def split_systems(text: str) -> list[str]:
    """Split at the commas that are not within brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def read_system(spec: str, shared: Mapping[str, str] | None = None) -> tuple[Method, dict[str, Any], bool]:
    """Return a system's method, its options, and whether the proxy answers.

    Args:
        spec: `METHOD[option=value,…]`.
        shared: Options as text, for each method that has them.

    Raises:
        UsageError: There is no such method or option, or a value is out of its range.
    """
    match = _SPEC.fullmatch(spec.strip())
    if not match:
        raise UsageError(f"a system is METHOD or METHOD[option=value,…], not {spec!r}")
    method = METHODS.named(match[2])
    fields = method.options.model_fields
    given = read_pairs(pair for pair in (match[3] or "").split(",") if pair.strip())
    texts = {name: text for name, text in (shared or {}).items() if name in fields} | given
    text = texts.get("filter", "")
    own = "filter" in fields and text not in get_args(FilterName) and (text in FILTERS or trained_folder(text))
    # A trained filter's folder, or a package's: `build_graph` opens it.
    opened = {"filter": texts.pop("filter")} if own else {}
    return method, {**read_options(method.options, texts), **opened}, bool(match[1])


def read_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Read `name=value` texts.

    Raises:
        UsageError: One has no `=`.
    """
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"an option is name=value, not {text!r}")
        pairs[name.strip().replace("-", "_")] = value.strip()
    return pairs


def read_options(options: type[Options], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a method's options from text, each with its own type; they are those that the text names.

    Raises:
        UsageError: There is no such option, or a value is out of its range; the text names it.
    """
    given = {name: _value(options, name, text) for name, text in texts.items()}
    checked = make_options(options, given)
    return {name: getattr(checked, name) for name in given}


def _value(options: type[Options], name: str, text: str) -> Any:
    annotation = options.model_fields[name].annotation if name in options.model_fields else None
    kinds = (annotation, *get_args(annotation))
    if text == "none" and type(None) in kinds and not any("none" in get_args(kind) for kind in kinds):
        return None
    many = any((get_origin(kind) or kind) in (tuple, list, set, frozenset) for kind in kinds)
    return re.split(r"[+,]", text) if many else text
