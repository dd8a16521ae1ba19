"""BM25 at many passages: build time and memory, disk, opening, queries; beside bm25s and Tantivy.

    python benchmarks/scale.py [--passages 10000 100000] [--engines ragweave bm25s tantivy]

Passages are 100 words drawn by their frequency in the bundled articles and 50,000 made-up rarer ones, queries 80 of
them. `ragweave` is `ragweave index` without vectors, as a user runs it: reading, hashing, SQLite and BM25; the others
index the terms alone. Each step runs in a process of its own, whose largest memory is measured. Builds are
seconds of processor time, queries milliseconds of it, after two rounds of warming up. Replaces its rows in
`results/scale.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results" / "scale.json"
WORDS, TERMS, QUERIES = 100, 80, 200


def texts(count: int, seed: int) -> Iterator[str]:
    """Yield texts of words drawn by weight."""
    from ragweave.corpus import corpus_documents

    counts = Counter(word for doc in corpus_documents() for word in doc.page_content.lower().split())
    words = [*counts, *(f"word{number}" for number in range(50_000))]
    weights = np.array([*counts.values(), *(1 / np.arange(1, 50_001))], dtype=float)
    draw, share = np.random.default_rng(seed), np.cumsum(weights / weights.sum())
    for _ in range(count):
        yield " ".join(words[at] for at in np.searchsorted(share, draw.random(WORDS), side="right"))


def read(corpus: Path) -> Iterator[str]:
    with corpus.open(encoding="utf-8") as file:
        yield from (json.loads(line)["text"] for line in file)


def terms(text: str) -> list[str]:
    from ragweave.tools.retrieval.analyzer import analyzer_for

    return analyzer_for("english").index_terms(text)


def build_ragweave(corpus: Path, folder: Path) -> None:
    from ragweave.tools.knowledge import IndexSettings, KnowledgeBase

    with KnowledgeBase.create(folder, settings=IndexSettings(embedding=None)) as kb:
        kb.index_paths([corpus])


def open_ragweave(folder: Path) -> Callable[[str], Any]:
    from ragweave.tools.knowledge import KnowledgeBase

    retriever = KnowledgeBase.open(folder).as_retriever(k=10, mode="bm25")
    retriever.invoke("a")
    return retriever.invoke


def build_bm25s(corpus: Path, folder: Path) -> None:
    import bm25s

    scorer = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    scorer.index(list(map(terms, read(corpus))), show_progress=False)
    scorer.save(folder, show_progress=False)


def open_bm25s(folder: Path) -> Callable[[str], Any]:
    import bm25s

    scorer = bm25s.BM25.load(folder, mmap=True, show_progress=False)
    return lambda query: scorer.retrieve([terms(query)], k=10, show_progress=False, n_threads=1)


def build_tantivy(corpus: Path, folder: Path) -> None:
    import tantivy

    folder.mkdir()
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False, tokenizer_name="en_stem")
    writer = tantivy.Index(schema.build(), path=str(folder)).writer(heap_size=512 * 2**20, num_threads=1)
    for text in read(corpus):
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(folder: Path) -> Callable[[str], Any]:
    import tantivy

    index = tantivy.Index.open(str(folder))
    searcher = index.searcher()
    return lambda query: searcher.search(index.parse_query(query, ["text"]), 10).hits


ENGINES = {
    "ragweave": (build_ragweave, open_ragweave),
    "bm25s": (build_bm25s, open_bm25s),
    "tantivy": (build_tantivy, open_tantivy),
}


def ask(engine: str, folder: Path) -> None:
    """Print how long opening and the median query take."""
    asked = [" ".join(text.split()[:TERMS]) for text in texts(QUERIES, 11)]
    begun = time.perf_counter()
    search = ENGINES[engine][1](folder)
    opened, times = time.perf_counter() - begun, []
    for query in asked * 3:
        begun = time.process_time()
        search(query)
        times.append(1000 * (time.process_time() - begun))
    print(json.dumps({"open_s": round(opened, 3), "query_ms": round(float(np.median(times[2 * QUERIES :])), 2)}))


def measured(*arguments: str) -> dict[str, Any]:
    """Run a step in a process of its own; return what it prints, its processor time and its largest memory."""
    process = subprocess.Popen([sys.executable, __file__, "--step", *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)} failed")
    seconds = round(usage.ru_utime + usage.ru_stime, 1)
    return {**json.loads(printed or b"{}"), "seconds": seconds, "mib": usage.ru_maxrss // 1024}


def measure(engine: str, count: int, folder: Path) -> dict[str, Any]:
    """Build and ask one engine over so many passages."""
    corpus = folder / f"{count}.jsonl"
    if not corpus.exists():
        rows = (json.dumps({"id": f"p{number}", "text": text}) for number, text in enumerate(texts(count, 7)))
        with corpus.open("w", encoding="utf-8") as file:  # line by line: a child's largest memory is at least ours
            file.writelines(f"{row}\n" for row in rows)
    place = folder / f"{engine}-{count}"
    built, asked = measured("build", engine, str(corpus), str(place)), measured("ask", engine, str(place))
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    share = round(size / sum(len(text.encode()) for text in read(corpus)), 2)
    return {
        "engine": engine,
        "passages": count,
        "build_s": built["seconds"],
        "build_mib": built["mib"],
        "disk_to_text": share,
        "open_s": asked["open_s"],
        "query_ms": asked["query_ms"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=["ragweave", "bm25s"])
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        verb, engine, *places = options.step
        ENGINES[engine][0](*map(Path, places)) if verb == "build" else ask(engine, Path(places[0]))
        return
    with tempfile.TemporaryDirectory() as name:
        rows = [measure(engine, count, Path(name)) for count in options.passages for engine in options.engines]
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    about = {"python": platform.python_version(), "cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d")}
    measured_now = {(row["engine"], row["passages"]) for row in rows}
    earlier = json.loads(RESULTS.read_text("utf-8"))["rows"]
    rows += [row for row in earlier if (row["engine"], row["passages"]) not in measured_now]
    rows.sort(key=lambda row: row["passages"])
    RESULTS.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
