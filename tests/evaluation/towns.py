"""A small data set with passages, and models that answer from it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from tests.evaluation.files import write_lines
from tests.scripted import ScriptedChat, Seen

from ragweave.evaluation.runs import (
    RunConfig,
    RunDirectory,
    RunResult,
    claim_directory,
    evaluate,
    parse_systems,
    plan,
    records_of,
)

TOWNS = ("Varn", "Lom", "Oskel", "Pirra", "Tesk", "Umber", "Quist", "Jalda", "Norrak", "Feld")


def towns(folder: Path, count: int = 6) -> Path:
    """Write a data set of `count` questions, each with a gold passage and a distractor."""
    rows = []
    for index in range(count):
        town = f"{TOWNS[index % len(TOWNS)]}{index // len(TOWNS) or ''}"
        gold = {
            "title": town,
            "text": f"The bridge of {town} opened in {1900 + index}.",
            "gold": True,
        }
        other = {"title": f"{town} port", "text": f"The port of {town} freezes in winter."}
        rows.append(
            {
                "id": f"t{index}",
                "question": f"When did the bridge of {town} open?",
                "answers": [str(1900 + index)],
                "passages": [other, gold],
            }
        )
    return write_lines(folder / "towns.jsonl", *rows)


def planned(folder: Path, methods: str, *, count: int = 6, **settings: Any) -> RunDirectory:
    """Plan a run over `count` towns in `folder`."""
    path = towns(folder, count)
    models = settings.pop("models", {"answer": "scripted"})
    made = plan(f"jsonl:{path}", parse_systems(methods), models, **settings)
    return claim_directory(folder / "run", made)


def run(directory: RunDirectory, model: Any, **config: Any) -> RunResult:
    """Go on with a run, every role played by `model`."""
    return asyncio.run(evaluate(directory, RunConfig(**config), models={"answer": model}))


def reader() -> ScriptedChat:
    """Return a model that knows the year where the gold passage is in the prompt."""
    return ScriptedChat(replies=read_year, usage=(10, 2))


def read_year(seen: Seen) -> str:
    """Answer with the last year in the passages."""
    years = [
        text.rstrip(".").split()[-1] for text in seen.passages if text.rstrip(".")[-4:].isdigit()
    ]
    return years[0] if years else "Unknown"


def records(directory: RunDirectory) -> list[dict[str, Any]]:
    """Return a run's records in order, without their times and whether these are whole."""
    times = ("seconds", "node_seconds", "resumed")
    found = [
        {key: value for key, value in record.items() if key not in times}
        for record in records_of([directory.results])
    ]
    return sorted(found, key=lambda record: (record["at"], record["system"]))


def prompts(seen: list[Seen]) -> Counter[str]:
    """Count the prompts that a model was asked."""
    return Counter(prompt(one.messages) for one in seen)


def prompt(messages: list[BaseMessage] | list[Mapping[str, Any]]) -> str:
    """Return a prompt as one text."""
    return "\n".join(
        str(one.content if isinstance(one, BaseMessage) else one["content"]) for one in messages
    )
