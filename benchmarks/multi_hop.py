"""What methods for multi-hop questions gain over one prompt, and what they cost: F1, calls, tokens, Unknown.

Asks 60 questions of HotpotQA and 60 of 2WikiMultihopQA (../shared/data), five passages a search, from a corpus of
all paragraphs that the data sets give (BM25, and names that lead from passage to passage: `--retriever bm25` for
BM25 alone). All methods answer a question before the next one is asked, and each row is written as soon as it is
there: a run that is interrupted goes on where it stopped.

    python benchmarks/multi_hop.py --model llamacpp:qwen2.5-coder-1.5b.gguf?n_ctx=4096 --minutes 240
    python benchmarks/multi_hop.py --table

Differences from `concat` are paired, with 95 % intervals by bootstrap over the questions that both answered.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document

from ragweave import build_graph, chat_model
from ragweave.errors import RagweaveError
from ragweave.evaluation.metrics.answers import squad_f1
from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.statistics import bootstrap

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data"
RESULTS = HERE / "results" / "multi_hop.jsonl"
SETS = {"hotpotqa": "hotpotqa/hotpot-dev-200.jsonl.gz", "2wiki": "2wiki/2wiki-train-500.json.gz"}
METHODS = "concat,ircot,self_ask,agentic,decompose,search_o1,main_rag"
QUESTIONS, PASSAGES = 60, 5
FIELDS = ("model", "retriever", "data", "question", "method")
"""What names a row."""


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a gzip file: a JSON list, or JSON lines."""
    text = gzip.decompress(path.read_bytes()).decode()
    found: list[dict[str, Any]] = json.loads(text) if text.startswith("[") else list(map(json.loads, text.splitlines()))
    return found


def questions(data: str) -> tuple[list[tuple[str, str]], list[Document]]:
    """Return 60 questions with their answers, and all paragraphs of the data set."""
    found = rows(DATA / SETS[data])
    texts = {(title, "".join(said).strip()) for row in found for title, said in row["context"]}
    if data == "2wiki":
        texts |= {(one["title"], one["text"]) for one in rows(DATA / "2wiki" / "2wiki-corpus-6119.json.gz")}
    asked = [(row["question"], row["answer"]) for row in found][:: len(found) // QUESTIONS][:QUESTIONS]
    return asked, [Document(text, metadata={"title": title}) for title, text in sorted(texts) if text]


def answered(method: str, question: str, gold: str, **built: Any) -> dict[str, Any]:
    """Return what a method answers, scored, and what it cost; an error of the model is an answer, too."""
    began = time.monotonic()
    try:
        out = build_graph(method, k=PASSAGES, **built).invoke({"question": question}, {"max_concurrency": 1})
    except RagweaveError as error:
        return {"f1": 0.0, "unknown": True, "calls": 0, "input": 0, "output": 0, "error": str(error)[:200]}
    usage = out["usage"]
    return {
        "f1": round(squad_f1(out["answer"], [gold]), 3),
        "unknown": out["status"] == "unknown",
        "calls": usage["calls"],
        "input": usage["input_tokens"],
        "output": usage["output_tokens"],
        "seconds": round(time.monotonic() - began, 1),
    }


def measure(spec: str, methods: Sequence[str], mode: Any, minutes: float) -> None:
    """Answer what is not answered yet, for so many minutes."""
    name = Path(spec.partition(":")[2].partition("?")[0]).stem or spec
    done = {tuple(row[field] for field in FIELDS) for row in recorded()}
    model, end = chat_model(spec), time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        asked, retrievers = {}, {}
        for data in SETS:
            asked[data], documents = questions(data)
            kb = KnowledgeBase.create(Path(folder, data), settings=Settings(embedding=None))
            kb.add(documents, source=data, split=False)
            retrievers[data] = kb.as_retriever(PASSAGES, mode)
        for number in range(QUESTIONS):
            for data in SETS:
                question, gold = asked[data][number]
                model.cache = InMemoryCache()  # methods share the calls in which they don't differ
                mark = hashlib.blake2b(question.encode(), digest_size=6).hexdigest()
                for method in methods:
                    key = (name, mode, data, mark, method)
                    if key in done:
                        continue
                    if time.monotonic() > end:
                        return
                    row = answered(method, question, gold, model=model, retriever=retrievers[data])
                    with RESULTS.open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps({**dict(zip(FIELDS, key, strict=True)), **row}) + "\n")
                    print(data, number, method, row, flush=True)


def recorded() -> Iterator[dict[str, Any]]:
    """Yield the rows so far."""
    if RESULTS.exists():
        yield from map(json.loads, RESULTS.read_text("utf-8").splitlines())


def table() -> None:
    """Print what is recorded, a line a model, retriever, set and method."""
    groups: dict[tuple[Any, ...], dict[str, dict[str, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for row in recorded():
        groups[row["model"], row["retriever"], row["data"]][row["method"]][row["question"]] = row
    print("| model | search | data | method | questions | F1 | beside concat | calls | tokens in | out | Unknown |")
    print("|---" * 11 + "|")
    for group, methods in sorted(groups.items()):
        for method, found in methods.items():
            base = methods.get("concat", {})
            pairs = [100 * (row["f1"] - base[mark]["f1"]) for mark, row in found.items() if mark in base]
            gain = bootstrap(pairs) if pairs and method != "concat" else None
            shown = f"{gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]" if gain else ""
            f1, calls, sent, said, unknown = (
                sum(row[key] for row in found.values()) / len(found)
                for key in ("f1", "calls", "input", "output", "unknown")
            )
            cells = [
                *group,
                method,
                len(found),
                f"{100 * f1:.1f}",
                shown,
                f"{calls:.1f}",
                f"{sent:,.0f}",
                f"{said:,.0f}",
            ]
            print("| " + " | ".join(map(str, [*cells, f"{unknown:.0%}"])) + " |")


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", help="the model's spec")
    parser.add_argument("--methods", default=METHODS, help="the methods, separated by commas")
    parser.add_argument("--retriever", default="graph", choices=["graph", "bm25"])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--table", action="store_true", help="print what is recorded")
    arguments = parser.parse_args()
    if arguments.table:
        table()
    elif arguments.model:
        measure(arguments.model, arguments.methods.split(","), arguments.retriever, arguments.minutes)
    else:
        parser.error("give --model, or --table")


if __name__ == "__main__":
    main()
