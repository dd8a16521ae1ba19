"""What a run takes from outside its directory: named by absolute path, identified by digests.

A run may be resumed from any directory. A trained part that was trained again, another recording
or another file of training questions is other input: a run that began with the old one cannot be
resumed with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragweave.datasets.rows import file_hash
from ragweave.errors import UsageError
from ragweave.evaluation.runs.settings import RunSettings, System
from ragweave.graphs.build import filter_option, part_for
from ragweave.tools.filters import FILTERS
from ragweave.tools.models.specs import PREFIX, is_part_spec
from ragweave.tools.retrieval.embedding import PACKAGED
from ragweave.trained.card import absolute_spec, inspect_part, is_part

_LOCAL = ("hf", "llamacpp", "recorded")
"""Providers whose models are files of this machine (those of `hf` may be named as on the hub)."""

_RERANKERS = ("cross-encoder", "bi-encoder")
"""Kinds of rerankers whose models may be folders of this machine."""

_PATHS = ("router", "training", "embedding", "encoder")
"""Options that name a file or folder; the last two, also a model that is packaged or on the hub."""


def absolute_model(spec: str) -> str:
    """Return a model's spec that means the same in any working directory.

    Raises:
        UsageError: It names a trained part that is not there.
    """
    kind, colon, rest = spec.strip().partition(":")
    return f"{kind}{colon}{_absolute(rest)}" if kind in _LOCAL else absolute_spec(spec)


def absolute_reranker(spec: str) -> str:
    """Return a reranker's spec that means the same in any working directory."""
    kind, colon, rest = spec.partition(":")
    return f"{kind}{colon}{_absolute(rest)}" if kind in _RERANKERS else _absolute(spec)


def absolute_systems(systems: Sequence[System]) -> tuple[System, ...]:
    """Return systems whose options mean the same in any working directory."""
    return tuple(
        replace(one, options={name: _option(name, value) for name, value in one.options.items()})
        for one in systems
    )


def with_absolute_paths(settings: RunSettings) -> RunSettings:
    """Return settings as today's version writes them: earlier ones kept most paths as given."""
    return replace(
        settings,
        models={role: absolute_model(spec) for role, spec in settings.models.items()},
        systems=absolute_systems(settings.systems),
        rerank=absolute_reranker(settings.rerank),
        judge_model=absolute_model(settings.judge_model),
    )


def _option(name: str, value: Any) -> Any:
    if not isinstance(value, str | os.PathLike):
        return value
    text = os.fspath(value)
    if name == "filter" and _is_folder(text):
        return absolute_spec(text)
    return _absolute(text) if name in _PATHS else text


def _absolute(text: str) -> str:
    """Return a path that is there as an absolute one; settings may follow `?`."""
    head, mark, query = text.partition("?")
    path = Path(head).expanduser()
    if not head or head == PACKAGED or not path.exists():
        return text
    return f"{path.parent.resolve() / path.name}{mark}{query}"  # a link to a file keeps its name


def digests(models: Mapping[str, str], systems: Sequence[System]) -> dict[str, str]:
    """Return by spec or path the digest that identifies each part's training, and each file.

    Raises:
        UsageError: A part is missing, unsafe, or trained for another role.
    """
    found = {spec: part_for(argument, spec) for argument, spec in _parts(models, systems)}
    for one in systems:
        router = one.options.get("router")
        if isinstance(router, str) and router and is_part(Path(router).expanduser()):
            found[router] = inspect_part(f"{PREFIX}{router}")[1]
    return found | {name: file_hash(path) for name, path in _files(models, systems)}


def check_parts(settings: RunSettings) -> None:
    """Check that a run's parts and files are still those that it began with.

    Earlier versions recorded no digest of some: those are taken as they are.

    Raises:
        UsageError: One is missing, was trained again or has changed.
    """
    now = digests(settings.models, settings.systems)
    for spec, digest in settings.parts.items():
        if spec not in now:
            raise UsageError(f"{spec}: is missing; the run began with it")
        if now[spec] != digest:
            part = spec.startswith(PREFIX) or Path(spec).is_dir()
            said = "was trained again after" if part else "has changed since"
            raise UsageError(f"{spec}: {said} the run began; start a new run in another directory")


def _parts(models: Mapping[str, str], systems: Sequence[System]) -> Iterator[tuple[str, str]]:
    for role, spec in models.items():
        if is_part_spec(spec):
            yield "model" if role == "answer" else role, spec
    for one in systems:
        named = one.options.get("filter")
        if isinstance(named, str) and _is_folder(named):
            yield "filter", named


def _files(models: Mapping[str, str], systems: Sequence[System]) -> Iterator[tuple[str, Path]]:
    """Yield recordings and files of training questions; who needs one that is missing says so."""
    named = {one: one.partition(":")[2] for one in models.values() if one.startswith("recorded:")}
    given = [one.options.get("training") for one in systems]
    named |= {one: one for one in given if isinstance(one, str)}
    for name, text in named.items():
        path = Path(text.partition("?")[0]).expanduser()
        if path.is_file():
            yield name, path


def _is_folder(named: str) -> bool:
    """Return whether the option `filter` names a trained part's folder."""
    return named not in FILTERS and filter_option(named) != named
