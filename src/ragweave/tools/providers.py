"""Model providers by name: what stands before the colon of `openai:gpt-4o-mini`.

A provider is declared by one value, ours and other people's alike:

    PROVIDER = ModelProvider(name="echo", spec="echo:WORD", summary="Says WORD.",
                             make=lambda name, settings: EchoChat(word=name, **settings))

A package names it as an entry point of the group `ragweave.models`; it is then what
`--model echo:hello` asks for, in every role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ragweave.errors import UsageError
from ragweave.registry import Registry


@dataclass(frozen=True, kw_only=True)
class ModelProvider:
    """A provider of chat models: its name, and how a model is made."""

    name: str
    spec: str
    """The form of its specs, for people: `openai:NAME`."""
    summary: str
    """What its models are, in a line."""
    make: Callable[[str, Mapping[str, Any]], Any]
    """Makes a LangChain chat model of what stands between the colon and `?` ("" where nothing
    does), and of the settings behind `?`, typed. A `ValueError` or `TypeError` counts as settings
    that are not understood."""


def _ours() -> Iterable[ModelProvider]:
    # By name: the rooms that these stand in build on this one.
    yield from import_module("ragweave.tools.models.specs").PROVIDERS
    yield import_module("ragweave.tools.parts.chat").PART


MODELS: Registry[ModelProvider] = Registry(
    "ragweave.models", ModelProvider, "model provider", _ours
)
"""Every provider by name: ours, then those of other packages (entry points `ragweave.models`)."""

PREFIX = "part:"


class PartSpec(NamedTuple):
    """A part's folder, and the settings that follow it."""

    folder: Path
    """As it was given, `~` filled in."""
    query: str
    """What follows `?`, such as `threshold=0.6`."""


def part_spec(text: str) -> PartSpec | None:
    """Read a text that names a part's folder, or return None where it names none.

    `part:FOLDER` does, and so does a text that looks like a path (`judge/`, `./judge`, `~/judge`)
    or is the name of a folder that is there. `kind:NAME` of a model names none, with a `/` in
    NAME or without.
    """
    marked = text.strip().startswith(PREFIX)
    head, _, query = text.strip().removeprefix(PREFIX).partition("?")
    if not marked and not _is_path(head):
        return None
    return PartSpec(Path(head).expanduser(), query)


def is_part_spec(text: object) -> bool:
    """Tell whether `text` names a part's folder, finished or not."""
    return isinstance(text, str) and part_spec(text) is not None


def existing(folder: Path) -> Path:
    """Return `folder`.

    Raises:
        UsageError: There is none.
    """
    if folder.is_file():
        raise UsageError(
            f"{folder}: is a file, and a trained part is a folder (a GGUF file is llamacpp:{folder})"
        )
    if not folder.is_dir():
        raise UsageError(
            f"{folder}: there is no such folder (a trained part is a folder, another model KIND:NAME)"
        )
    return folder


def _is_model(head: str) -> bool:
    """Tell whether a name is a model provider's, even where a folder is called so."""
    return head in MODELS and f"{head}:" != PREFIX


def _is_path(head: str) -> bool:
    first = head.replace("\\", "/").partition("/")[0]
    if not head or ":" in first or _is_model(head):
        return False
    return first != head or head.startswith(("~", ".")) or Path(head).is_dir()
