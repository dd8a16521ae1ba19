"""BM25 at 10,000 to a million passages: build, disk, memory, opening and queries, side by side.

    python benchmarks/scale.py                          # 10,000, 100,000 and 1,000,000 passages
    python benchmarks/scale.py --passages 10000

Passages have 100 words, drawn by how often each word stands in the passages of the public data
beside the project (`../shared/data`); queries have 80 such terms that the analyzer keeps. Every
engine works in a fresh process over the same file of JSON lines:

* `ragweave`: `ragweave index` without vectors, as a user runs it: reading, hashing, SQLite, BM25;
* `ragweave BM25 alone`: the analyzer and `Bm25Index.build`;
* `bm25s`: the same terms, indexed in memory and saved; queried memory-mapped;
* `tantivy`: its own English stemmer, one thread.

An engine whose package is not installed is left out, and that is said. Pyserini needs Java 21 and is
not among them.

Builds are timed by the clock and by the processor, queries by the processor (all run one thread);
memory is the highest resident size of the process.
Goals at a million, on two cores within 4 GiB: build in 10 minutes, an index of at most 1.5 times
the text, 20 ms a query, opening in a second. Writes `benchmarks/results/scale.json` and a plot;
rows of sizes and engines that are not asked for stay.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DATA = ROOT.parent / "shared" / "data"
WORDS, TERMS, QUERIES = 100, 80, 200
ENGINES = ("ragweave", "ragweave BM25 alone", "bm25s", "tantivy")
RIVALS = ("bm25s", "tantivy")
GOALS = {"build_s": 600.0, "disk_to_text": 1.5, "query_ms": 20.0, "open_s": 1.0, "build_gib": 4.0}
DPR = 21_015_324
"""Passages of DPR's Wikipedia (Karpukhin et al. 2020)."""


def real_words(data: Path) -> tuple[list[str], np.ndarray]:
    """Return the words of the public passages and how often each stands there."""
    from ragweave.datasets import open_dataset

    counts: Counter[str] = Counter()
    for spec in (
        f"nq:{data / 'nq/nq-open-oracle.jsonl.gz'}",
        f"hotpotqa:{data / 'hotpotqa/hotpot-dev-200.jsonl.gz'}",
        f"skr:{data / 'fusion/skr-dev-10-passages.json.gz'}",
    ):
        for example in open_dataset(spec):
            for passage in example.passages:
                counts.update(passage.page_content.split())
    words = sorted(counts)
    return words, np.array([counts[word] for word in words], dtype=float)


def texts(words: list[str], weights: np.ndarray, count: int, seed: int) -> Iterator[str]:
    """Yield so many texts of words drawn by weight."""
    rng = np.random.default_rng(seed)
    share = np.cumsum(weights / weights.sum())
    for first in range(0, count, 10_000):
        shape = (min(10_000, count - first), WORDS)
        for row in np.searchsorted(share, rng.random(shape), side="right"):
            yield " ".join(words[at] for at in row)


def write_corpus(path: Path, words: list[str], weights: np.ndarray, count: int) -> int:
    """Write a file of JSON lines; return how many bytes its texts have."""
    size = 0
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts(words, weights, count, 7)):
            size += len(text.encode())
            file.write(json.dumps({"id": f"p{number}", "text": text}) + "\n")
    return size


def read_corpus(path: Path) -> Iterator[str]:
    """Yield the texts of the file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)["text"]


def queries(words: list[str], weights: np.ndarray) -> list[str]:
    """Return queries of 80 words that the analyzer keeps."""
    from ragweave.tools.retrieval.analyzer import analyzer_for

    terms = analyzer_for("english").terms
    kept = [len(terms(word)) == 1 for word in words]
    chosen = [word for word, keep in zip(words, kept, strict=True) if keep]
    found = texts(chosen, weights[np.array(kept)], QUERIES, 11)
    return [" ".join(text.split()[:TERMS]) for text in found]


def measured(action: str, *arguments: str) -> dict[str, Any]:
    """Run one of ACTIONS in a fresh process; return what it prints, and its peak memory."""
    begun = time.perf_counter()
    command = [sys.executable, __file__, "--run", action, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{action} ended with {process.returncode}")
    return {
        **json.loads(printed or b"{}"),
        "clock_s": round(time.perf_counter() - begun, 2),
        "processor_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mib": usage.ru_maxrss // 1024,
    }


def build_ragweave(corpus: Path, folder: Path) -> None:
    """Index as the command does."""
    from ragweave.tools.knowledge import KnowledgeBase, Settings

    with KnowledgeBase.create(folder, settings=Settings(embedding=None)) as kb:
        kb.index_paths([corpus])


def build_alone(corpus: Path, folder: Path) -> None:
    """Index the terms and nothing else."""
    from ragweave.tools.retrieval.analyzer import analyzer_for
    from ragweave.tools.retrieval.bm25_index import Bm25Index

    folder.mkdir(parents=True, exist_ok=True)
    Bm25Index.build(map(analyzer_for("english").terms, read_corpus(corpus)), folder)


def build_bm25s(corpus: Path, folder: Path) -> None:
    """Index the same terms by bm25s."""
    import bm25s

    from ragweave.tools.retrieval.analyzer import analyzer_for

    scorer = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    terms = [analyzer_for("english").terms(text) for text in read_corpus(corpus)]
    scorer.index(terms, show_progress=False)
    scorer.save(folder, show_progress=False)


def build_tantivy(corpus: Path, folder: Path) -> None:
    """Index by tantivy with its English stemmer."""
    import tantivy

    folder.mkdir()
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False, tokenizer_name="en_stem")
    index = tantivy.Index(schema.build(), path=str(folder))
    writer = index.writer(heap_size=512 * 2**20, num_threads=1)
    for text in read_corpus(corpus):
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()


def ask_ragweave(folder: Path, asked: list[str]) -> tuple[float, list[float]]:
    """Open a knowledge base and search it."""
    from ragweave.tools.knowledge import KnowledgeBase

    loaded = time.perf_counter()
    retriever = KnowledgeBase.open(folder).as_retriever(k=10, mode="bm25")
    retriever.invoke("a")
    opened = time.perf_counter() - loaded
    return opened, timed(retriever.invoke, asked)


def ask_alone(folder: Path, asked: list[str]) -> tuple[float, list[float]]:
    """Open the index and search it."""
    from ragweave.tools.retrieval.analyzer import analyzer_for
    from ragweave.tools.retrieval.bm25_index import Bm25Index, top_k

    begun = time.perf_counter()
    index = Bm25Index.open(folder)
    opened = time.perf_counter() - begun
    terms = analyzer_for("english").terms
    return opened, timed(lambda query: top_k(index.score(terms(query)), 10), asked)


def ask_bm25s(folder: Path, asked: list[str]) -> tuple[float, list[float]]:
    """Open bm25s' index memory-mapped and search it."""
    import bm25s

    from ragweave.tools.retrieval.analyzer import analyzer_for

    begun = time.perf_counter()
    scorer = bm25s.BM25.load(folder, mmap=True, show_progress=False)
    opened = time.perf_counter() - begun
    terms = analyzer_for("english").terms

    def ask(query: str) -> Any:
        return scorer.retrieve([terms(query)], k=10, show_progress=False, n_threads=1)

    return opened, timed(ask, asked)


def ask_tantivy(folder: Path, asked: list[str]) -> tuple[float, list[float]]:
    """Open tantivy's index and search it."""
    import tantivy

    begun = time.perf_counter()
    index = tantivy.Index.open(str(folder))
    searcher = index.searcher()
    opened = time.perf_counter() - begun

    def ask(query: str) -> Any:
        plain = "".join(one if one.isalnum() else " " for one in query).lower()
        return searcher.search(index.parse_query(plain, ["text"]), 10).hits

    return opened, timed(ask, asked)


def timed(ask: Any, asked: list[str]) -> list[float]:
    """Return processor milliseconds a query, after two rounds that bring the index into memory."""
    for query in asked * 2:
        ask(query)
    found = []
    for query in asked:
        begun = time.process_time()
        ask(query)
        found.append(1000 * (time.process_time() - begun))
    return found


BUILD = dict(zip(ENGINES, (build_ragweave, build_alone, build_bm25s, build_tantivy), strict=True))
ASK = dict(zip(ENGINES, (ask_ragweave, ask_alone, ask_bm25s, ask_tantivy), strict=True))


def present(engines: list[str]) -> list[str]:
    """Return the engines that are installed, and say which are not."""
    missing = [one for one in engines if one in RIVALS and find_spec(one) is None]
    for one in missing:
        Console().print(f"{one} is left out: pip install {one}")
    return [one for one in engines if one not in missing]


def act(action: str, corpus: str, folder: str) -> None:
    """Do a build (`build ENGINE`) or ask (`ask ENGINE`, `corpus` holds the queries)."""
    verb, _, engine = action.partition(" ")
    if verb == "build":
        BUILD[engine](Path(corpus), Path(folder))
        return
    asked = json.loads(Path(corpus).read_text(encoding="utf-8"))
    opened, each = ASK[engine](Path(folder), asked)
    spread = {"query_ms": np.median(each), "query_p95_ms": np.quantile(each, 0.95)}
    print(json.dumps({"open_s": round(opened, 4)} | {k: round(v, 2) for k, v in spread.items()}))


def bm25_bytes(folder: Path) -> int:
    """Return the size of the index's files, in a knowledge base without its passages."""
    kept = folder / "bm25" if (folder / "bm25").exists() else folder
    return sum(one.stat().st_size for one in kept.rglob("*") if one.is_file())


def rows_of(count: int, place: Path, engines: list[str]) -> Iterator[dict[str, Any]]:
    """Build and ask every engine at one size."""
    words, weights = real_words(DATA)
    corpus, asked = place / "corpus.jsonl", place / "queries.json"
    size = write_corpus(corpus, words, weights, count)
    asked.write_text(json.dumps(queries(words, weights)), encoding="utf-8")
    for engine in engines:
        folder = place / "index"
        built = measured(f"build {engine}", str(corpus), str(folder))
        searched = measured(f"ask {engine}", str(asked), str(folder))
        yield {
            "engine": engine,
            "passages": count,
            "text_bytes": size,
            **{f"build_{key}": value for key, value in built.items()},
            "index_bytes": bm25_bytes(folder),
            "disk_to_text": round(bm25_bytes(folder) / size, 3),
            **{key: searched[key] for key in ("open_s", "query_ms", "query_p95_ms")},
            "ask_peak_mib": searched["peak_mib"],
        }
        shutil.rmtree(folder)


def extrapolated(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return what our rows say of DPR's Wikipedia, by a line through the two largest sizes."""
    ours = [row for row in rows if row["engine"] == ENGINES[0]][-2:]
    if len(ours) < 2:
        return None
    names = ("build_processor_s", "build_peak_mib", "index_bytes", "query_ms", "ask_peak_mib")
    (x0, x1) = (row["passages"] for row in ours)
    slope = {name: (ours[1][name] - ours[0][name]) / (x1 - x0) for name in names}
    found = {name: round(ours[1][name] + slope[name] * (DPR - x1), 1) for name in names}
    return {"passages": DPR, "by": "a line through the two largest sizes", **found}


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw processor time, memory and query time against the number of passages."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    shown = {
        "build_processor_s": "build, processor seconds",
        "build_peak_mib": "build, peak memory (MiB)",
        "query_ms": "80-term query, median ms",
    }
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for axis, (name, label) in zip(axes, shown.items(), strict=True):
        for engine in ENGINES:
            one = [row for row in rows if row["engine"] == engine]
            axis.plot([r["passages"] for r in one], [r[name] for r in one], "o-", label=engine)
        axis.set(xscale="log", yscale="log", xlabel="passages", title=label)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def show(rows: list[dict[str, Any]]) -> None:
    """Print the rows."""
    columns = ("engine", "passages", "build_clock_s", "build_processor_s", "build_peak_mib")
    columns += ("disk_to_text", "open_s", "query_ms", "query_p95_ms", "ask_peak_mib")
    table = Table(*columns)
    for row in rows:
        table.add_row(*(f"{row[name]:,}" if name != "engine" else row[name] for name in columns))
    Console(width=160).print(table)


def main() -> None:
    """Run every engine at every size, in fresh processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--passages", default="10000,100000,1000000", help="comma-separated")
    parser.add_argument("--engines", default=",".join(ENGINES), help="comma-separated")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return act(*options.run)
    path = RESULTS / "scale.json"
    measured_before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    rows: list[dict[str, Any]] = []
    engines = present(options.engines.split(","))
    for count in map(int, options.passages.split(",")):
        with tempfile.TemporaryDirectory() as place:
            for row in rows_of(count, Path(place), engines):
                rows.append(row)
                show([row])
    now = {(row["engine"], row["passages"]) for row in rows}
    rows += [row for row in measured_before if (row["engine"], row["passages"]) not in now]
    rows.sort(key=lambda row: (row["passages"], ENGINES.index(row["engine"])))
    show(rows)
    result = {
        "words": WORDS,
        "query_terms": TERMS,
        "queries": QUERIES,
        "goals": GOALS,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "rows": rows,
        "dpr_wikipedia": extrapolated(rows),
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    plot(rows, RESULTS / "scale.png")
    return None


if __name__ == "__main__":
    main()
