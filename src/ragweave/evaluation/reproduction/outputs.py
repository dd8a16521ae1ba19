"""Publishing a reproduction: every question's output in one file, without paths and keys.

A line is a question under a row of a table: what was asked and answered, the scores, the ids and
titles of the passages that stood in the prompt, candidates, queries, and the calls. Lines come in
the order of tables, data sets, rows and questions, and hold no times: the same results give the
same file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragweave.evaluation.reproduction.runs import PlannedRun
from ragweave.evaluation.runs import RunDirectory, records_of
from ragweave.evaluation.runs.outcome import Record
from ragweave.tools.files import replacing

PATH, KEY = "[path]", "[key]"
"""What stands in the place of a path or a key."""

_COPIED = ("id", "question", "gold", "answer", "status", "truncated", "scores", "candidates")
_TRACED = ("trace", "retrieved", "kept", "notes", "gold_passages", "usage")

_KEYS = re.compile(
    r"\b(?:sk|pk|rk|hf|gsk|xai|ghp|gho|glpat|AIza)[-_][\w-]{8,}"
    r"|(?i:(?<=bearer )|(?<=api_key=)|(?<=api-key=)|(?<=token=)|(?<=password=))[^\s&\"']+"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 8
"""Characters from which the value of such a variable counts as a key."""

_PATHS = re.compile(
    r"file://[^\s\"'|,;]+|(?<![\w/:.])~?/(?:[^\s/\"'|,;:]+/)+[^\s/\"'|,;:]*"
    r"|\b[A-Za-z]:\\[^\s\"'|,;]+|\\\\[\w.-]+\\[^\s\"'|,;]+"
)


class Scrubber:
    """Takes keys and paths out of what is published."""

    def __init__(self, places: Iterable[Path | None] = ()) -> None:
        """Take the folders and files that the reproduction used."""
        known = [*places, Path.home(), Path.cwd()]
        texts = {str(form) for one in known if one for form in (one, one.absolute(), one.resolve())}
        self._places = sorted((one for one in texts if len(one) > 2), key=len, reverse=True)
        self._keys = sorted(_secrets(), key=len, reverse=True)

    def words(self, value: Any) -> Any:
        """Return what a model or a data set said, without keys and without the places known."""
        return self._walk(value, everywhere=False)

    def about(self, value: Any) -> Any:
        """Return what a program said (settings, ids, errors), without keys and any path at all."""
        return self._walk(value, everywhere=True)

    def _walk(self, value: Any, *, everywhere: bool) -> Any:
        if isinstance(value, str):
            return self._text(value, everywhere=everywhere)
        if isinstance(value, Mapping):
            return {
                self._text(str(key), everywhere=everywhere): self._walk(one, everywhere=everywhere)
                for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._walk(one, everywhere=everywhere) for one in value]
        return value

    def _text(self, text: str, *, everywhere: bool) -> str:
        for secret in self._keys:
            text = text.replace(secret, KEY)
        text = _KEYS.sub(KEY, text)
        for place in self._places:
            text = re.sub(rf"{re.escape(place)}(?:/[^\s\"'|,;:]*)?(?!\w)", PATH, text)
        return _PATHS.sub(PATH, text) if everywhere else text


def _secrets() -> Iterator[str]:
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST:
            yield value


def publish(file: Path, runs: Sequence[PlannedRun], out: Path) -> int:
    """Write every output of a reproduction to one file.

    Args:
        file: The file; replaced where it exists, whole or not at all.
        runs: The runs, in the tables' order.
        out: The reproduction's directory.

    Returns:
        The number of lines.
    """
    places = [out, *(one.path for one in runs), *(one.settings.get("kb") for one in runs)]
    scrubber = Scrubber(place for one in places if one for place in (one, Path(one).parent))
    count = 0
    with replacing(file) as draft, draft.open("w", encoding="utf-8", newline="\n") as stream:
        for run in runs:
            for record in _records(run, out):
                line = published_line(run, record, scrubber)
                stream.write(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n")
                count += 1
    return count


def _records(run: PlannedRun, out: Path) -> list[Record]:
    """Return a run's records by row, then question."""
    directory = RunDirectory(out / run.folder)
    if not directory.results.exists():
        return []
    order = {label: place for place, label in enumerate(run.systems)}
    found = records_of([directory.results])
    return sorted(found, key=lambda one: (order[one["system"]], one["at"]))


def published_line(run: PlannedRun, record: Record, scrubber: Scrubber) -> dict[str, Any]:
    """Return what is published of a record."""
    one = run.systems[record["system"]]
    passages = [
        {name: doc[name] for name in ("id", "title", "gold")} for doc in record.get("passages", ())
    ]
    failed = record["error"] and {"kind": record["error"]["kind"], "text": record["error"]["text"]}
    return {
        "paper": run.table.source,
        "table": run.table.label if run.rows else "questions answered without context",
        "dataset": run.data.dataset,
        "row": record["system"],
        "method": one.method,
        "options": scrubber.about(dict(one.options)),
        "models": scrubber.about({role: _model(spec) for role, spec in run.models.items()}),
        **scrubber.words({name: record[name] for name in _COPIED if name in record}),
        **scrubber.about({name: record[name] for name in _TRACED if name in record}),
        "passages": scrubber.about(passages),
        "error": scrubber.about(failed),
    }


def _model(spec: str) -> str:
    """Return a model's name without its settings (addresses, keys) and folders."""
    name = spec.partition("?")[0]
    provider, colon, rest = name.partition(":")
    if not colon or provider == "llamacpp":
        return f"{provider}:{Path(rest).name}" if colon else Path(name).name
    return f"{provider}:{rest}"
