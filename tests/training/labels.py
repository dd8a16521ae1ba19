"""Small label files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CITIES = ("paris", "rome", "london", "hamlet", "snow", "river", "mountain", "dog", "bird", "cat")


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSON lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def filter_row(at: int) -> dict[str, Any]:
    """Return a row whose second sentence is to be kept."""
    city = CITIES[at % len(CITIES)]
    sentences = ["A cat saw a dog.", f"The city {city} is the capital {at}.", "Snow is blue."]
    start = len(sentences[0]) + 1
    return {
        "id": str(at),
        "question": f"what is the capital {city} {at}?",
        "answers": [city],
        "passages": [{"id": "p", "title": "city", "text": " ".join(sentences)}],
        "spans": [{"passage_id": "p", "start": start, "end": start + len(sentences[1])}],
    }


def judge_row(at: int) -> dict[str, Any]:
    """Return a row whose draft is known if it names a city at once, and unknown if it hedges."""
    known = at % 2 == 0
    draft = f"It is {CITIES[at % len(CITIES)]}." if known else "I do not know; it is not clear and may be none."
    return {"id": str(at), "question": f"What is the capital {at}?", "draft": draft, "known": known}


def router_row(at: int) -> dict[str, Any]:
    """Return a row: known without search, after one round, or after many."""
    kind = at % 3
    draft = (
        "So the answer is: Paris.",
        "It is not known. So the answer is: unknown.",
        "So the answer is: both 7 and 8.",
    )[kind]
    question = ("Where is it?", "Who wrote the play?", "Did both of the rivers of the same city run north?")[kind]
    right = {"none": kind == 0, "one": kind == 1, "many": kind == 2}
    return {"id": str(at), "question": f"{question} {at}", "draft": draft, "right": right}
