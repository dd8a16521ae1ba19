"""What a run compares: methods with their options, each under a label."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_type_hints

from ragweave.errors import UsageError
from ragweave.graphs import METHODS
from ragweave.graphs.build import method_named, method_options
from ragweave.graphs.method import Method
from ragweave.graphs.option_texts import parse_options
from ragweave.nodes.options import Options

_PART = re.compile(r"[^,\[\]]+(?:\[[^\[\]]*\])?")


@dataclass(frozen=True, kw_only=True)
class System:
    """A method with options, as one column of a report."""

    label: str
    """How reports call it: `concat`, or `concat[k=10]`."""
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def resolved(self) -> Options:
        """Return the method's options with these values.

        Raises:
            UsageError: The method or an option is unknown, or a value is out of range.
        """
        return method_options(method_named(self.method), self.options)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"options": json.loads(json.dumps(dict(self.options)))}


def system(method: str, label: str = "", **options: Any) -> System:
    """Return a checked system, labelled with its options where no label is given.

    Raises:
        UsageError: The method or an option is unknown, or a value is out of range.
    """
    shown = ",".join(f"{name}={_shown(value)}" for name, value in options.items())
    made = System(
        label=label or (f"{method}[{shown}]" if shown else method), method=method, options=options
    )
    made.resolved()
    return made


def parse_systems(text: str, shared: Mapping[str, Any] | None = None) -> list[System]:
    """Read `direct,concat[k=10,order=reversed],blendfilter[queries=question+external]`.

    Args:
        text: Methods, comma-separated; options in brackets; `+` joins the parts of a list; `all`
            stands for every method.
        shared: Options for each method that has them.

    Raises:
        UsageError: Text that is no such list, an unknown method or option, or a label that comes
            twice.
    """
    if text.strip() == "all":
        text = ",".join(METHODS)
    parts = [part.strip() for part in _PART.findall(text) if part.strip()]
    if not parts or ",".join(parts).replace(" ", "") != text.replace(" ", "").strip(","):
        raise UsageError(f"methods {text!r}: give names with commas between, such as direct,concat")
    found = [_parsed(part, shared or {}) for part in parts]
    labels = [one.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"methods: {label!r} comes twice")
    for name in shared or {}:
        if not any(name in one.options for one in found):
            raise UsageError(f"none of these methods has an option {name!r}")
    return found


def _parsed(part: str, shared: Mapping[str, Any]) -> System:
    name, _, inside = part.partition("[")
    method = method_named(name.strip())
    own = _options(inside.rstrip("]"), method)
    known = get_type_hints(method.options)
    options = {**{key: value for key, value in shared.items() if key in known}, **own}
    return system(method.name, part if own else method.name, **options)


def _options(text: str, method: Method) -> Mapping[str, Any]:
    parts = [one.strip() for one in text.split(",")]
    return parse_options([one.replace("+", ",") for one in parts if one], method)


def _shown(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
