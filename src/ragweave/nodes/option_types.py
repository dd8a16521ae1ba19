"""Is an option's value of the kind that its type hint names?"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ragweave.errors import UsageError

_WANTED: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


def typed(name: str, value: Any, hint: Any) -> Any:
    """Return an option's value as its hint has it: a path as text, a list as the tuple it stands for.

    Booleans are no numbers and numbers no booleans; a whole number will do for a number. Hints are
    `bool`, `int`, `float`, `str`, `Literal`, `X | None` and `tuple[X, ...]`.

    Raises:
        UsageError: The value is of another kind; the text names the option.
    """
    if get_origin(hint) in (Union, UnionType):
        return _optional(name, value, hint)
    if get_origin(hint) is tuple:
        return _several(name, value, get_args(hint)[0])
    if hint is str and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not _fits(value, hint):
        raise UsageError(f"{name} must be {_wanted(hint)}, not {value!r}")
    return value


def _optional(name: str, value: Any, hint: Any) -> Any:
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if value is None and len(kinds) < len(get_args(hint)):
        return None
    return typed(name, value, kinds[0])


def _several(name: str, value: Any, kind: Any) -> tuple[Any, ...]:
    parts = () if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if not parts or not all(_fits(part, kind) for part in parts):
        raise UsageError(f"{name} must be a list: some of {_listed(kind)}, not {value!r}")
    return parts


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return any(type(one) is type(value) and one == value for one in get_args(kind))
    if kind is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and not math.isnan(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _wanted(kind: Any) -> str:
    return f"one of {_listed(kind)}" if get_origin(kind) is Literal else _WANTED[kind]


def _listed(kind: Any) -> str:
    return ", ".join(map(str, get_args(kind))) or _WANTED[kind]
