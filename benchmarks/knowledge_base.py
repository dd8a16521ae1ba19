"""A knowledge base in a folder: index time, memory, one document more, and queries; beside other versions.

    python benchmarks/knowledge_base.py [--beside ../old/src …] [--files 3000] [--passages 50000]

Indexes so many short Markdown files, by words and random vectors (384 numbers a text), and so many passages
of 100 words in a file of JSON lines, by words alone; each again with nothing changed and with one document
more; then asks 200 questions. `--beside` names the source folders of other versions with the same interface.
Each step runs in a process of its own. Times are seconds of processor time, queries its median milliseconds,
memory the largest of the process. Writes `results/knowledge_base.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results" / "knowledge_base.json"
SOURCE = Path(__file__).resolve().parent.parent / "src"
WORDS, QUERIES, TERMS = 100, 200, 12


class Random(Embeddings):
    """Vectors drawn at random, the same ones for the same text."""

    model = "random"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return np.random.default_rng(zlib.crc32(text.encode())).standard_normal(384).tolist()


def texts(count: int, seed: int) -> Iterator[str]:
    """Yield texts of made-up words, drawn as words are: the n-th most frequent with weight 1/n."""
    words = ["".join(letters) for letters in itertools.islice(itertools.product("etaoinsrhl", repeat=5), 60_000)]
    share = np.cumsum(1 / np.arange(1, len(words) + 1))
    draw = np.random.default_rng(seed)
    for _ in range(count):
        drawn = [words[at] for at in np.searchsorted(share, draw.random(WORDS) * share[-1])]
        yield ". ".join(" ".join(drawn[at : at + 20]).capitalize() for at in range(0, WORDS, 20))


def write(folder: Path, files: int, passages: int) -> None:
    (folder / "files").mkdir()
    for number, text in enumerate(texts(files, 1)):
        (folder / "files" / f"{number}.md").write_text(f"# Note {number}\n\n{text}\n", "utf-8")
    rows = (json.dumps({"id": f"p{number}", "text": text}) for number, text in enumerate(texts(passages, 2)))
    (folder / "passages.jsonl").write_text("\n".join(rows) + "\n", "utf-8")


def step(name: str, where: Path, corpus: Path) -> None:
    """Run one step and print what it took."""
    from langchain_core.documents import Document

    from ragweave.tools.knowledge import IndexSettings, KnowledgeBase

    model = Random() if corpus.is_dir() else None
    settings = None if model else IndexSettings(embedding=None)
    asked = [" ".join(text.split()[:TERMS]) for text in texts(QUERIES, 3)]
    if name == "first":
        kb = KnowledgeBase.create(where, settings=settings, embeddings=model)
    else:
        kb = KnowledgeBase.open(where, embeddings=model)
    search = kb.as_retriever(k=10).invoke
    does: dict[str, Callable[[], Any]] = {
        "first": lambda: kb.index_paths([corpus]),
        "again": lambda: kb.index_paths([corpus]),
        "one more": lambda: kb.add(Document("One document more than before.")),
        "query": lambda: [timed(lambda text=text: search(text)) for text in asked],
    }
    if name == "query":
        does[name]()  # warm up
        print(json.dumps(1000 * float(np.median(does[name]()))))
    else:
        print(json.dumps(timed(does[name])))


def timed(call: Callable[[], Any]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def run(source: Path, *arguments: str) -> tuple[float, int]:
    """Run a step in a process; return what it printed and its largest memory in MiB."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--step", *arguments],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(source)},
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{source}: {' '.join(arguments)} failed")
    return json.loads(printed.splitlines()[-1]), usage.ru_maxrss // 1024


def measure(source: Path, corpus: Path, kb: Path) -> dict[str, Any]:
    """Return what all steps over one corpus took."""
    row: dict[str, Any] = {"version": "this" if source == SOURCE else source.parent.name, "corpus": corpus.stem}
    row["index_s"], row["index_mib"] = run(source, "first", str(kb), str(corpus))
    row["again_s"], _ = run(source, "again", str(kb), str(corpus))
    row["one_more_s"], _ = run(source, "one more", str(kb), str(corpus))
    row["query_ms"], row["query_mib"] = run(source, "query", str(kb), str(corpus))
    row["disk_mib"] = sum(path.stat().st_size for path in kb.rglob("*") if path.is_file()) >> 20
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, nargs="*", default=[], help="source folders of other versions")
    parser.add_argument("--files", type=int, default=3_000)
    parser.add_argument("--passages", type=int, default=50_000)
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        name, *places = options.step
        step(name, *map(Path, places))
        return
    if lost := [str(path) for path in options.beside if not (path / "ragweave").is_dir()]:
        parser.error(f"no source folder: {', '.join(lost)}")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, options.files, options.passages)
        for corpus in (folder / "files", folder / "passages.jsonl"):
            for number, source in enumerate([*options.beside, SOURCE]):
                rows.append(measure(source.resolve(), corpus, folder / f"kb{number}-{corpus.stem}"))
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    about = {
        "command": f"python benchmarks/knowledge_base.py --files {options.files} --passages {options.passages}",
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}",
        "date": time.strftime("%Y-%m-%d"),
    }
    RESULTS.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
