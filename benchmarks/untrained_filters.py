"""What `filco` keeps of a search's passages without a trained filter: the answer, and how much text.

    python benchmarks/untrained_filters.py [--questions 500]

Data: ../shared/data, seen from the project's root: NQ's questions (`nq/nq-open-oracle.jsonl.gz`) and
HotpotQA's whose answer isn't yes or no (`hotpotqa/hotpot-dev-200.jsonl.gz`). BM25 finds three
passages a question among those of all the data set's questions; the graph `filco` filters them with
the question alone. Counted over the questions whose passages hold a gold answer as whole words:

* answer kept: share of which the kept text still holds one;
* text kept: mean share of the passages' characters.

No language model is asked: what is no longer in the prompt, no model can read there.
Writes `benchmarks/results/untrained_filters.json`.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from langchain_core.documents import Document
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ragweave import build_graph
from ragweave.datasets import Question, open_dataset
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.text.normalize import normalize_answer

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "benchmarks" / "results"
SOURCES = {
    "nq": f"nq:{DATA}/nq/nq-open-oracle.jsonl.gz",
    "hotpotqa": f"hotpotqa:{DATA}/hotpotqa/hotpot-dev-200.jsonl.gz",
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "lexical, one sentence": {"top": 1},
    "lexical, three sentences": {"top": 3},
    "lexical, half of the text (default)": {},
    "recomp, one sentence": {"filter": "recomp", "top": 1},
    "recomp, three sentences": {"filter": "recomp", "top": 3},
    "recomp, half of the text (default)": {"filter": "recomp"},
}


def holds(passages: Sequence[Document], answers: Sequence[str]) -> bool:
    """Say whether an answer stands in the passages, as whole normalised words."""
    text = f" {normalize_answer(' '.join(one.page_content for one in passages))} "
    plain = map(normalize_answer, answers)
    return any(f" {answer} " in text for answer in plain if answer)


def length(passages: Sequence[Document]) -> int:
    """Return the characters of all texts together."""
    return sum(len(one.page_content) for one in passages)


def asked(questions: list[Question], most: int) -> list[Question]:
    """Return a seeded sample of those whose answer can stand in a passage."""
    found = [one for one in questions if one.answers and one.answers[0].lower() not in ("yes", "no")]
    return random.Random(0).sample(found, min(most, len(found)))


def measured(name: str, most: int) -> dict[str, Any]:
    """Return what each variant keeps of one data set's passages."""
    dataset = open_dataset(SOURCES[name])
    search = Bm25Retriever.from_documents(dataset.corpus(), k=3)
    rows = [(one, search.invoke(one.question)) for one in asked(list(dataset), most)]
    rows = [(one, found) for one, found in rows if holds(found, one.answers)]
    variants = {}
    for label, options in VARIANTS.items():
        graph = build_graph("filco", model="extractive?similarity=lexical", **options)
        kept: list[tuple[bool, float]] = []
        for one, found in track(rows, f"{name}: {label}", console=Console(stderr=True)):
            left = graph.invoke({"question": one.question, "passages": found})["passages"]
            kept.append((holds(left, one.answers), length(left) / length(found)))
        variants[label] = {
            "answer_kept": fmean(answer for answer, _ in kept),
            "text_kept": fmean(text for _, text in kept),
        }
    return {"questions": len(rows), "variants": variants}


def main() -> None:
    """Measure both data sets, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--questions", type=int, default=500, help="most questions of a data set")
    options = parser.parse_args()
    results = {name: measured(name, options.questions) for name in SOURCES}
    table = Table("data set", "filter", "answer kept", "text kept", title="of passages found")
    for name, one in results.items():
        for label, kept in one["variants"].items():
            shares = (f"{kept[column]:.3f}" for column in ("answer_kept", "text_kept"))
            table.add_row(f"{name} ({one['questions']})", label, *shares)
    Console().print(table)
    path = RESULTS / "untrained_filters.json"
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
