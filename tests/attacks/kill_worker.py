"""Works in a child process for each line that it reads; prints the child's id, then how it ended.

A line names the work, its folder and what it needs: `label FOLDER -`, `graph FOLDER -`,
`base FOLDER -`, `cross-encoder FOLDER BASE`, `span-encoder FOLDER BASE`. What it imports is
imported before its fork, so that a child is at work at once. Every prompt that a model answered is a line of
`FOLDER.calls`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUESTIONS = 6
PAUSE = 0.004
"""Seconds that a model takes."""
TRAINED = {"cross-encoder": "judge", "span-encoder": "filter"}
SETTINGS = {"epochs": 2.0, "batch": 4, "save_every": 2, "device": "cpu", "held_out": 0.3}


def model(folder: Path) -> Any:
    """Return a model whose answer depends on the prompt alone, and which logs its calls."""
    from tests.scripted import ScriptedChat, Seen

    log = os.open(folder.with_suffix(".calls"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def says(seen: Seen) -> str:
        text = "\n".join(str(one.content) for one in seen.messages)
        os.write(log, json.dumps(text).encode() + b"\n")
        number = int(hashlib.sha256(text.encode()).hexdigest()[:6], 16)
        return f"So the answer is {1900 + number % 90}"

    return ScriptedChat(replies=says, delay=PAUSE)


def label(folder: Path, _: str) -> None:
    """Label a file of questions for a judge."""
    from ragweave.training.labels import JudgeLabeler, LabelConfig, make_labels, open_source

    make_labels(
        open_source(str(folder / "qa.jsonl")),
        JudgeLabeler(proxy=model(folder), proxy_spec="m"),
        folder / "out.jsonl",
        config=LabelConfig(concurrency=4),
    )


def train(kind: str, folder: Path, base: str) -> None:
    """Train a part, go on with its training, or be told that it is there."""
    from ragweave.errors import UsageError
    from ragweave.trained import is_part
    from ragweave.training.folder import PLAN
    from ragweave.training.train import plan_training, train_part

    part = folder / "part"
    finished = is_part(part)
    plan = plan_training(
        TRAINED[kind],  # type: ignore[arg-type]
        folder / "rows.jsonl",
        part,
        kind=kind,
        settings={**SETTINGS, "base": base, "learning_rate": 3e-3},
    )
    try:
        train_part(plan, resume=(part / PLAN).exists())
    except UsageError:
        if not finished:
            raise


def base(folder: Path, _: str) -> None:
    """Write an encoder that parts are trained from."""
    from tests.tiny_encoder import make_tiny_encoder

    make_tiny_encoder(folder)


def graph(folder: Path, _: str) -> None:
    """Ask the questions of a graph whose checkpoints are on the disk."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from tests.scripted import ListRetriever, documents

    from ragweave import build_graph

    found = documents("The bridge opened in 1932.", "It was painted grey.", "It is long.")
    with SqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as saver:
        made = build_graph(
            "concat_pf",
            model=model(folder),
            retriever=ListRetriever(documents=found),
            checkpointer=saver,
        )
        for number in range(QUESTIONS):
            config: Any = {"configurable": {"thread_id": f"t{number}"}}
            state = made.get_state(config)
            if state.tasks:  # `next` leaves out what is done but not yet joined
                made.invoke(None, config, durability="sync")
            elif not state.values:
                question: Any = {"question": f"When did bridge {number} open?"}
                made.invoke(question, config, durability="sync")


WORK: dict[str, Callable[[Path, str], None]] = {
    "label": label,
    "graph": graph,
    "base": base,
    "cross-encoder": lambda folder, base: train("cross-encoder", folder, base),
    "span-encoder": lambda folder, base: train("span-encoder", folder, base),
}


NEEDS = {
    "label": ("tests.scripted", "ragweave.tools.models", "ragweave.training.labels"),
    "graph": ("tests.scripted", "langgraph.checkpoint.sqlite", "ragweave.graphs"),
    "base": ("tests.tiny_encoder", "torch", "transformers.models.bert", "safetensors.torch"),
    "span-encoder": (
        *("ragweave.training.train", "ragweave.training.encoders.span_encoder"),
        "ragweave.trained.span_network",
    ),
    "cross-encoder": (
        *("ragweave.training.train", "ragweave.training.encoders.cross_encoder"),
        *("accelerate", "datasets", "sentence_transformers.cross_encoder"),
    ),
}
"""What a piece of work imports."""


def load(name: str) -> None:
    """Import what a piece of work needs."""
    for one in NEEDS[name]:
        importlib.import_module(one)
    if name == "base":
        importlib.import_module("torch").set_num_threads(1)


def tell(number: int) -> None:
    """Print a number for the process that waits for it."""
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def main() -> None:
    """Fork for every line."""
    for line in sys.stdin:
        name, folder, place = line.split()
        load(name)
        child = os.fork()
        if child == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            WORK[name](Path(folder), place)
            os._exit(0)
        tell(child)
        _, status = os.waitpid(child, 0)
        tell(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
