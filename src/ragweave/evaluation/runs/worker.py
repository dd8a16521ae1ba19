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
from ragweave.evaluation.runs.sitting import Sitting
from ragweave.evaluation.runs.tally import Tally
from ragweave.tools.models import status_of

_KEPT = ("at", "id", "system", "spent", "cost", "error", "scoring")


def main() -> None:
    """Do the task that standard input names."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a library prints belongs to no protocol
    try:
        asyncio.run(_work(told))
    except (BrokenPipeError, asyncio.CancelledError):
        os._exit(1)


async def _work(told: IO[str]) -> None:
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    task = json.loads(await orders.readline())
    enough = asyncio.Event()
    watch = asyncio.create_task(_watch(orders, enough, asyncio.current_task()))
    try:
        complete = await _answer(task, told, enough)
    except Exception as fault:  # noqa: BLE001 - handed to the process that waits for it
        _say(told, {"fault": _plain(fault)})
    else:
        _say(told, {"ended": {"complete": complete}})
    watch.cancel()


async def _answer(task: dict[str, Any], told: IO[str], enough: asyncio.Event) -> bool:
    directory = RunDirectory(Path(task["directory"]))
    sitting = Sitting.from_plain(task["sitting"])
    part, parts = task["part"]
    metrics = infos_of(directory.settings.metrics)

    def tell(_tally: Tally, record: Record | None) -> None:
        if record is not None:
            primary = primary_metric(record["scoring"], record["scores"], metrics)
            scores = {name: v for name, v in record["scores"].items() if name == primary}
            _say(told, {"record": {key: record[key] for key in _KEPT} | {"scores": scores}})

    dataset = checked(directory.settings, sitting)
    ended = await answer(
        directory, sitting, dataset, part=(part, parts), tell=tell, enough=enough.is_set
    )
    return ended.complete


async def _watch(
    orders: asyncio.StreamReader, enough: asyncio.Event, work: asyncio.Task[None] | None
) -> None:
    while line := await orders.readline():
        if line.strip() == b"enough":
            enough.set()
    if work is not None:
        work.cancel()


def _plain(fault: Exception) -> dict[str, Any]:
    """Return a fault as JSON values; the traceback of one that nobody expected goes along."""
    status = status_of(fault)
    expected = isinstance(fault, RagweaveError) or status is not None
    trace = "" if expected else "".join(traceback.format_exception(fault))
    text = " ".join(str(fault).split())
    return {"kind": type(fault).__name__, "text": text, "status": status, "trace": trace}


def _say(told: IO[str], event: dict[str, Any]) -> None:
    told.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main()
