"""The answers that `real_models.py` publishes: what they were made of, and runs that go on from them.

A published answer is a run's record without what is its machine's. A run goes on from those of its
own settings alone: what a table was made of stands in it as `made`, and earlier tables name their
models alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.runs import RunConfig, RunDirectory, System, records_of
from ragweave.evaluation.runs.directory import hold
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.run import checked

USAGE = ("calls", "input_tokens", "output_tokens")
_KEPT = ("at", "id", "system", "scoring", "answer", "status", "truncated", "scores", "notes")
_MACHINE = frozenset({"n_gpu_layers", "n_threads", "n_kept", "cache_ram", "repack", "api_key"})
"""Settings of a model that say where and how fast it runs, not what it says."""


def model_name(spec: str) -> str:
    """Return a model's whole name: no settings, and of a local file or folder no path."""
    name = spec.partition("?")[0]
    kind, _, place = name.partition(":")
    if kind == "llamacpp":
        return Path(place).name.removesuffix(".gguf")
    return f"{kind}:{Path(place).name}" if place and Path(place).expanduser().exists() else name


def made_of(directory: RunDirectory, systems: Sequence[System]) -> dict[str, Any]:
    """Return what a run's answers depend on, without what is this machine's: places and speed.

    Args:
        directory: The run.
        systems: Its systems, before what they learn from was put into their options.
    """
    settings, asked = directory.settings, {one.label for one in directory.settings.systems}
    named = ("dataset_hash", "corpus", "passages", "gold", "oracle")
    listed = [one.plain() for one in systems if one.label in asked]
    return {
        **{name: getattr(settings, name) for name in named},
        "models": {role: _told(spec) for role, spec in settings.models.items()},
        "systems": {one["label"]: {name: one[name] for name in ("method", "options")} for one in listed},
    }


def _told(spec: str) -> str:
    """Return a model's name with the settings that change what it says."""
    parts = spec.partition("?")[2].split("&")
    said = sorted(one for one in parts if one and one.partition("=")[0] not in _MACHINE)
    return "?".join(filter(None, [model_name(spec), "&".join(said)]))


def begin(
    place: Path,
    directory: RunDirectory,
    made: Mapping[str, Any],
    before: Mapping[str, Any],
    *,
    go_on: bool,
) -> int:
    """Begin a run with the published answers that it lacks; return how many.

    Those of a system that has other options today are not its answers any more.

    Args:
        place: The table's published answers; there may be none.
        directory: The run.
        made: What the run is made of.
        before: What the published answers are made of; empty: that was not written down.
        go_on: Whether the run is to have them.

    Raises:
        UsageError: They are of other settings or of another question, or `go_on` is false: what
            the run writes would take their place.
    """
    ours = made["systems"]
    theirs = before.get("systems", ours)
    same = {label for label in ours if theirs.get(label, ours[label]) == ours[label]}
    own = {_pair(one) for one in records_of([directory.results]) if not one["error"]}
    rows = [one for one in _read(place) if one["system"] in same and _pair(one) not in own]
    if not rows:
        return 0
    for name in made.keys() - {"systems"}:
        if before.get(name, made[name]) != made[name]:
            raise UsageError(
                f"{place}: is of another {name}: {before[name]}, now {made[name]}; give that, or another --results"
            )
    if not go_on:
        raise UsageError(
            f"{place}: has {len(rows)} answers that this run lacks; go on from them with "
            "--published, or give another --results"
        )
    _check_ids(place, rows, [one.id for one in checked(directory.settings, RunConfig())])
    with hold(directory), directory.results.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(_restored(one), ensure_ascii=False) + "\n" for one in rows)
    return len(rows)


def _read(place: Path) -> list[Record]:
    if not place.exists():
        return []
    lines = place.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _pair(record: Record) -> tuple[int, str]:
    return record["at"], record["system"]


def _check_ids(place: Path, rows: Sequence[Record], ids: Sequence[str]) -> None:
    for one in rows:
        found = ids[one["at"]] if one["at"] < len(ids) else "none"
        if one["id"] != found:
            raise UsageError(f"{place}: question {one['at']} is {one['id']!r}, and {found!r} in the data set")


def _restored(row: Record) -> Record:
    """Return a published answer as a run's record: what a table is made of, and no more."""
    usage = {name: row[name] for name in USAGE}
    kept = {key: value for key, value in row.items() if key not in USAGE}
    spent = {"paid": {}, "cached": {}}
    nothing = {"error": None, "scoring": "short", "spent": spent, "cost": None}
    return {**nothing, **kept, "usage": usage}


def publish(place: Path, directory: RunDirectory) -> None:
    """Write a run's answers: ids, answers, scores and costs; the questions are the data set's."""
    answered = [one for one in records_of([directory.results]) if not one["error"]]
    lines = sorted(json.dumps(_output(one), ensure_ascii=False) for one in answered)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _output(record: Record) -> dict[str, Any]:
    spent = {name: record["usage"][name] for name in USAGE}
    return {key: record[key] for key in _KEPT if key in record} | spent
