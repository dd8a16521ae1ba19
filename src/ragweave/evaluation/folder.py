"""The folder of a run.

    run/
      run.json         the settings; a run can only be resumed with the same ones
      results.jsonl    one line per question and system, written when it is finished
      replies.sqlite   every reply of a model (`tools/replies.py`)
      shard-1-of-8/    or the same three files for each shard

Shards are merged when they are read; no merged file is written.
"""

import json
import os
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError

Record = dict[str, Any]
"""One line of `results.jsonl`."""

_FREE = ("prices",)
"""Settings that may change when a run is resumed: no score depends on them."""


def row(**fields: Any) -> Record:
    """Return a record that holds a training row, or a question."""
    return {"row": fields, "dropped": "", "scores": {}}


def dropped(why: str) -> Record:
    """Return a record of a question that gives no row."""
    return {"row": None, "dropped": why, "scores": {}}


def gone(record: Record) -> Record:
    """Return a record that says that the question of another is no longer in the data."""
    return {name: record[name] for name in ("at", "id", "system")} | {"gone": True}


def write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write a run's settings; if it has begun, compare them with its own.

    Raises:
        UsageError: A setting differs; the text names it.
    """
    if path.exists():
        began = read_settings(path.parent)
        for name in sorted({*began, *settings} - {*_FREE}):
            if began.get(name) != settings.get(name):
                old, new = reprlib.repr(began.get(name)), reprlib.repr(settings.get(name))
                raise UsageError(
                    f"{path.parent}: this run began with {name} = {old}, not {new}: "
                    "resume it with its own settings, or choose another folder with --out"
                )
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_settings(folder: Path) -> dict[str, Any]:
    """Return a run's settings.

    Raises:
        UsageError: The folder does not hold a run.
    """
    try:
        settings: dict[str, Any] = json.loads((folder / "run.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: not a run: its run.json cannot be read ({error})") from error
    return settings


def open_results(path: Path) -> int:
    """Open a file of results for appending, and lock it; an incomplete last line of a killed run is cut off.

    Raises:
        UsageError: Another process has the file open.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise UsageError(f"{path.parent}: another process is working on this run") from error
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        os.ftruncate(file, text.rfind(b"\n") + 1)
    return file


def shards(folder: Path) -> list[Path]:
    """Return the folders that hold a run's results: those of its shards, then its own if it has any, which counts last."""
    paths = sorted(folder.glob("shard-*-of-*"))
    return paths if paths and not (folder / "results.jsonl").exists() else [*paths, folder]


def shard_folder(folder: Path, shard: str) -> Path:
    """Return the folder of shard `2/8` of a run; "": the run's own."""
    return folder / f"shard-{shard.replace('/', '-of-')}" if shard else folder


def read_results(folder: Path) -> Iterator[Record]:
    """Yield the last record of each question and system, over all shards, without questions that left the data.

    Raises:
        UsageError: A line is damaged; an incomplete last one is skipped.
    """
    latest: dict[tuple[str, str], Record] = {}
    for shard in shards(folder):
        path, last = shard / "results.jsonl", dict[tuple[str, str], Record]()
        # Not splitlines(): an answer may hold U+2028 and other characters that it takes for line ends.
        lines = (
            path.read_text("utf-8", "replace").split("\n")[:-1] if path.exists() else []
        )  # the last one is incomplete
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                last[record["id"], record["system"]] = record
            except (ValueError, LookupError, TypeError) as error:
                raise UsageError(
                    f"{path}: line {number} is damaged: delete it, and resume the run, which asks again for what is missing"
                ) from error
        latest |= {key: record for key, record in last.items() if "gone" not in record or shard == folder}
    yield from sorted((last for last in latest.values() if "gone" not in last), key=lambda record: record["at"])
