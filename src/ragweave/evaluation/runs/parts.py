"""Trained parts of a run: named by absolute path, and told apart by their cards.

A part that was trained anew is another model: a run with it can't go on as it began.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from ragweave.errors import UsageError
from ragweave.evaluation.runs.settings import RunSettings
from ragweave.evaluation.runs.systems import System
from ragweave.graphs.trained import filter_option, part_for
from ragweave.tools.filters import FILTERS
from ragweave.tools.parts.spec import absolute_spec
from ragweave.tools.providers import is_part_spec


def settled_models(models: Mapping[str, str]) -> dict[str, str]:
    """Return model specs by role that mean the same in any working directory."""
    return {role: absolute_spec(spec) for role, spec in models.items()}


def settled_systems(systems: Sequence[System]) -> tuple[System, ...]:
    """Return systems whose filters mean the same in any working directory."""
    return tuple(
        dataclasses.replace(one, options={**one.options, "filter": absolute_spec(named)})
        if (named := _filter_of(one))
        else one
        for one in systems
    )


def digests(models: Mapping[str, str], systems: Sequence[System]) -> dict[str, str]:
    """Return, by spec, what tells each part's training from another.

    Raises:
        UsageError: A part is not to be had, unsafe, or trained for another role.
    """
    return {spec: part_for(argument, spec) for argument, spec in _parts(models, systems)}


def check_parts(settings: RunSettings) -> None:
    """Check that a run's parts are still those that it began with.

    Raises:
        UsageError: One is gone, or was trained anew.
    """
    now = digests(settings.models, settings.systems)
    for spec, digest in now.items():
        if settings.parts.get(spec) != digest:
            raise UsageError(
                f"{spec}: was trained anew since the run began; begin a new run in another directory"
            )


def keyed(spec: str, settings: RunSettings) -> str:
    """Return what a model is called in keys of replies: of a part, its training too."""
    digest = settings.parts.get(spec)
    return f"{spec}#{digest}" if digest else spec


def _parts(models: Mapping[str, str], systems: Sequence[System]) -> Iterator[tuple[str, str]]:
    for role, spec in models.items():
        if is_part_spec(spec):
            yield "model" if role == "answer" else role, spec
    for one in systems:
        if named := _filter_of(one):
            yield "filter", named


def _filter_of(system: System) -> str:
    """Return the folder that a system names as its filter; "" where it names none."""
    named = system.options.get("filter")
    if not isinstance(named, str) or named in FILTERS:
        return ""
    return named if filter_option(named) != named else ""
