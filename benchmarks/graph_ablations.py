"""What was tried for graph retrieval and dropped, beside graph retrieval itself: recall of supporting passages among five.

    python benchmarks/graph_ablations.py [--sets musique hotpotqa]
    python benchmarks/graph_ablations.py --table

Each variant changes one thing of `ragweave.tools.knowledge.graph`. A difference is variant minus graph over the same
questions, in points, with a 95 % bootstrap interval; `*` marks those that are significant in a paired randomisation test
after Holm's correction for the variants of a set. Each set is written to `results/graph_ablations.json` when it is
measured; the questions are those on which the weights of graph retrieval were chosen.
"""

from __future__ import annotations

import argparse
import json
import math
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from langchain_core.retrievers import BaseRetriever
from numpy.typing import NDArray

from graph_retrieval import ALL, in_percent, recall
from ragweave.evaluation.statistics import bootstrap, compare, holm
from ragweave.state.passages import indexed_text
from ragweave.tools.knowledge import KnowledgeBase, graph, search
from ragweave.tools.knowledge.graph import (
    CROWDING,
    FLOOR,
    MAX_PASSAGES,
    MENTION,
    SEEDS,
    NamePath,
    Seed,
    most_passages,
)
from ragweave.tools.knowledge.names import sentences
from ragweave.tools.knowledge.store import Snapshot
from ragweave.tools.knowledge.view import NamePassages, Pool, Scores
from ragweave.tools.retrieval import RankFusionRetriever
from vectors import StoredEmbeddings

RESULTS = Path(__file__).parent / "results" / "graph_ablations.json"
EMBEDDINGS = StoredEmbeddings()
Terms = Callable[[str], list[str]]
Raised = tuple[Scores, dict[int, NamePath]]
along_names, passed_on = graph.along_names, graph._passed_on


def followed(
    known: Mapping[str, NamePassages],
    starts: Mapping[str, list[NamePath]],
    passages: int,
    *,
    lone: float,
    total: bool,
) -> dict[int, NamePath]:
    """Return the paths to passages, as graph retrieval does.

    `lone` is the edge to a passage that mentions a name which no passage is about; with `total`, a passage gets the sum
    of its paths instead of the best.
    """
    edges, worth = [], {}
    for name, paths in starts.items():
        count, about, mention = known.get(name, (0, (), ()))
        if 0 < count <= most_passages(passages):
            rarity = min(math.log(1 + passages / count) / math.log(1 + passages), 1)
            worth[name] = [(path, rarity) for path in paths]
            edges += [(row, name, len(about) ** -CROWDING) for row in about]
            edges += [(row, name, (MENTION if about else lone) * count**-CROWDING) for row in mention]
    best: dict[int, NamePath] = {}
    for row, name, edge in edges:
        for path, rarity in worth[name]:
            if path.seed is not None and path.seed.row == row:
                continue
            before = best[row].strength if row in best else 0.0
            strength = path.strength * rarity * edge + before * total
            if strength > before:
                best[row] = path._replace(strength=strength)
    return best


def by_vectors(seed: Seed, wanted: set[str], terms: Terms, *, query: list[str]) -> Iterator[tuple[str, NamePath]]:
    """Yield the names in a passage, with the likeness of sentence and question as the gate."""
    question = np.array(EMBEDDINGS.embed_query(query[0]))
    for sentence in sentences(seed.passage.page_content):
        near = max(float(np.array(EMBEDDINGS.embed_query(sentence)) @ question), 0)
        part = seed.passage.model_copy(update={"page_content": sentence})
        for name, path in passed_on(seed._replace(passage=part), wanted, terms):
            yield name, path._replace(strength=seed.score**2 * (FLOOR + (1 - FLOOR) * near), seed=seed)


def seeds_of(pool: Pool) -> list[Seed]:
    """Return the best passages of a pool."""
    scores = pool.scores / max(float(pool.scores.max(initial=0)), 1e-9)
    best = {int(pool.rows[at]): float(scores[at]) for at in np.argsort(-scores)[:SEEDS]}
    return [Seed(row, best[row], doc) for row, doc in pool.documents([*best]).items()]


def vector_gate(view: Snapshot, query: str, *rest: Any) -> Raised:
    """Raise with sentence vectors as the gate."""
    with patch.object(graph, "_passed_on", partial(by_vectors, query=[query])):
        return along_names(view, query, *rest)


@cache
def edges(path: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return names, passages and weights of all edges of a knowledge base, without those of common names."""
    sql = (
        "SELECT m.name, m.passage, m.about FROM mentions m JOIN names n ON n.id = m.name "
        f"WHERE n.passages <= {MAX_PASSAGES}"
    )
    table = np.array(sqlite3.connect(path).execute(sql).fetchall(), np.int64)
    return table[:, 0], table[:, 1], np.where(table[:, 2] > 0, 1.0, MENTION)


def page_rank(view: Snapshot, query: str, pool: Pool, _: Terms) -> Raised:
    """Add personalised PageRank (damping .5, 20 steps), which starts at the seeds and at the names in the question."""
    db, rows, scores = view.db, pool.rows, pool.scores / max(float(pool.scores.max(initial=0)), 1e-9)
    names, passages, weights = edges(db.execute("PRAGMA database_list").fetchone()[2])
    by_name, by_passage = np.bincount(names, weights), np.bincount(passages, weights, minlength=rows[-1] + 1)
    start, start_names = np.zeros(len(by_passage)), np.zeros(len(by_name))
    seeds = seeds_of(pool)
    start[[seed.row for seed in seeds]] = [seed.score for seed in seeds]
    asked = json.dumps([*graph._names_in_question(view, query, MAX_PASSAGES)[0]])
    for (name,) in db.execute("SELECT id FROM names WHERE text IN (SELECT value FROM json_each(?))", (asked,)):
        if name < len(start_names):
            start_names[name] = graph.ASKED
    at_passages, at_names = start, start_names
    for _ in range(20):
        to_names = np.bincount(names, weights * (at_passages / np.maximum(by_passage, 1e-9))[passages], len(by_name))
        to_passages = np.bincount(passages, weights * (at_names / np.maximum(by_name, 1e-9))[names], len(by_passage))
        at_passages, at_names = 0.5 * start + 0.5 * to_passages, 0.5 * start_names + 0.5 * to_names
    return scores + (at_passages[rows] / max(float(at_passages.max()), 1e-9)).astype(np.float32), {}


def unanswered(query: str, pool: Pool, terms: Terms) -> list[str]:
    """Return the question's terms that the first passage lacks."""
    first = [indexed_text(seed.passage.page_content, seed.passage.metadata) for seed in seeds_of(pool)[:1]]
    return sorted(set(terms(query)).difference(*map(terms, first)))


class Rescored:
    """A pool with other base scores."""

    def __init__(self, pool: Pool, scores: Scores) -> None:
        self.rows, self.scores, self.documents = pool.rows, scores, pool.documents
        self.include, self.places, self.words = pool.include, pool.places, pool.words


def second_hop(view: Snapshot, query: str, pool: Pool, terms: Terms, *, rest_only: bool) -> Raised:
    """Follow names again from the passages that are first after the first hop."""
    raised, paths = along_names(view, query, pool, terms)
    asked = " ".join(unanswered(query, pool, terms)) if rest_only else query
    raised, more = along_names(view, asked, Rescored(pool, raised), terms)
    return raised, {**paths, **more}


def own_score(view: Snapshot, query: str, pool: Pool, terms: Terms) -> Raised:
    """Multiply each path by 1 + the score of the passage that it leads to."""
    raised, paths = along_names(view, query, pool, terms)
    places = pool.places(paths)
    strengths = np.fromiter((path.strength for path in paths.values()), np.float32)
    raised[places] += strengths * pool.scores[places] / max(float(pool.scores.max(initial=0)), 1e-9)
    return raised, paths


def third_ranking(view: Snapshot, query: str, pool: Pool, terms: Terms) -> Raised:
    """Add a third of the BM25 scores of the unanswered words to all passages."""
    raised, paths = along_names(view, query, pool, terms)
    return raised + pool.words(unanswered(query, pool, terms)) / 3, paths


def names_changed(variant: Callable[..., Raised]) -> AbstractContextManager[Any]:
    """Follow names by a variant."""
    return patch.object(search, "along_names", variant)


def paths_changed(**changes: Any) -> AbstractContextManager[Any]:
    """Choose among paths in another way."""
    return patch.object(graph, "_followed", partial(followed, **({"lone": MENTION, "total": False} | changes)))


VARIANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "the sum of all paths instead of the best": lambda: paths_changed(total=True),
    "personalised PageRank instead of the best path": lambda: names_changed(page_rank),
    "a second hop with the whole question": lambda: names_changed(partial(second_hop, rest_only=False)),
    "a second hop with its unanswered words": lambda: names_changed(partial(second_hop, rest_only=True)),
    "sentence vectors instead of shared words as the gate": lambda: names_changed(vector_gate),
    "the passage's own score as a factor of its path": lambda: names_changed(own_score),
    "a stronger edge (.5) to passages that mention a name which no passage is about": lambda: paths_changed(lone=0.5),
    "a third BM25 ranking of the unanswered words, for all passages": lambda: names_changed(third_ranking),
}
FUSED = "fusing the ranks of hybrid and graph"


def measure(name: str) -> dict[str, Any]:
    """Index a set, ask its questions by every variant, and return recall and differences to graph retrieval."""
    documents, questions = ALL[name]()
    with (
        tempfile.TemporaryDirectory() as folder,
        KnowledgeBase.create(Path(folder) / "kb", embeddings=EMBEDDINGS) as kb,
    ):
        kb.add(documents, "corpus", split=False)
        hybrid, plain = (kb.as_retriever(10, mode) for mode in ("hybrid", "graph"))

        def recalls(retriever: BaseRetriever, change: AbstractContextManager[Any]) -> list[float]:
            with change:
                return [recall([str(doc.id) for doc in retriever.invoke(asked.text)], asked) for asked in questions]

        baseline = recalls(plain, nullcontext())
        if recalls(plain, paths_changed()) != baseline:
            raise SystemExit("the copy of `_followed` in this file is out of date")
        values = {variant: recalls(plain, change()) for variant, change in VARIANTS.items()}
        values[FUSED] = recalls(RankFusionRetriever(retrievers=[hybrid, plain], k=10), nullcontext())
    results = {variant: compare(shares, baseline) for variant, shares in values.items()}
    corrected = dict(zip(results, holm([result.p for result in results.values()]), strict=True))
    variants = {
        variant: {"difference": in_percent(result.difference), "p": corrected[variant]}
        for variant, result in results.items()
    }
    counts = {"passages": len(documents), "questions": len(questions), "date": time.strftime("%Y-%m-%d")}
    return counts | {"graph": in_percent(bootstrap(baseline))[0], "variants": variants}


def stored() -> dict[str, Any]:
    """Return what is recorded, by set."""
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    return results


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sets", nargs="+", choices=ALL, default=["musique", "hotpotqa"])
    parser.add_argument("--table", action="store_true", help="print what is recorded")
    options = parser.parse_args()
    for name in () if options.table else options.sets:
        results = stored() | {name: measure(name)}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    sets = stored()
    print("| variant |", " | ".join(sets), "|\n|---|" + "---|" * len(sets))
    for variant in [*VARIANTS, FUSED]:
        rows = [row["variants"][variant] for row in sets.values()]
        print(
            "|",
            variant,
            *("| {:+.1f} [{:.1f}, {:.1f}]".format(*row["difference"]) + "*" * (row["p"] < 0.05) for row in rows),
            "|",
        )


if __name__ == "__main__":
    main()
