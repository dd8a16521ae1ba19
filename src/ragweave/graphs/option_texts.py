"""Options as text, from a command line or an environment: read into typed values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, get_origin, get_type_hints

from ragweave.errors import UsageError
from ragweave.graphs.method import Method


def parse_options(texts: Iterable[str], method: Method) -> dict[str, Any]:
    """Read `name=value` texts for a method.

    Values are read as numbers, true/false and none; lists are separated by commas where the
    option takes several; everything else, and what an option takes as text, is text. Names are checked by the method itself.

    Raises:
        UsageError: A text is not of the form `name=value`.
    """
    hints = get_type_hints(method.options)
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--option takes name=value, not {text!r}")
        key = name.strip().replace("-", "_")
        values[key] = read_option(value, hints.get(key))
    return values


def read_option(text: str, hint: Any) -> Any:
    """Read one value: a comma-separated tuple or a text where `hint` is one, else as it looks."""
    if hint is str:
        return text.strip()
    several = get_origin(hint) in (tuple, list)
    return _several(text) if several else _value(text.strip())


def _several(text: str) -> tuple[Any, ...]:
    return tuple(_value(part.strip()) for part in text.split(",") if part.strip())


def _value(text: str) -> Any:
    if text.lower() in ("none", "null"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text
