"""Shows the results of the attacks in their page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MARK = "<!-- attacks -->"
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "attacks.json"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the table in the place of its mark."""
    if MARK not in markdown:
        return markdown
    if not RESULTS.exists():
        return markdown.replace(MARK, "No long form has been run on this copy yet.")
    return markdown.replace(MARK, table(json.loads(RESULTS.read_text("utf-8"))["attacks"]))


def table(rows: list[dict[str, Any]]) -> str:
    """Return the results as a Markdown table."""
    lines = ["| attack | trials | failures | expected failures |", "|---|---:|---:|---:|"]
    lines += [
        f"| {row['attack']} | {row['trials']} | {row['failures']} | {row['known failures']} |"
        for row in rows
    ]
    return "\n".join(lines)
