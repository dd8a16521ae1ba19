"""A worker: a process that answers its part of a run for `evaluate_in_workers`.

It reads its task as a line of JSON from standard input and writes what happens as lines of JSON
to standard output. Where its input ends, it stops: whoever started it is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from typing import IO, Any

from ragweave.errors import RagweaveError
from ragweave.evaluation.metrics import infos_of, primary_metric
from ragweave.evaluation.runs.directory import RunDirectory
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.run import answer, checked
from ragweave.evaluation.runs.sitting import RunConfig
from ragweave.evaluation.runs.tally import Progress
from ragweave.tools.models import status_of

_KEPT = ("at", "id", "system", "spent", "cost", "error", "scoring")


def main() -> None:
    """Do the task that standard input names."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a library prints belongs to no protocol
    try:
        asyncio.run(_work(output))
    except (BrokenPipeError, asyncio.CancelledError):
        os._exit(1)


async def _work(output: IO[str]) -> None:
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    task = json.loads(await orders.readline())
    enough = asyncio.Event()
    watch = asyncio.create_task(_watch(orders, enough, asyncio.current_task()))
    try:
        complete = await _answer(task, output, enough)
    except Exception as error:  # noqa: BLE001 - handed to the process that waits for it
        _say(output, {"error": _plain(error)})
    else:
        _say(output, {"ended": {"complete": complete}})
    watch.cancel()


async def _answer(task: dict[str, Any], output: IO[str], enough: asyncio.Event) -> bool:
    directory = RunDirectory(Path(task["directory"]))
    config = RunConfig.from_plain(task["config"])
    part, parts = task["part"]
    metrics = infos_of(directory.settings.metrics)

    def on_progress(_progress: Progress, record: Record | None) -> None:
        if record is not None:
            primary = primary_metric(record["scoring"], record["scores"], metrics)
            scores = {name: v for name, v in record["scores"].items() if name == primary}
            _say(output, {"record": {key: record[key] for key in _KEPT} | {"scores": scores}})

    dataset = checked(directory.settings, config)
    result = await answer(
        directory,
        config,
        dataset,
        part=(part, parts),
        on_progress=on_progress,
        enough=enough.is_set,
    )
    return result.complete


async def _watch(
    orders: asyncio.StreamReader, enough: asyncio.Event, work: asyncio.Task[None] | None
) -> None:
    while line := await orders.readline():
        if line.strip() == b"enough":
            enough.set()
    if work is not None:
        work.cancel()


def _plain(error: Exception) -> dict[str, Any]:
    """Return an error as JSON values; the traceback of one that nobody expected goes along."""
    status = status_of(error)
    expected = isinstance(error, RagweaveError) or status is not None
    trace = "" if expected else "".join(traceback.format_exception(error))
    text = " ".join(str(error).split())
    return {"kind": type(error).__name__, "text": text, "status": status, "trace": trace}


def _say(output: IO[str], event: dict[str, Any]) -> None:
    output.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main()
