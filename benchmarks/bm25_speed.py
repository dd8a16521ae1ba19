"""BM25 retrieval at 50,000 passages: speed against LangChain's retriever, and resident memory.

Run `python benchmarks/bm25_speed.py`. It prints, and writes to `benchmarks/results/bm25_speed.json`:

* the ratio of queries a second, an opened knowledge base against `langchain_community`'s
  `BM25Retriever` over the same passages (goal: 500 or more);
* the growth of resident memory of a fresh process that opens the knowledge base and answers,
  over the size of the files it opened (goal: below 1.5).

The passages are 100 words of a seeded Zipf vocabulary, the queries 80 terms of the same.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document

from ragweave.tools.knowledge import KnowledgeBase, Settings

SEED = 20240229
PASSAGES, WORDS = 50_000, 100
QUERIES, SLOW_QUERIES, TERMS = 200, 3, 80
VOCABULARY, EXPONENT = 60_000, 1.07
SPEED_GOAL, MEMORY_GOAL = 500.0, 1.5
RESULT = Path(__file__).parent / "results" / "bm25_speed.json"


def texts(rng: np.random.Generator, count: int, length: int) -> list[str]:
    """Return texts of words drawn by Zipf's law; a word is a rank in base 26."""
    weights = 1 / np.arange(1, VOCABULARY + 1) ** EXPONENT
    ranks = rng.choice(VOCABULARY, size=(count, length), p=weights / weights.sum())
    words = [word(rank) for rank in range(VOCABULARY)]
    return [" ".join(words[rank] for rank in row) for row in ranks.tolist()]


def word(rank: int) -> str:
    """Return a made-up word that no stop list holds and no stemmer shortens to another."""
    letters = ""
    number = rank + 26**3
    while number:
        number, digit = divmod(number, 26)
        letters += chr(ord("a") + digit)
    return letters + "q"


def rate(ask: Callable[[str], Any], queries: Sequence[str]) -> float:
    """Return queries a second after one to warm up."""
    ask(queries[0])
    begun = time.perf_counter()
    for query in queries:
        ask(query)
    return len(queries) / (time.perf_counter() - begun)


def resident() -> int:
    """Return the resident bytes of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say how much memory a process holds")


def measure_memory(folder: str, queries_file: str) -> None:
    """Open a knowledge base, ask, and print the growth of resident memory in bytes."""
    queries = json.loads(Path(queries_file).read_text())
    with tempfile.TemporaryDirectory() as other:
        # Everything that loads with the first query of any knowledge base is no index's.
        with KnowledgeBase.create(other, settings=Settings(embedding=None)) as small:
            small.add([Document("one small passage")])
            small.as_retriever().invoke("small passage")
        before = resident()
        with KnowledgeBase.open(folder) as kb:
            retriever = kb.as_retriever(k=10)
            opened = resident() - before
            for query in queries:
                retriever.invoke(query)
            print(json.dumps({"opened": opened, "asked": resident() - before}))


def peer(passages: Sequence[str]) -> Callable[[str], Any]:
    """Return LangChain's BM25 retriever, as its documentation builds it."""
    from langchain_community.retrievers import BM25Retriever

    retriever: Any = BM25Retriever.from_texts(list(passages), k=10)
    ask: Callable[[str], Any] = retriever.invoke
    return ask


def run(folder: Path) -> dict[str, Any]:
    """Build both indexes and measure."""
    rng = np.random.default_rng(SEED)
    passages, queries = texts(rng, PASSAGES, WORDS), texts(rng, QUERIES, TERMS)
    (folder / "queries.json").write_text(json.dumps(queries))
    with KnowledgeBase.create(folder / "kb", settings=Settings(embedding=None)) as kb:
        kb.add([Document(text, metadata={"title": ""}) for text in passages], "zipf")
    with KnowledgeBase.open(folder / "kb") as kb:
        ours = rate(kb.as_retriever(k=10).invoke, queries)
        index = folder / "kb" / kb.state
    command = [sys.executable, __file__, str(folder / "kb"), str(folder / "queries.json")]
    memory = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    index_bytes = sum(path.stat().st_size for path in index.iterdir())
    files = index_bytes + (folder / "kb" / "knowledge.sqlite3").stat().st_size
    theirs = rate(peer(passages), queries[:SLOW_QUERIES])
    return {
        "seed": SEED,
        "passages": PASSAGES,
        "query_terms": TERMS,
        "speed_ratio": round(ours / theirs, 1),
        "speed_goal": SPEED_GOAL,
        "index_bytes": index_bytes,
        "file_bytes": files,
        "resident_opened_to_files": round(memory["opened"] / files, 3),
        "resident_asked_to_files": round(memory["asked"] / files, 3),
        "resident_asked_to_index": round(memory["asked"] / index_bytes, 3),
        "memory_goal": MEMORY_GOAL,
        "queries_per_second": {"ragweave": round(ours, 1), "langchain_community": round(theirs, 3)},
        "python": platform.python_version(),
    }


def main() -> int:
    """Measure, print and keep the result; 0 where both goals are met."""
    with tempfile.TemporaryDirectory() as folder:
        result = run(Path(folder))
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    met = result["speed_ratio"] >= SPEED_GOAL and result["resident_asked_to_files"] < MEMORY_GOAL
    print("goals met" if met else "goals missed")
    return 0 if met else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure_memory(*sys.argv[1:])
    else:
        sys.exit(main())
