"""What graph retrieval does for answers: F1, calls, tokens and Unknown, beside hybrid retrieval.

Asks 60 questions each of HotpotQA and 2WikiMultihopQA (../shared/data) by `concat`, `cot` with retrieval, `ircot`,
`decompose` and `blendfilter` over five passages of hybrid and of graph retrieval; `path` is graph retrieval with a line
before each passage that says by which name it was reached. All rows of a question are measured before the next
question, and each is written as soon as it is answered: a run that is interrupted goes on where it stopped.

    python benchmarks/graph_answers.py --model llamacpp:qwen2.5-coder-1.5b.gguf?n_ctx=4096 --minutes 60
    python benchmarks/graph_answers.py --table
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from passage_sets import SETS, Asked
from ragweave import build_graph, chat_model
from ragweave.evaluation.metrics.answers import squad_f1
from ragweave.graphs import METHODS as REGISTERED
from ragweave.tools.footnotes import path_of
from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.retrieval.base import PassageRetriever
from ragweave.tools.statistics import compare
from vectors import StoredEmbeddings

RESULTS = Path(__file__).parent / "results" / "graph_answers.jsonl"
METHODS: dict[str, dict[str, Any]] = {
    "concat": {},
    "cot": {"retrieve": True},
    "ircot": {},
    "decompose": {},
    "blendfilter": {},
}
SETTINGS = ("hybrid", "graph", "path")
QUESTIONS, K = 60, 5


class ByPath(PassageRetriever):
    """Shows in each passage how it was reached."""

    inner: PassageRetriever

    def _find(self, query: str, k: int) -> list[Document]:
        return [shown(doc) for doc in self.inner.find(query, k)]


def shown(doc: Document) -> Document:
    """Return a passage that begins with the path by which it was reached."""
    if not path_of(doc):
        return doc
    via = doc.metadata["via"]
    line = f"(Found by the name {via['name']} in the passage {via['heading'] or via['passage']}.)"
    return doc.model_copy(update={"page_content": f"{line}\n{doc.page_content}"})


def prepared(name: str, folder: Path) -> tuple[list[Asked], dict[str, BaseRetriever]]:
    """Return the questions of a set, and its retrievers."""
    documents, questions = SETS[name]()
    kb = KnowledgeBase.create(folder / name, embeddings=StoredEmbeddings())
    kb.add(documents, "corpus", split=False)
    hybrid, graph = kb.as_retriever(K, "hybrid"), kb.as_retriever(K, "graph")
    found = (hybrid, graph, ByPath(inner=graph, k=K))
    return questions[:: len(questions) // QUESTIONS][:QUESTIONS], dict(zip(SETTINGS, found, strict=True))


def measure(spec: str, minutes: float) -> None:
    """Answer what is not answered yet, for so many minutes."""
    model = chat_model(spec)
    name = Path(spec.partition(":")[2].partition("?")[0]).stem
    done = {(row["model"], row["data"], row["question"], row["method"], row["retriever"]) for row in recorded()}
    methods = {one: options for one, options in METHODS.items() if one in REGISTERED}
    with tempfile.TemporaryDirectory() as folder:
        sets = {data: prepared(data, Path(folder)) for data in ("hotpotqa", "2wiki")}
        end = time.monotonic() + 60 * minutes
        for number in range(QUESTIONS):
            for data, (questions, retrievers) in sets.items():
                asked = questions[number]
                mark = hashlib.blake2b(asked.text.encode(), digest_size=6).hexdigest()
                model.cache = InMemoryCache()  # settings share the calls in which they don't differ
                for method, options in methods.items():
                    for setting, retriever in retrievers.items():
                        key = (name, data, mark, method, setting)
                        if key in done:
                            continue
                        if time.monotonic() > end:
                            return
                        graph = build_graph(method, model=model, retriever=retriever, k=K, **options)
                        out = graph.invoke({"question": asked.text}, {"max_concurrency": 1})
                        record(key, asked, out)


def record(key: tuple[str, ...], asked: Asked, out: dict[str, Any]) -> None:
    """Write a row."""
    usage, read = out["usage"], {doc.id for doc in out["passages"]}
    row: dict[str, Any] = dict(zip(("model", "data", "question", "method", "retriever"), key, strict=True))
    row |= {"f1": round(squad_f1(out["answer"], asked.answers), 3), "unknown": out["status"] == "unknown"}
    row |= {"calls": usage["calls"], "tokens": usage["input_tokens"] + usage["output_tokens"]}
    row |= {"recall": round(len(asked.support & read) / len(asked.support), 3)}
    with RESULTS.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")
    print(*key, row["f1"], row["recall"], flush=True)


def recorded() -> Iterator[dict[str, Any]]:
    """Yield the rows so far."""
    if RESULTS.exists():
        yield from map(json.loads, RESULTS.read_text("utf-8").splitlines())


def table() -> None:
    """Print what is recorded, over the questions that every retriever of a method has."""
    groups: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for row in recorded():
        groups[row["model"], row["data"], row["method"]][row["retriever"]][row["question"]] = row
    print("| model | data | method | retriever | questions | recall | F1 | gain | calls | tokens | Unknown |")
    print("|" + "---|" * 11)
    for (model, data, method), settings in sorted(groups.items()):
        common = sorted(set.intersection(*(set(settings[one]) for one in SETTINGS)))
        for setting in SETTINGS if common else ():
            found = [settings[setting][one] for one in common]
            mean = {key: sum(row[key] for row in found) / len(found) for key in ("recall", "f1", "calls", "tokens")}
            gain = ""
            if setting != "hybrid":
                first = [row["f1"] for row in found]
                gap = compare(first, [settings["hybrid"][one]["f1"] for one in common]).difference
                gain = f"{100 * gap.mean:+.1f} [{100 * gap.low:.1f}, {100 * gap.high:.1f}]"
            unknown = sum(row["unknown"] for row in found) / len(found)
            shares = f"{100 * mean['recall']:.0f} | {100 * mean['f1']:.1f} | {gain}"
            cost = f"{mean['calls']:.1f} | {mean['tokens']:.0f} | {unknown:.0%}"
            print(f"| {model} | {data} | {method} | {setting} | {len(common)} | {shares} | {cost} |")


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", help="the model's spec")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--table", action="store_true", help="print what is recorded")
    arguments = parser.parse_args()
    if arguments.table:
        table()
    elif arguments.model:
        measure(arguments.model, arguments.minutes)
    else:
        parser.error("give --model, or --table")


if __name__ == "__main__":
    main()
