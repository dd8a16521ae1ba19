"""Values of an option other than its default, and settings in which they must show."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ragweave.errors import UsageError
from ragweave.nodes.options import Options
from ragweave.testing.scripted import Script


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


_SHARED: Mapping[str, list[OptionCase]] = {
    "sample_temperature": [OptionCase(0.1, Setting(options={"samples": 2}))],
    "prompt_tokens": [OptionCase(150), OptionCase(1)],
    "reply_tokens": [OptionCase(9_990, Setting(model={"profile": {"max_input_tokens": 10_000}}))],
    "constrain": [
        OptionCase(True, Setting(model={"offers_grammar": True}, input={"answer_type": kind}))
        for kind in ("short", "yes_no")
    ],
    "timeout": [OptionCase(1e-9)],
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
    if hint is int:
        return [1, 2, 0, 10, (default or 0) + 1]
    if hint is float:
        return [0.0, 1.0, 0.5, (default or 0.0) / 2, 2.0]
    return []
