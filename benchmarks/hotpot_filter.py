"""HotpotQA: retrieval precision, recall and S-Precision before and after the extractive filter.

    python benchmarks/hotpot_filter.py

Reads `../shared/data/hotpotqa/hotpot-dev-200`. The corpus is the paragraphs of all 200 questions;
a question's gold set is the two paragraphs of its supporting facts. Passages come out of the real
`blendfilter` graph with the embedded extractive model, which is no language model: its external
augmentation quotes the passages that were found, and it knows nothing by itself, so the internal
query adds nothing. S-Precision is the share of questions whose kept set is the gold set exactly.
Writes `results/hotpot_filter.json` and `.png`; needs matplotlib for the plot.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document
from rich.console import Console
from rich.table import Table

from ragweave import build_graph
from ragweave.evaluation.metrics.retrieval import precision, recall, s_precision
from ragweave.state.passages import content_id
from ragweave.tools.retrieval import Bm25Retriever

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "hotpotqa" / "hotpot-dev-200.jsonl.gz"
RESULTS = ROOT / "benchmarks" / "results"
MEASURES = ("precision", "recall", "s_precision")
WAYS: dict[str, dict[str, Any]] = {
    "question only": {"queries": ("question",), "knowledge_filter": False},
    "question only, filtered": {"queries": ("question",), "knowledge_filter": True},
    "blended": {"knowledge_filter": False},
    "blended, filtered": {"knowledge_filter": True},
}


class Row(NamedTuple):
    """A question and the ids of its gold paragraphs."""

    question: str
    gold: frozenset[str]


class Score(NamedTuple):
    """How one way to retrieve does, over all questions."""

    name: str
    precision: float
    recall: float
    s_precision: float
    kept: float
    """Passages kept, mean."""
    model_calls: float


def load() -> tuple[list[Document], list[Row]]:
    corpus: dict[str, Document] = {}
    rows: list[Row] = []
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        for one in map(json.loads, lines):
            titles: dict[str, str] = {}
            for title, sentences in one["context"]:
                text = "".join(sentences).strip()
                titles[title] = content_id(text, title)
                corpus[titles[title]] = Document(page_content=text, metadata={"title": title}, id=titles[title])
            gold = frozenset(titles[title] for title, _ in one["supporting_facts"])
            rows.append(Row(one["question"], gold))
    return list(corpus.values()), rows


def measured(name: str, rows: Sequence[Row], outputs: Sequence[dict[str, Any]]) -> Score:
    kept = [frozenset(str(doc.id) for doc in out["passages"]) for out in outputs]
    pairs = [(ids, row.gold) for row, ids in zip(rows, kept, strict=True)]
    return Score(
        name,
        statistics.mean(precision(*pair) for pair in pairs),
        statistics.mean(recall(*pair) for pair in pairs),
        statistics.mean(s_precision(*pair) for pair in pairs),
        statistics.mean(map(len, kept)),
        statistics.mean(out["usage"]["calls"] for out in outputs),
    )


def show(result: Sequence[Score], corpus: int, rows: int, k: int) -> None:
    table = Table(title=f"HotpotQA: {rows} questions, {corpus} paragraphs, BM25, k = {k}")
    for column in ("way", "precision", "recall", "S-Precision", "kept", "calls"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for one in result:
        shares = [f"{getattr(one, measure):.3f}" for measure in MEASURES]
        table.add_row(one.name, *shares, f"{one.kept:.1f}", f"{one.model_calls:.1f}")
    Console(width=110).print(table)


def plot(result: Sequence[Score], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    width = 0.8 / len(result)
    for at, one in enumerate(result):
        places = [place + (at - 1.5) * width for place in range(len(MEASURES))]
        bars = axes.bar(places, [getattr(one, name) for name in MEASURES], width * 0.95, label=one.name)
        axes.bar_label(bars, fmt="%.2f", fontsize=7)
    axes.set_xticks(range(len(MEASURES)), ["precision", "recall", "S-Precision"])
    axes.set(title="HotpotQA: the extractive filter on BM25's passages", ylim=(0, 1))
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="only so many questions")
    parser.add_argument("--k", type=int, default=5, help="passages a query")
    parser.add_argument("--model", default="extractive?similarity=lexical")
    args = parser.parse_args()
    corpus, rows = load()
    rows = rows[: args.limit]
    retriever = Bm25Retriever.from_documents(corpus)
    started, result = time.perf_counter(), []
    for name, options in WAYS.items():
        graph = build_graph("blendfilter", model=args.model, retriever=retriever, k=args.k, **options)
        result.append(measured(name, rows, [graph.invoke({"question": row.question}) for row in rows]))
    show(result, len(corpus), len(rows), args.k)
    print(f"{time.perf_counter() - started:.0f} s")
    if args.limit is None:
        RESULTS.mkdir(exist_ok=True)
        told = {
            "passages": len(corpus),
            "questions": len(rows),
            "k": args.k,
            "model": args.model,
            "scores": [one._asdict() for one in result],
        }
        (RESULTS / "hotpot_filter.json").write_text(json.dumps(told, indent=1) + "\n")
        plot(result, RESULTS / "hotpot_filter.png")


if __name__ == "__main__":
    main()
