"""How near a run comes to the throughput that its model server allows, and what it costs to keep.

A loopback server speaks OpenAI's protocol and answers each call after 100 ms. With c questions in
flight and methods of one call each, the ideal is c / 0.1 s. Beside the run stand two floors: the
model client alone, and the graphs without a run around them. The work can be parted among
processes with `--shards` (the runs' own `--shard i/n`), each with its share of the concurrency.

    python benchmarks/eval_throughput.py --questions 1000 --concurrency 64 --shards 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

DELAY = 0.1
METHODS = "direct,cot,concat,summary"
BODY = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "1900"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 2, "total_tokens": 102},
    }
).encode()
REPLY = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
) + BODY


def serve(port: Any, calls: Any) -> None:
    """Answer every request after `DELAY`, on connections that are kept open."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                await reader.readexactly(length)
                await asyncio.sleep(DELAY)
                calls.value += 1
                writer.write(REPLY)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        port.value = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    asyncio.run(main())


def write_questions(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for at in range(count):
            passage = {"title": f"Town {at}", "text": f"The bridge of town {at} opened in 1900."}
            row = {
                "question": f"When did the bridge of town {at} open?",
                "answers": ["1900"],
                "passages": [{**passage, "gold": True}],
            }
            stream.write(json.dumps(row) + "\n")


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident() -> float:
    """Resident memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def at_once(work: Callable[[int], Awaitable[object]], count: int, most: int) -> float:
    gate = asyncio.Semaphore(most)

    async def one(at: int) -> None:
        async with gate:
            await work(at)

    started = time.perf_counter()
    await asyncio.gather(*(one(at) for at in range(count)))
    return time.perf_counter() - started


def floors(model: str, concurrency: int, count: int) -> dict[str, float]:
    """Calls a second of the client alone and of a one-call graph alone, and their CPU a call."""
    from ragweave.graphs import build_graph
    from ragweave.tools.models import chat_model

    client = chat_model(model)
    graph = build_graph("direct", model=client)

    async def both() -> dict[str, float]:
        found = {}
        works: dict[str, Callable[[int], Awaitable[object]]] = {
            "client": lambda at: client.ainvoke(f"When did the bridge of town {at} open?"),
            "graph": lambda at: graph.ainvoke({"question": f"When did bridge {at} open?"}),
        }
        for name, work in works.items():
            await at_once(work, concurrency, concurrency)
            before = cpu()
            seconds = await at_once(work, count, concurrency)
            found[f"{name}_per_s"] = round(count / seconds, 1)
            found[f"{name}_cpu_ms"] = round((cpu() - before) / count * 1000, 2)
        return found

    return asyncio.run(both())


def shard(directory: str, concurrency: int, ready: Any, go: Any, out: Any) -> None:
    """Go on with a run's shard when told to; report time, CPU and memory."""
    from ragweave.evaluation.runs import RunDirectory, Sitting, evaluate

    memory: list[float] = []
    begun: list[tuple[float, float]] = []

    def tell(tally: Any, record: Any) -> None:
        if record is None:
            return
        if not begun:
            begun.append((time.perf_counter(), cpu()))
        quarter = max(tally.planned // 4, 1)
        if tally.finished % quarter == 0:
            memory.append(round(resident(), 1))

    ready.release()
    go.wait()
    started = time.perf_counter()
    asyncio.run(
        evaluate(RunDirectory(Path(directory)), Sitting(concurrency=concurrency), tell=tell)
    )
    ended = time.perf_counter()
    first, before = begun[0]
    out.put(
        {
            "seconds": ended - started,
            "streaming": ended - first,
            "cpu": cpu() - before,
            "memory_mib": memory,
        }
    )


def measure(folder: Path, model: str, asked: argparse.Namespace) -> dict[str, Any]:
    from ragweave.evaluation.runs import claim_directory, parse_systems, plan

    write_questions(folder / "questions.jsonl", asked.questions)
    context = multiprocessing.get_context("spawn")
    ready, go, out = context.Semaphore(0), context.Event(), context.Queue()
    workers = []
    for part in range(1, asked.shards + 1):
        made = plan(
            f"jsonl:{folder / 'questions.jsonl'}",
            parse_systems(asked.methods),
            {"answer": model},
            shard=(part, asked.shards),
        )
        directory = claim_directory(folder / f"run-{part}", made)
        share = max(1, asked.concurrency // asked.shards)
        args = (str(directory.path), share, ready, go, out)
        workers.append(context.Process(target=shard, args=args))
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    go.set()
    told = [out.get() for _ in workers]
    for worker in workers:
        worker.join()
    done = asked.questions * len(asked.methods.split(","))
    longest = max(one["streaming"] for one in told) + DELAY
    ideal = done * DELAY / asked.concurrency
    return {
        "questions_x_methods": done,
        "ideal_s": round(ideal, 2),
        "streaming_s": round(longest, 2),
        "share_of_ideal_percent": round(ideal / longest * 100, 1),
        "per_s": round(done / longest, 1),
        "cpu_ms_each": round(sum(one["cpu"] for one in told) / done * 1000, 2),
        "with_start_s": round(max(one["seconds"] for one in told), 2),
        "memory_mib_by_quarter": told[0]["memory_mib"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--methods", default=METHODS, help="methods of one call each")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    port, calls = context.Value("i", 0), context.Value("i", 0)
    server = context.Process(target=serve, args=(port, calls), daemon=True)
    server.start()
    while not port.value:
        time.sleep(0.01)
    model = f"openai:m?base_url=http://127.0.0.1:{port.value}/v1&max_retries=0"
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "concurrency": asked.concurrency,
            "shards": asked.shards,
            **floors(model, asked.concurrency, min(asked.questions, 1000)),
            **measure(Path(folder), model, asked),
            "server_calls": calls.value,
        }
    server.terminate()
    text = json.dumps(found, indent=2)
    sys.stdout.write(text + "\n")
    if asked.out:
        asked.out.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
