"""Nugget recall of `research` on ten questions over the bundled articles, beside `concat` with long answers.

Nuggets were written by hand from the articles (`research_nuggets.json`), vital or okay, as the AutoNuggetizer of
TREC 2024 RAG has them (Pradeep et al. 2024, arXiv 2411.09607). Scores are its four: a supported nugget counts 1, a
partly supported one one half, and 0 in the strict scores; over the vital nuggets, or over all.

Support is decided by words: a nugget names groups of alternatives; all groups within two sentences of the answer are
support, half of them partial support. `--judge MODEL` asks a model instead.

    python benchmarks/research_nuggets.py --model llamacpp:qwen2.5-coder-1.5b.gguf?n_ctx=4096 --minutes 60
    python benchmarks/research_nuggets.py --table

Each answer is written as soon as it is there: a run that is interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from ragweave import build_graph, chat_model
from ragweave.corpus import corpus_documents
from ragweave.graphs.specs import read_system
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.text.words import split_sentences

HERE = Path(__file__).parent
NUGGETS = HERE / "research_nuggets.json"
RESULTS = HERE / "results" / "research_nuggets.jsonl"
SYSTEMS = ("concat", "research", "research[max_sections=0]")
SCORES = ("strict_vital", "vital", "strict_all", "all")
CREDIT = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}


class Verdict(BaseModel):
    """A judge's verdict."""

    verdict: Literal["support", "partial_support", "not_support"]


def by_words(answer: str, match: str) -> str:
    """Return how an answer supports a nugget, by the nugget's groups of alternatives."""
    sentences = [sentence.text.lower() for sentence in split_sentences(answer)]
    groups = [[word.strip() for word in group.split("|")] for group in match.split("&")]
    windows = [f"{first} {second}" for first, second in zip(sentences, [*sentences[1:], ""], strict=True)]
    share = max(
        (sum(any(word in window for word in group) for group in groups) / len(groups) for window in windows), default=0
    )
    return "support" if share == 1 else "partial_support" if share >= 0.5 else "not_support"


def by_judge(judge: Any, question: str, answer: str, nugget: str) -> str:
    """Return how an answer supports a nugget, as a model says."""
    asked = (
        f"Question: {question}\n\nAnswer:\n{answer}\n\nFact: {nugget}\n\nDoes the answer state this fact? support: all of "
        "it; partial_support: a part of it; not_support: none of it."
    )
    verdict: Verdict = judge.with_structured_output(Verdict).invoke(asked)
    return verdict.verdict


def scores(nuggets: Sequence[Sequence[str]], support: Sequence[str]) -> dict[str, float]:
    """Return the four scores of an answer, 0 to 1."""
    results: dict[str, float] = {}
    for name in SCORES:
        wanted = [
            label for nugget, label in zip(nuggets, support, strict=True) if "all" in name or nugget[0] == "vital"
        ]
        credit = [float(label == "support") if "strict" in name else CREDIT[label] for label in wanted]
        results[name] = round(sum(credit) / len(credit), 4)
    return results


def measure(spec: str, minutes: float, judge: Any, k: int) -> None:
    """Answer and score what is not there yet, for so many minutes."""
    name = Path(spec.partition(":")[2].partition("?")[0]).stem or spec
    done = {(row["model"], row["system"], row["question"]) for row in recorded()}
    model, end = chat_model(spec), time.monotonic() + 60 * minutes
    retriever = Bm25Retriever.from_documents(corpus_documents(), k=k)
    for entry in json.loads(NUGGETS.read_text("utf-8")):
        for system in SYSTEMS:
            question = entry["question"]
            if (name, system, question) in done:
                continue
            if time.monotonic() > end:
                return
            spec = read_system(system)
            settings = {"k": k, "citations": True, **spec.options}
            graph = build_graph(spec.method, model=model, retriever=retriever, **settings)
            out = graph.invoke({"question": question, "answer_type": "long"}, {"max_concurrency": 1})
            support = [
                by_judge(judge, question, out["answer"], text) if judge else by_words(out["answer"], match)
                for _, text, match in entry["nuggets"]
            ]
            usage, cited = out["usage"], out["citations"]
            row = {"model": name, "system": system, "question": question, "answer": out["answer"], "support": support}
            row |= scores(entry["nuggets"], support)
            row |= {
                "quoted": sum(bool(cited_sentence["quotes"]) for cited_sentence in cited),
                "sentences": len(cited),
                "calls": usage["calls"],
            }
            row |= {"tokens": usage["input_tokens"] + usage["output_tokens"]}
            with RESULTS.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")
            print(name, system, row["vital"], row["all"], question, flush=True)


def recorded() -> Iterator[dict[str, Any]]:
    """Yield the rows so far."""
    if RESULTS.exists():
        yield from map(json.loads, RESULTS.read_text("utf-8").splitlines())


def table() -> None:
    """Print what is recorded, a line a model and system."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in recorded():
        groups[row["model"], row["system"]].append(row)
    print("| model | system | questions | strict vital | vital | strict all | all | quoted | calls | tokens |")
    print("|---" * 10 + "|")
    for (model, system), rows in sorted(groups.items()):
        means = " | ".join(f"{sum(row[name] for row in rows) / len(rows):.2f}" for name in SCORES)
        sentences = sum(row["sentences"] for row in rows)
        quoted = sum(row["quoted"] for row in rows) / sentences if sentences else 0
        costs = " | ".join(f"{sum(row[name] for row in rows) / len(rows):,.1f}" for name in ("calls", "tokens"))
        print(f"| {model} | `{system}` | {len(rows)} | {means} | {quoted:.0%} | {costs} |")


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", help="the model's spec")
    parser.add_argument("--judge", help="a model that decides support; without it, words do")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("-k", type=int, default=5, help="passages per search")
    parser.add_argument("--table", action="store_true", help="print what is recorded")
    arguments = parser.parse_args()
    if arguments.table:
        table()
    elif arguments.model:
        measure(arguments.model, arguments.minutes, arguments.judge and chat_model(arguments.judge), arguments.k)
    else:
        parser.error("give --model, or --table")


if __name__ == "__main__":
    main()
