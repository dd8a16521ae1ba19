"""What `ragweave serve` carries: many clients at once, time to an answer, /health, and memory over many requests.

    python benchmarks/serving.py                    # all rows, 200 clients
    python benchmarks/serving.py lexical --requests 5000 --serve "--workers 2"
    python benchmarks/serving.py lexical --clients 50 --serve "--workers 2" --kb pg:postgresql://host/db#new

With `--kb`, the articles lie at that address, and another process replaces one source there again and again.

Each row starts a server in a process of its own over the bundled articles and asks their questions by 200 clients, each
of which asks again as soon as it has an answer, and waits as long as `Retry-After` says after a 429. Rows:
`lexical`, the extractive model without embeddings; `extractive`, with MiniLM; `slow`, a fake of OpenAI's API that takes a
second for each reply; `slow-64`, the same with `--concurrency 64`. Seconds are from a question's first sending to its
answer. Appends to `benchmarks/results/serving.jsonl`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

RESULTS = Path(__file__).parent / "results" / "serving.jsonl"
QUESTIONS = Path(__file__).parents[1] / "tests" / "corpus_questions.jsonl"
RAGWEAVE = [sys.executable, "-m", "ragweave"]
ROWS = {
    "lexical": (20_000, "extractive?similarity=lexical", "none", []),
    "extractive": (1_000, "extractive", "", []),
    "slow": (600, "", "none", []),
    "slow-64": (2_000, "", "none", ["--concurrency", "64"]),
}
"""Requests, model (empty: the slow fake), embedding model (empty: the default), options of `serve`."""


WRITER = """
import sys
from langchain_core.documents import Document
from ragweave.tools.knowledge import open_knowledge_base
with open_knowledge_base(sys.argv[1]) as kb:
    number = 0
    while True:
        kb.index_documents([Document(f"State {number} of Alden, part {at}.") for at in range(20)], "changing")
        number += 1
        print(number, flush=True)
"""


@dataclass
class Load:
    """What the clients have seen so far."""

    requests: int
    sent: int = 0
    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    failed: int = 0
    health: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)


async def slow_fake(port: int) -> None:
    """Serve a fake of OpenAI's API whose replies take a second."""

    async def reply(request: Request) -> Response:
        await asyncio.sleep(1)
        message, head = {"role": "assistant", "content": "Blending queries."}, {"id": "x", "created": 0, "model": "x"}
        choice = {"index": 0, "finish_reason": "stop"}
        if not (await request.json()).get("stream"):
            return JSONResponse({**head, "object": "chat.completion", "choices": [{**choice, "message": message}]})
        chunk = {**head, "object": "chat.completion.chunk", "choices": [{**choice, "delta": message}]}
        return Response(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n", media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/chat/completions", reply, methods=["POST"])])
    await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning")).serve()


def memory_of(pid: int) -> int:
    """Return the resident memory of a process and its children, in MiB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20 + sum(memory_of(int(child)) for child in children)


async def ask(client: httpx.AsyncClient, load: Load, questions: list[str]) -> None:
    """Ask one question after another until enough are answered."""
    while load.sent < load.requests:
        load.sent += 1
        message = {"role": "user", "content": questions[load.sent % len(questions)]}
        started = time.perf_counter()
        while True:
            try:
                reply = await client.post("/v1/chat/completions", json={"model": "concat", "messages": [message]})
            except httpx.HTTPError:
                load.failed += 1
                break
            if reply.status_code == 200:
                load.seconds.append(time.perf_counter() - started)
                break
            if reply.status_code != 429:
                load.failed += 1
                break
            load.refused += 1
            await asyncio.sleep(float(reply.headers["retry-after"]))


def watch(url: str, load: Load, pid: int, ended: threading.Event) -> None:
    """Ask for /health twice a second, and note the memory."""
    while not ended.wait(0.5):
        started = time.perf_counter()
        with urllib.request.urlopen(f"{url}/health") as reply:
            reply.read()
        load.health.append(time.perf_counter() - started)
        load.memory.append(memory_of(pid))


async def measured(url: str, pid: int, requests: int, clients: int) -> Load:
    """Put a server under load."""
    questions = [json.loads(line)["question"] for line in QUESTIONS.read_text("utf-8").splitlines()]
    load, ended = Load(requests), threading.Event()
    watching = asyncio.create_task(asyncio.to_thread(watch, url, load, pid, ended))
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients, keepalive_expiry=2)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        await asyncio.gather(*(ask(client, load, questions) for _ in range(clients)))
    ended.set()
    await watching
    return load


@contextmanager
def writer(kb: str, written: Path) -> Iterator[None]:
    """Replace a source again and again; each time is a line of a file."""
    with written.open("w") as lines, subprocess.Popen([sys.executable, "-c", WRITER, kb], stdout=lines) as process:
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def server(kb: str, model: str, options: list[str], folder: Path) -> Iterator[tuple[str, int]]:
    """Start `ragweave serve`; yield its URL and process id."""
    command = [*RAGWEAVE, "serve", "concat", "--kb", kb, "--model", model, "--port", "0", *options]
    log = folder / "log"  # a pipe that nobody reads would stop the server once it is full
    with log.open("w") as errors, subprocess.Popen(command, stderr=errors) as process:
        while not (match := re.search(r"at (http://\S+)/v1", log.read_text())):
            time.sleep(0.2)
        while not listens(f"{match[1]}/health"):
            time.sleep(0.2)
        try:
            yield match[1], process.pid
        finally:
            process.terminate()


def listens(url: str) -> bool:
    """Return whether a server answers."""
    try:
        httpx.get(url)
    except httpx.TransportError:
        return False
    return True


def quantile(values: list[float], share: float) -> float:
    """Return a quantile, rounded to milliseconds."""
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 3)


def row(name: str, requests: int, clients: int, more: list[str], address: str) -> dict[str, Any]:
    """Measure one row."""
    usual, model, embedding, options = ROWS[name]
    with tempfile.TemporaryDirectory() as folder:
        kb, written = address or f"{folder}/kb", Path(folder, "written")
        own = ["--embedding", embedding] if embedding else []
        subprocess.run([*RAGWEAVE, "index", "--bundled", "--kb", kb, *own], check=True, capture_output=True)
        fake = None
        if not model:
            fake = subprocess.Popen([sys.executable, __file__, "--fake", "8765"])
            model = "openai:x?base_url=http://127.0.0.1:8765/v1&api_key=none"
            while not listens("http://127.0.0.1:8765"):
                time.sleep(0.2)
        try:
            beside = writer(kb, written) if address else nullcontext()
            with server(kb, model, [*options, *more], Path(folder)) as (url, pid), beside:
                started = time.perf_counter()
                load = asyncio.run(measured(url, pid, requests or usual, clients))
                seconds = time.perf_counter() - started
        finally:
            if fake:
                fake.terminate()
        writes = written.read_text().count("\n") if address else 0
    fifth = load.memory[len(load.memory) // 5 :]
    return {
        "row": name,
        "options": [*options, *more],
        "kb": address.partition(":")[0] or "folder",
        "writes": writes,
        "clients": clients,
        "answered": len(load.seconds),
        "failed": load.failed,
        "refusals": load.refused,
        "per_second": round(len(load.seconds) / seconds, 1),
        "p50": quantile(load.seconds, 0.5),
        "p95": quantile(load.seconds, 0.95),
        "health_p95": quantile(load.health, 0.95),
        "health_max": quantile(load.health, 1),
        "mib_first": load.memory[0],
        "mib_after_a_fifth": fifth[0],
        "mib_last": load.memory[-1],
        "load_average": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    """Measure the rows that are named, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--serve", default="", help="More options of serve, such as '--workers 2'.")
    parser.add_argument("--kb", default="", help="an address, instead of a new folder")
    parser.add_argument("--fake", type=int)
    given = parser.parse_args()
    if given.fake:
        asyncio.run(slow_fake(given.fake))
        return
    for name in given.rows or ROWS:
        result = row(name, given.requests, given.clients, given.serve.split(), given.kb)
        print(json.dumps(result), flush=True)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
