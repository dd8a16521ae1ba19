"""Recorded replies about made-up towns: rows in the form of the data set format `recorded`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOWNS = ("Alden", "Veld", "Norhaven", "Sorre", "Tarn", "Osk", "Meer", "Lund")


def row(number: int, *, none: str, one: str, many: str, said: str = "") -> dict[str, Any]:
    """Return a row about the bridge of a town, whose gold answer is Ada Brenner."""
    reasoning = said or f"The bridge was built by {none}. So the answer is: {none}."
    return {
        "id": f"q{number}",
        "question": f"Who built the bridge at {TOWNS[number % len(TOWNS)]}, number {number}?",
        "answers": ["Ada Brenner"],
        "no_retrieval": {"answer": none, "said": [json.dumps(reasoning), none]},
        "one_round": {"answer": one, "said": []},
        "ircot": {"answer": many, "said": []},
    }


ROWS = [
    row(0, none="Ada Brenner", one="Ada Brenner", many="Karl Oster"),
    row(1, none="Karl Oster", one="Ada Brenner", many="Ada Brenner"),
    row(2, none="Karl Oster", one="Karl Oster", many="Ada Brenner"),
    row(3, none="Karl Oster", one="Karl Oster", many="Karl Oster"),
]
"""Right without retrieval, after one round, after many rounds, and never."""


def written(path: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    """Write rows as JSON lines."""
    lines = [json.dumps(one) for one in (ROWS if rows is None else rows)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
