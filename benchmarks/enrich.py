"""What `--enrich` changes in recall: MuSiQue's first questions over their own passages, with and without it.

    python benchmarks/enrich.py MODEL [--questions 20] --keep FOLDER

MODEL, such as `llamacpp:model.gguf`, is asked once about each of some 19 passages a question. Its replies stay in FOLDER,
so an interrupted run goes on where it stopped, and more questions ask only about their own passages. Differences are in
points of recall among the first five, with the 95 % interval of a paired bootstrap over questions.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from graph_retrieval import in_percent, recall
from passage_sets import PassageSet, musique
from ragweave import KnowledgeBase
from ragweave.evaluation.statistics import bootstrap, compare
from ragweave.tools.knowledge import IndexSettings
from vectors import StoredEmbeddings

RESULTS = Path(__file__).parent / "results" / "enrich.json"
MODES = ("bm25", "dense", "hybrid", "graph")


def recalls(folder: Path, passages: PassageSet, enrich: str | None) -> dict[str, list[float]]:
    """Index the passages, each as it is; return the recall of every question by mode."""
    names = {(doc.metadata["title"], doc.page_content): str(doc.id) for doc in passages.documents}
    settings = IndexSettings(size=10_000)
    with KnowledgeBase.open_or_create(folder, settings=settings, embeddings=StoredEmbeddings()) as kb:
        kb.index_documents(passages.documents, "musique", progress, enrich=enrich)
        found = {}
        for mode in MODES:
            find = kb.as_retriever(10, mode).invoke
            found[mode] = [
                recall([names[doc.metadata["title"], doc.page_content] for doc in find(asked.text)], asked)
                for asked in passages.questions
            ]
    return found


def progress(stage: str, done: int, total: int) -> None:
    """Print how many passages the model has read."""
    if stage == "enrich" and done % 20 == 0:
        print(f"{done} of {total} passages", flush=True)


def measure(model: str, questions: int, keep: Path) -> dict[str, Any]:
    """Return recall without enrichment, and what it changes."""
    passages = musique(questions)
    before = recalls(keep / "plain", passages, None)
    after = recalls(keep / "enriched", passages, model)
    row: dict[str, Any] = {"passages": len(passages.documents)}
    for mode in MODES:
        result = compare(after[mode], before[mode])
        row[mode] = in_percent(bootstrap(before[mode]))[0]
        row |= {f"{mode}, enriched": in_percent(result.difference), f"{mode}, p": round(result.p, 4)}
    return row | {"date": time.strftime("%Y-%m-%d")}


def main() -> None:
    """Measure, and record it by model and number of questions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("model")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--keep", type=Path, required=True, help="the folder of the knowledge bases and replies")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    model = options.model.partition(":")[2].partition("?")[0]
    name = f"{Path(model).name.removesuffix('.gguf')}, {options.questions} questions"
    results[name] = measure(options.model, options.questions, options.keep)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print(name, results[name])


if __name__ == "__main__":
    main()
