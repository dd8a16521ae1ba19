"""The path that a run took, as a tree for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ragweave.cli.record import StepRecord
from ragweave.cli.screen import marked_up


def tree(steps: Iterable[StepRecord]) -> Any:
    """Return a rich tree of a run's steps: times, calls, tokens, what each came to, its notes."""
    from rich.tree import Tree

    root = Tree("run")
    for step in steps:
        branch = root.add(marked_up(line(step)))
        for note in step["notes"]:
            branch.add(marked_up(f"{note['event']} {json.dumps(note['detail'], default=str)}"))
    return root


def line(step: StepRecord) -> str:
    """Say a step in a line."""
    text = f"{step['node']}  {step['seconds'] * 1000:.0f} ms"
    if step["calls"]:
        calls = f"{step['calls']} call{'' if step['calls'] == 1 else 's'}"
        text += f"  {calls}, {step['input_tokens']} + {step['output_tokens']} tokens"
    if step["error"]:
        return f"{text}  ✗ {step['error']}"
    return f"{text}  → {step['found']}" if step["found"] else text
