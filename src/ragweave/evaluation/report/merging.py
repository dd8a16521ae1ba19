"""Which runs are shards of one experiment, and which are runs of their own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.runs.references import with_absolute_paths
from ragweave.evaluation.runs.settings import RunSettings


def key_of(settings: RunSettings, found: Mapping[str, RunSettings]) -> str:
    """Return the key of the experiment that a run is part of: what was trained anew makes another.

    Earlier versions recorded fewer digests: those that both runs have must agree.

    Args:
        settings: The run's settings.
        found: Those of a run of each experiment so far, by key.
    """
    same = _same(settings)
    keys = (f"{same} {number}" for number in itertools.count())
    return next(key for key in keys if key not in found or _fits(settings, found[key]))


def _fits(one: RunSettings, other: RunSettings) -> bool:
    """Say whether runs have the same parts; several servers of a model may share a run's shards."""
    sharded = max(one.shard[1], other.shard[1]) > 1
    return _agree(one.parts, other.parts) and (sharded or _agree(one.addresses, other.addresses))


def _agree(parts: Mapping[str, str], others: Mapping[str, str]) -> bool:
    return all(parts[spec] == others[spec] for spec in parts.keys() & others.keys())


def _same(settings: RunSettings) -> str:
    with suppress(UsageError):  # a part or package that the run had may not be here
        settings = with_absolute_paths(settings)
    plain: dict[str, Any] = settings.plain() | dict.fromkeys(
        ("shard", "versions", "parts", "addresses", "moved")
    )
    return json.dumps(plain, sort_keys=True)


def check_apart(
    path: Path,
    settings: RunSettings,
    first: RunSettings,
    shards: Mapping[tuple[int, int], Path],
) -> None:
    """Check that a run has no question in common with the shards that it would be merged with.

    Args:
        path: The run's directory.
        settings: Its settings.
        first: The settings of the experiment's first run.
        shards: The experiment's directories by shard.

    Raises:
        UsageError: It may have some.
    """
    other = shards[first.shard]
    if settings.shard in shards:
        raise UsageError(f"{path}: shard {_shard(settings)} of this run is named twice")
    if first.shard[1] != settings.shard[1]:
        raise UsageError(
            f"{path}: is shard {_shard(settings)} of a run of which {other} is shard "
            f"{_shard(first)}: they may share questions; report them one at a time"
        )


def _shard(settings: RunSettings) -> str:
    return "/".join(map(str, settings.shard))
