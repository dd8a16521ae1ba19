"""How near a run comes to the throughput that its model server allows, and what it costs to keep.

A loopback server speaks OpenAI's protocol and answers each call after a set time. With c questions
in flight, methods of one call each and a latency of l seconds, the ideal is c / l calls a second.
Measured are

* the ceiling: the model client alone (ChatOpenAI, no graph, no run), in one process and in several;
* a one-call graph alone;
* whole runs (`ragweave eval --workers N`) at 100 ms;
* one process at longer latencies: from where on it reaches 95% of the ideal.

The server runs on the same machine and takes its share of the cores, which is told too. On a busy
machine (`load` above the number of cores) read `cpu_ms_each`, the processor time, and
`cores_allow_percent`, the share of the ideal at which it fills one core for each worker.

    python benchmarks/eval_throughput.py --out benchmarks/results/eval_throughput.json
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
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LATENCY = 0.1
WAVES = 10
"""How often each place in flight is taken, where latencies are compared."""
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
REPLY = (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)) + BODY


def serve(port: Any, latency: Any) -> None:
    """Answer every request after the latency, on connections that are kept open."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                await reader.readexactly(length)
                await asyncio.sleep(latency.value)
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


def alone(kind: str, model: str, concurrency: int, count: int) -> dict[str, float]:
    """Calls a second of the client, or of a one-call graph, and their processor time a call."""
    from ragweave.evaluation.runs.models import models_of
    from ragweave.graphs import build_graph

    async def measured() -> dict[str, float]:
        async with models_of({"answer": model}, {}) as models:
            client = models["answer"]
            graph = build_graph("direct", model=client)
            works: dict[str, Callable[[int], Awaitable[object]]] = {
                "client": lambda at: client.ainvoke(f"When did the bridge of town {at} open?"),
                "graph": lambda at: graph.ainvoke({"question": f"When did bridge {at} open?"}),
            }
            await at_once(works[kind], concurrency, concurrency)
            before = cpu()
            seconds = await at_once(works[kind], count, concurrency)
            used = (cpu() - before) / count * 1000
            return {"per_s": count / seconds, "seconds": seconds, "cpu_ms": used}

    return asyncio.run(measured())


def alone_in(kind: str, model: str, asked: argparse.Namespace, workers: int) -> dict[str, Any]:
    """The same in several processes at once, the calls parted among them."""
    count, share = asked.calls // workers, asked.concurrency // workers
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        each = [(kind, model, share, share)] * workers
        pool.starmap(alone, each, chunksize=1)  # so that all are started and have imported
        found = pool.starmap(alone, [(kind, model, share, count)] * workers, chunksize=1)
    per_s = count * workers / max(one["seconds"] for one in found)
    return {
        "what": f"{kind} alone",
        "workers": workers,
        "latency_s": LATENCY,
        "per_s": round(per_s, 1),
        "share_of_ideal_percent": share_of_ideal(per_s, asked.concurrency, LATENCY),
        "cpu_ms_each": round(sum(one["cpu_ms"] for one in found) / workers, 2),
    }


def share_of_ideal(per_s: float, concurrency: int, latency: float) -> float:
    return round(per_s * latency / concurrency * 100, 1)


def work(directory: str, concurrency: int, workers: int, out: Any) -> None:
    """Do a run; report its time from the first result on, its processor time and its memory."""
    from ragweave.evaluation.runs import RunConfig, RunDirectory, evaluate_in_workers

    memory: list[float] = []
    begun: list[tuple[float, float, int]] = []

    def tell(progress: Any, record: Any) -> None:
        if record is None:
            return
        if not begun:
            begun.append((time.perf_counter(), cpu(), progress.finished))
        if progress.finished % max(progress.planned // 4, 1) == 0:
            memory.append(round(resident(), 1))

    config = RunConfig(concurrency=concurrency)
    run = RunDirectory(Path(directory))
    result = asyncio.run(evaluate_in_workers(run, config, workers=workers, on_progress=tell))
    first, before, _ = begun[0]
    done = result.progress.answered
    out.put(
        {
            "done": done,
            "streaming": time.perf_counter() - first,
            "cpu_ms": (cpu() - before) / done * 1000,
            "memory_mib": memory,
        }
    )


def measure(
    folder: Path, model: str, asked: argparse.Namespace, workers: int, latency: float, count: int
) -> dict[str, Any]:
    """Time a run of `count` calls."""
    from ragweave.evaluation.runs import claim_directory, parse_systems, plan

    systems = parse_systems(asked.methods)
    questions = folder / f"questions-{count}.jsonl"
    write_questions(questions, count // len(systems))
    made = plan(f"jsonl:{questions}", systems, {"answer": model})
    directory = claim_directory(folder / f"run-{workers}-{latency}", made)
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    args = (str(directory.path), asked.concurrency, workers, out)
    process = context.Process(target=work, args=args)
    process.start()
    told = out.get()
    process.join()
    per_s = told["done"] / (told["streaming"] + latency)
    found = {
        "what": "run",
        "workers": workers,
        "latency_s": latency,
        "answered": told["done"],
        "per_s": round(per_s, 1),
        "share_of_ideal_percent": share_of_ideal(per_s, asked.concurrency, latency),
    }
    if workers == 1:
        found["cpu_ms_each"] = round(told["cpu_ms"], 2)
        found["memory_mib_by_quarter"] = told["memory_mib"]
    return found


@contextmanager
def server() -> Iterator[tuple[str, Any, Callable[[], float]]]:
    """Serve: the model's spec, the latency to set, and the server's processor time so far."""
    context = multiprocessing.get_context("spawn")
    port, latency = context.Value("i", 0), context.Value("d", LATENCY)
    process = context.Process(target=serve, args=(port, latency), daemon=True)
    process.start()
    while not port.value:
        time.sleep(0.01)

    def used() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    try:
        yield f"openai:m?base_url=http://127.0.0.1:{port.value}/v1&max_retries=0", latency, used
    finally:
        process.terminate()


def measured(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield each measurement, with what the server took and how busy the machine was."""
    with server() as (model, latency, used), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        works: list[tuple[float, Callable[[], dict[str, Any]]]] = [
            (LATENCY, lambda n=n, kind=kind: alone_in(kind, model, asked, n))
            for kind in ("client", "graph")
            for n in asked.workers
        ]
        works += [(LATENCY, lambda n=n: measure(folder, model, asked, n, LATENCY, asked.calls)) for n in asked.workers]
        waves = WAVES * asked.concurrency
        works += [
            (seconds, lambda s=seconds: measure(folder, model, asked, 1, s, waves)) for seconds in asked.latencies
        ]
        for seconds, one in works:
            latency.value = seconds
            before = used()
            found = one()
            found["server_cpu_s"] = round(used() - before, 2)
            if "cpu_ms_each" in found:
                allowed = found["workers"] * 1000 / found["cpu_ms_each"]
                share = share_of_ideal(allowed, asked.concurrency, seconds)
                found["cores_allow_percent"] = min(100.0, share)
            found["load"] = round(os.getloadavg()[0], 1)
            sys.stderr.write(json.dumps(found) + "\n")
            yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4000, help="questions x methods at 100 ms")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--latencies", type=float, nargs="*", default=[0.25, 0.5, 1.0, 2.0])
    parser.add_argument("--methods", default=METHODS, help="methods of one call each")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    asked = parser.parse_args()
    found = {
        "cores": os.cpu_count(),
        "concurrency": asked.concurrency,
        "methods": asked.methods,
        "measured": list(measured(asked)),
    }
    text = json.dumps(found, indent=2)
    sys.stdout.write(text + "\n")
    if asked.out:
        asked.out.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
