"""What a method's file says about it beside its wiring, and how its options are read from text.

A method is declared by one value in its own file, ours and other people's alike:

    METHOD = Method(name="draft_check", summary="…", paper="…", when="…", best="2", worst="2",
                    options=DraftCheckOptions, build=build, prompts=answer_prompts("concat"))

A package names it as an entry point of the group `ragweave.methods`; a notebook hands it to
`register_method`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from langchain_core.prompts import ChatPromptTemplate

from ragweave.errors import UsageError
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.nodes.answer import PROMPTS
from ragweave.nodes.options import Options, is_known_hint
from ragweave.nodes.sufficiency import PROMPTS as RATING
from ragweave.nodes.wording import variants
from ragweave.tools.models import Role

FUSION = "Liu et al. 2024, Post-fusion as Fallback"

_NAME = re.compile(r"[a-z][a-z0-9_]*")

ARGUMENTS = frozenset(
    {
        *("name", "model", "retriever", "proxy", "judge", "rewriter", "filter_model"),
        *("scorer", "judge_scorer", "embeddings", "second_retriever", "prompts", "checkpointer"),
        *("retry_policy", "state", "generator", "kb", "search", "trained_filter"),
    }
)
"""What `build_graph`, the command line's `--option` and Studio take for any method, beside `filter`,
which is an option where a method has one: no other option can be called so."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method: what it is, when to use it, what it costs, how it is built."""

    name: str
    """How it is asked for: lower-case letters, digits and underscores."""
    summary: str
    """What it does, in a line."""
    paper: str
    """Where it was published."""
    when: str = ""
    """When to use it, and when not."""
    best: str
    """Model calls in the best case (k passages, p samples)."""
    worst: str
    """Model calls in the worst case."""
    options: type[Options]
    """Its options, a frozen dataclass with the paper's values as defaults."""
    build: Callable[[Parts[Any]], CompiledGraph]
    """Wires and compiles its graph."""
    prompts: Mapping[str, ChatPromptTemplate] = field(default_factory=dict)
    """The prompt templates that a caller may replace, by name."""
    roles: Callable[[Any], Iterable[Role]] = lambda _options: ()
    """From its options to the roles, beside `answer`, in which it may ask a model."""
    searches_again: bool = False
    """Whether it looks again with `second_retriever`, where one is given."""
    files: frozenset[str] = frozenset()
    """The options that name a file or folder: Studio's remote callers may not set them, and an
    evaluation keeps their absolute paths and the digests of their files."""

    def __post_init__(self) -> None:
        """Check the declaration.

        Raises:
            UsageError: The name is not one, `options` is not derived from `Options`, or one of them
                can't work: by its name, or by its type.
        """
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                "a method's name must consist of lower-case letters, digits and underscores, "
                f"not {self.name!r}"
            )
        if not issubclass(self.options, Options):
            raise UsageError(f"the options of {self.name} must be a dataclass derived from Options")
        _check_options(self.name, self.options)
        object.__setattr__(self, "files", frozenset(self.files))
        names = {one.name for one in dataclasses.fields(self.options)}
        if unknown := sorted(self.files - names):
            raise UsageError(f"{self.name}: files names {unknown[0]!r}, which is no option of it")

    @property
    def templates(self) -> Mapping[str, ChatPromptTemplate]:
        """All templates that a caller may replace: its own, and those of a rating that any may ask."""
        return {**RATING, **self.prompts}


def _check_options(method: str, options: type[Options]) -> None:
    """Refuse options that would be taken for something else, or whose values can't be checked."""
    shared = {one.name for one in dataclasses.fields(Options)}
    hints = get_type_hints(options)
    for name in (one.name for one in dataclasses.fields(options)):
        if name in ARGUMENTS:
            raise UsageError(
                f"{method}: an option cannot be called {name!r}: build_graph, the command line or "
                "Studio takes that for every method"
            )
        if name not in shared and (name in _KEPT or hasattr(Options, name)):
            raise UsageError(
                f"{method}: an option cannot be called {name!r}: Options uses that name itself"
            )
        if not is_known_hint(hints[name]):
            raise UsageError(
                f"{method}: the option {name!r} cannot have the type {hints[name]}: it must be bool, "
                "int, float, str, a Literal, a tuple[X, ...] of these, or several with |"
            )


_KEPT = frozenset({"given_names", "as_given"})
"""What options keep beside their values."""


def answer_prompts(*names: str, printed: bool = True) -> Mapping[str, ChatPromptTemplate]:
    """Return the answer step's templates of these names.

    Args:
        names: Their names.
        printed: Whether each comes in its papers' words too (`NAME@PAPER`).
    """
    return variants(PROMPTS, *names) if printed else {name: PROMPTS[name] for name in names}


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
    if hint is str or text.strip() in _names(hint):
        return text.strip()
    several = get_origin(hint) in (tuple, list)
    return _several(text) if several else _value(text.strip())


def _names(hint: Any) -> set[Any]:
    """Return the values that a `Literal`, or one within a union, names."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    unions = (Union, UnionType)
    return set().union(*map(_names, get_args(hint))) if get_origin(hint) in unions else set()


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
