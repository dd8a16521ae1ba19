"""The table of recorded replies: for each step, how many it could read."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

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
            f"{name} {number}"
            for name, number in count.items()
            if name in PARTLY and name != "reply_limit_reached"
        ]
        notes += [f"{name[4:]} {number}" for name, number in count.items() if name[:4] == "why "]
        notes += [f"failed {count['failed']}"] * bool(count["failed"])
        share = f"{100 * read / count['replies']:.1f}"
        cut = str(count["reply_limit_reached"] or "")
        again = str(count["asked again"] or "")
        row = (model, step, form, str(count["replies"]), str(read), share, again, cut)
        table.add_row(*row, ", ".join(notes))
    Console(width=170).print(table)
