"""The table of recorded replies: for each step, how many it could read."""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.reply_readers import as_meant

ANNOTATED = Path(__file__).parents[1] / "tests" / "recorded"

UNREAD = (
    "need_unparsed",
    "judge_unparsed",
    "topic_unparsed",
    "filter_unparsed",
    "rewrite_unparsed",
    "step_unparsed",
    "answer_rejected",
    "empty_reply",
    "draft_empty",
)
"""Notes of a step that could not read its reply."""
PARTLY = ("records_dropped", "rewrite_truncated", "reply_limit_reached", "search_repeated")
"""Notes of a step that read its reply but for a part."""

Key = tuple[str, str, str]


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a recording."""
    with gzip.open(path, "rt", encoding="utf-8") as lines, suppress(EOFError):
        yield from map(json.loads, lines)  # a recording that was killed has no end


def counts(calls: Iterable[dict[str, Any]]) -> dict[Key, Counter[str]]:
    """Return, for each model, step and form, how many replies there are and how they were read.

    A step that asks again has its notes for both its replies: what was rejected counts with the
    first, and with the second where it was rejected twice. The knowledge filter's first turn looks
    at the passages, and its second one names them. A prompt that several methods send counts once.
    """
    found: dict[Key, Counter[str]] = defaultdict(Counter)
    seen: set[str] = set()
    for call in calls:
        once = repr((call["model"], call["prompt"], call["grammar"], call.get("reply")))
        if once in seen:
            continue
        seen.add(once)
        form = "grammar" if call["grammar"] else "free text"
        count = found[call["model"], step_of(call), form]
        count["replies"] += 1
        events = [note["event"] for note in call["notes"]]
        if "error" in call or "parser_failed" in call:
            count["failed"] += 1
        elif reason := _unread(call, events):
            count["unread"] += 1
            count[f"why {reason}"] += 1
        count["asked again"] += bool(call["turn"]) and "asked_again" in events
        for event in {one for one in events if one in PARTLY}:
            count[event] += 1
    return dict(found)


def rows_of(found: dict[Key, Counter[str]]) -> list[dict[str, Any]]:
    """Return the counts as rows, by model, step and form."""
    return [dict(zip(_KEY, key, strict=True)) | dict(sorted(count.items())) for key, count in sorted(found.items())]


def read_as_meant() -> list[dict[str, Any]]:
    """Return, for each step and form of the annotated replies, how many are read as meant."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for path in sorted(ANNOTATED.glob("*[0-9]*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            count = found[step_of(record), "grammar" if record["grammar"] else "free text"]
            count["replies"] += 1
            count["as meant"] += as_meant(record)
    return [{"step": step, "form": form, **count} for (step, form), count in sorted(found.items())]


def write(path: Path, recordings: Iterable[Path], *, add: bool = False) -> None:
    """Write the table of recordings, what they rest on, and the annotated replies' table.

    What stands there of a model that was recorded anew is replaced, or added to; the rest is kept.
    """
    calls, runs = [], []
    for one in recordings:
        found = list(read_lines(one))
        calls += found
        runs += runs_of(one, found)
    questions: dict[str, Counter[str]] = defaultdict(Counter)
    for model, dataset, _ in {(one["model"], one["dataset"], one["id"]) for one in runs}:
        questions[model][dataset] += 1
    finished = Counter(one["model"] for one in runs if "error" not in one)
    steps = counts(calls)
    before = json.loads(path.read_text("utf-8"))["recorded"] if path.exists() else {}
    for model, asked in before.get("questions", {}).items():
        if add or model not in questions:
            questions[model].update(asked)
            finished[model] += before["runs finished"][model]
    recorded = {model for model, *_ in steps}
    for row in before.get("steps", ()):
        if add or row["model"] not in recorded:
            key = row["model"], row["step"], row["form"]
            count = {name: value for name, value in row.items() if name not in _KEY}
            steps.setdefault(key, Counter()).update(count)
    table = {
        "recorded": {
            "questions": {model: dict(one) for model, one in sorted(questions.items())},
            "runs finished": dict(sorted(finished.items())),
            "steps": rows_of(steps),
        },
        "annotated": read_as_meant(),
    }
    path.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", "utf-8")


_KEY = ("model", "step", "form")


def runs_of(recording: Path, calls: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each question and method of a recording.

    Beside a log of calls there is no file of questions: they are those that the calls answer.
    """
    questions = recording.with_name(recording.name.replace("-calls.", "-questions."))
    if questions.exists():
        return list(read_lines(questions))
    keys = ("model", "method", "dataset", "id")
    named = {tuple(one[key] for key in keys) for one in calls if one["role"] == "answer"}
    return [dict(zip(keys, one, strict=True)) for one in sorted(named)]


def step_of(call: dict[str, Any]) -> str:
    """Return the step that a call belongs to."""
    if call["node"] == "knowledge_filter" and "ONLY the ids" not in call["prompt"][-1][1]:
        return "knowledge_filter: look"
    return str(call["node"])


def _unread(call: dict[str, Any], events: list[str]) -> str:
    """Return why a reply could not be read, or ""."""
    own = [event for event in events if event in UNREAD]
    if step_of(call) == "knowledge_filter: look":
        own = [] if call["reply"].strip() else ["empty_reply"]
    lost = own[call["turn"] :] if "asked_again" in events else own
    return lost[0] if lost else ""


def print_table(calls: Iterable[dict[str, Any]]) -> None:
    """Print the counts, a line a model, step and form."""
    table = Table("model", "step", "form", "replies", "read", "%", "again", "cut", "notes")
    for (model, step, form), count in sorted(counts(calls).items()):
        read = count["replies"] - count["unread"] - count["failed"]
        notes = [
            f"{name} {number}" for name, number in count.items() if name in PARTLY and name != "reply_limit_reached"
        ]
        notes += [f"{name[4:]} {number}" for name, number in count.items() if name[:4] == "why "]
        notes += [f"failed {count['failed']}"] * bool(count["failed"])
        share = f"{100 * read / count['replies']:.1f}"
        cut = str(count["reply_limit_reached"] or "")
        again = str(count["asked again"] or "")
        row = (model, step, form, str(count["replies"]), str(read), share, again, cut)
        table.add_row(*row, ", ".join(notes))
    Console(width=170).print(table)
