"""Query blending with a real proxy's words: does a closed-book T5 help BM25 find the gold passage?

    python benchmarks/query_blending.py

Reads `../shared/data/nq`. The corpus is every passage of `nq-open-oracle` and `dpr-one-passage`.
The words that a T5 once wrote for each question, an answer and a sentence, are replayed through the
real `blendfilter` graph by a recorded-reply model: the answer as the external augmentation, the
sentence as the internal one, the knowledge filter off. A question counts as found where its gold
passage is among the first n. Unions are compared at equal budget: n passages in all, the queries'
lists interleaved by rank; and as the paper takes them, the whole sets joined.
Writes `results/query_blending.json` and `.png`; needs matplotlib for the plot.
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

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from rich.console import Console
from rich.table import Table

from ragweave import build_graph
from ragweave.graphs import MethodGraph
from ragweave.state import by_query, interleave, unique
from ragweave.state.passages import content_id
from ragweave.tools.models.tasks import TaskName, task_of
from ragweave.tools.retrieval import Bm25Retriever

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "nq"
RESULTS = ROOT / "benchmarks" / "results"
DEPTHS = (1, 5, 10, 15, 20)
SETS = ("question", "external", "internal")
NAMES = {
    "question": "question alone",
    "external": "T5 answer + question",
    "internal": "T5 sentence + question",
}


class Row(NamedTuple):
    """A question, its gold passage's id, and what the T5 wrote for it."""

    question: str
    gold: str
    answer: str
    sentence: str


class Recorded(BaseChatModel):
    """Replies with recorded texts, by question and task; greedy answers are the T5's own."""

    replies: dict[str, dict[TaskName, str]]

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - as above
        **kwargs: Any,  # noqa: ARG002 - as above
    ) -> ChatResult:
        task = task_of(messages)
        assert task is not None
        text = self.replies[task["question"]][task["task"]]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text))])


def records(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def passage(title: str, text: str) -> Document:
    title = title.strip().strip('"')
    return Document(page_content=text, metadata={"title": title}, id=content_id(text, title))


def load(limit: int | None) -> tuple[list[Document], list[Row]]:
    """Return the corpus, and the questions for which the T5 wrote both texts."""
    answers = {one["question"]: one["t5_answers"] for one in records("t5-generated-answers")}
    sentences = {one["question"]: one["t5_sentences"] for one in records("t5-generated-sentences")}
    corpus: list[Document] = []
    rows: list[Row] = []
    for one in records("nq-open-oracle"):
        gold = passage(one["ctxs"][0]["title"], one["ctxs"][0]["text"])
        corpus.append(gold)
        question = one["question"]
        if answers.get(question) and sentences.get(question):
            written = ", ".join(answers[question]), " ".join(sentences[question])
            rows.append(Row(question.strip(), str(gold.id), *written))
    corpus += [passage(one["ctx"]["title"], one["ctx"]["text"]) for one in records("dpr-one-passage")]
    kept = unique(corpus)
    twins = _twins(rows, corpus, kept)
    found = [row._replace(gold=twin) for row, twin in zip(rows, twins, strict=True)]
    return kept, found[:limit]


def _twins(rows: Sequence[Row], corpus: Sequence[Document], kept: Sequence[Document]) -> list[str]:
    """Return each row's gold passage, or the one with the same text that stands for it."""
    folded = {str(doc.id): " ".join(doc.page_content.casefold().split()) for doc in corpus}
    standing = {folded[str(doc.id)]: str(doc.id) for doc in kept}
    return [standing[folded[row.gold]] for row in rows]


def model_of(rows: Sequence[Row]) -> Recorded:
    return Recorded(
        replies={row.question: {"reason": row.answer, "recall": row.sentence, "extract": row.answer} for row in rows}
    )


def searched(graph: MethodGraph, row: Row) -> dict[str, list[Document]]:
    """Run the graph on a question and return what each of its queries found."""
    found: dict[str, list[Document]] = {}
    for update in graph.stream({"question": row.question}, stream_mode="updates"):
        for node in update.keys() & {"retrieve", "search"}:
            found |= update[node]["retrieved"]
    # an augmentation that says nothing ("unknown") searches the question, once
    return {key: found.get(key, found["question"]) for key in SETS}


class Score(NamedTuple):
    """Recall of one way to search, and how many passages it reads."""

    name: str
    recall: dict[str, float]
    size: dict[str, float]


def scores(rows: Sequence[Row], found: Sequence[dict[str, list[Document]]]) -> list[Score]:
    ways: dict[str, Any] = {NAMES[key]: (lambda sets, n, key=key: sets[key][:n]) for key in SETS}
    ways["union, interleaved, n in all"] = lambda sets, n: interleave(list(sets.values()))[:n]
    ways["union of the sets' first n"] = lambda sets, n: by_query([one[:n] for one in sets.values()])
    return [score(name, way, rows, found) for name, way in ways.items()]


def score(name: str, way: Any, rows: Sequence[Row], found: Sequence[Any]) -> Score:
    recall, size = {}, {}
    for depth in DEPTHS:
        taken = [[doc.id for doc in way(sets, depth)] for sets in found]
        hits = [row.gold in ids for row, ids in zip(rows, taken, strict=True)]
        recall[str(depth)] = round(statistics.mean(hits), 4)
        size[str(depth)] = round(statistics.mean(map(len, taken)), 2)
    return Score(name, recall, size)


def show(result: Sequence[Score], corpus: int, rows: int) -> None:
    table = Table(title=f"Recall of the gold passage: {rows} questions, {corpus} passages, BM25")
    table.add_column("query")
    for depth in DEPTHS:
        table.add_column(f"R@{depth}", justify="right")
    table.add_column("passages at 5", justify="right")
    for one in result:
        cells = [f"{one.recall[str(depth)]:.3f}" for depth in DEPTHS]
        table.add_row(one.name, *cells, f"{one.size['5']:.1f}")
    Console(width=110).print(table)


def plot(result: Sequence[Score], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for one, mark in zip(result, "os^DP", strict=True):
        sizes = [one.size[str(depth)] for depth in DEPTHS]
        axes.plot(sizes, [one.recall[str(depth)] for depth in DEPTHS], marker=mark, label=one.name)
    axes.set(
        xlabel="passages read (mean)",
        ylabel="share of questions whose gold passage is among them",
        title="Query blending with a T5's words (NQ, BM25)",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="only so many questions")
    limit = parser.parse_args().limit
    corpus, rows = load(limit)
    graph = build_graph(
        "blendfilter",
        model=model_of(rows),
        retriever=Bm25Retriever.from_documents(corpus),
        k=max(DEPTHS),
        knowledge_filter=False,
    )
    started = time.perf_counter()
    found = [searched(graph, row) for row in rows]
    seconds = time.perf_counter() - started
    result = scores(rows, found)
    show(result, len(corpus), len(rows))
    print(f"{seconds:.0f} s, {1000 * seconds / len(rows):.1f} ms a question")
    if limit is None:
        RESULTS.mkdir(exist_ok=True)
        told = {
            "passages": len(corpus),
            "questions": len(rows),
            "scores": [one._asdict() for one in result],
        }
        (RESULTS / "query_blending.json").write_text(json.dumps(told, indent=1) + "\n")
        plot(result, RESULTS / "query_blending.png")


if __name__ == "__main__":
    main()
