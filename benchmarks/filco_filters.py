"""FILCO's filters on real passages: what they find, what they keep, the tokens they save.

    python benchmarks/filco_filters.py [--limit N] [--scorer PATH]

Data: ../shared/data/filter, seen from the project's root: the 600 questions of qed-dev whose
answer one sentence explains, and clapnq-answerable (the sentences that any annotator chose;
questions with none are left out).
Passages are cut by ragweave's own splitter, so gold and kept text are compared by characters:

* first right: the best kept span lies (for more than half of it) in gold text;
* recall: share of gold sentences of which more than half is kept;
* recall in prompt: the same with the full passage where nothing is kept (the fallback);
* precision: share of the kept characters that are gold, over questions with anything kept;
* kept any: share of questions with a kept span; the others fall back to the full passage;
* saved: share of the passages' tokens (characters / 4) kept out of the prompt, fallbacks included.

"gold" rows are oracles, they see the answer; "question" rows see the question alone and are not the
paper's trained filter. CXMI runs only with --scorer, a local folder of a transformers model.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document
from rich.console import Console
from rich.table import Table

from ragweave.tools.filters import (
    ContextFilter,
    CxmiFilter,
    FullFilter,
    LexicalFilter,
    Span,
    StrincFilter,
    apply_spans,
    saved_tokens,
)
from ragweave.tools.scorers import HuggingFaceScorer

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "filter"
RESULTS = ROOT / "benchmarks" / "results"
COLUMNS = ("first_right", "recall", "recall_in_prompt", "precision", "kept_any", "saved")


class Case(NamedTuple):
    question: str
    answers: list[str]
    passage: Document
    gold: list[tuple[int, int]]
    """Offsets of the gold sentences."""


def rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def qed() -> Iterator[Case]:
    for row in rows("qed-dev"):
        if row["annotation"]["explanation_type"] == "single_sentence":
            chosen = row["annotation"]["selected_sentence"]
            yield Case(
                row["question_text"],
                [part["string"] for answer in row["original_nq_answers"] for part in answer],
                Document(page_content=row["paragraph_text"], id=str(row["example_id"])),
                [(chosen["start"], chosen["end"])],
            )


def clapnq() -> Iterator[Case]:
    for row in rows("clapnq-answerable"):
        given = row["passages"][0]
        chosen = {s for output in row["output"] for s in output["selected_sentences"]}
        gold, cursor = [], 0
        for sentence in given["sentences"]:
            start = given["text"].index(sentence, cursor)
            cursor = start + len(sentence)
            if sentence in chosen:
                gold.append((start, cursor))
        answers = [output["answer"] for output in row["output"] if output["answer"]]
        if gold and answers:
            passage = Document(page_content=given["text"], id=row["id"])
            yield Case(row["input"], answers, passage, gold)


def filters(scorer: str | None) -> dict[str, tuple[ContextFilter, bool]]:
    """The filters by name, and whether each sees the gold answers."""
    made: dict[str, tuple[ContextFilter, bool]] = {
        "full": (FullFilter(), False),
        "strinc, gold, top 1": (StrincFilter(), True),
        "strinc, gold, all": (StrincFilter(top=None), True),
        "lexical, gold, top 1": (LexicalFilter(), True),
        "lexical, gold, top 1, no threshold": (LexicalFilter(threshold=0.0), True),
        "lexical, gold, top 2, no threshold": (LexicalFilter(threshold=0.0, top=2), True),
        "lexical, gold, characters": (LexicalFilter(unit="characters"), True),
        "lexical, question, top 1": (LexicalFilter(), False),
        "lexical, question, top 2": (LexicalFilter(top=2), False),
        "lexical, question, top 3": (LexicalFilter(top=3), False),
    }
    if scorer:
        model = HuggingFaceScorer(scorer, max_tokens=1024)
        made["cxmi, gold, top 1"] = (CxmiFilter(model), True)
        made["cxmi, gold, top 2"] = (CxmiFilter(model, top=2), True)
    return made


def shared(one: tuple[int, int], two: tuple[int, int]) -> int:
    """Characters that two stretches have in common."""
    return max(0, min(one[1], two[1]) - max(one[0], two[0]))


def judged(case: Case, kept: list[Span]) -> dict[str, float | None]:
    """What one filter did on one question; None where a share has nothing to stand on."""
    stretches = [(span["start"], span["end"]) for span in kept]
    gold_in = [sum(shared(s, g) for g in case.gold) for s in stretches]
    kept_of = [sum(shared(s, g) for s in stretches) for g in case.gold]
    length = sum(end - start for start, end in stretches)
    before = len(case.passage.page_content)
    after = apply_spans([case.passage], kept).passages
    recall = sum(
        2 * k > end - start for k, (start, end) in zip(kept_of, case.gold, strict=True)
    ) / len(case.gold)
    return {
        "first_right": float(bool(kept) and 2 * gold_in[0] > stretches[0][1] - stretches[0][0]),
        "recall": recall,
        "recall_in_prompt": recall if kept else 1.0,
        "precision": sum(gold_in) / length if length else None,
        "kept_any": float(bool(kept)),
        "saved": saved_tokens([case.passage], after) / max(1, before // 4),
    }


def measure(one: ContextFilter, cases: list[Case], *, sees_gold: bool) -> dict[str, float]:
    """Means over the questions."""
    found = [
        judged(c, one.keep(c.question, [c.passage], answers=c.answers if sees_gold else None))
        for c in cases
    ]
    means = {}
    for column in COLUMNS:
        values = [row[column] for row in found if row[column] is not None]
        means[column] = sum(values) / max(1, len(values))
    return means


def plot(report: dict[str, dict[str, dict[str, float]]], path: Path) -> None:
    """Draw recall against tokens saved, a panel a data set."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(report), figsize=(7 * len(report), 5), sharey=True, layout="constrained"
    )
    markers = "osD^v<>Pp*Xhd"
    for axis, (name, measures) in zip(axes, report.items(), strict=True):
        for (label, values), marker in zip(measures.items(), markers, strict=False):
            axis.scatter(
                values["saved"], values["recall_in_prompt"], marker=marker, s=70, label=label
            )
        axis.set(
            title=name, xlabel="share of passage tokens saved", xlim=(-0.03, 1), ylim=(0, 1.04)
        )
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("recall of gold sentences in the prompt")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="outside right center")
    figure.savefig(path, dpi=120)


def main() -> int:
    """Print a table a data set, write the JSON and, with matplotlib, the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="questions a data set")
    parser.add_argument("--scorer", help="folder of a transformers model, for CXMI")
    options = parser.parse_args()
    console = Console()
    if not DATA.exists():
        console.print("needs ../shared/data/filter")
        return 2
    report: dict[str, dict[str, dict[str, float]]] = {}
    for name, cases in (("qed-dev", [*qed()]), ("clapnq-answerable", [*clapnq()])):
        cases = cases[: options.limit]
        table = Table(
            "filter",
            *(c.replace("_", " ") for c in COLUMNS),
            title=f"{name}: {len(cases)} questions",
        )
        report[name] = {}
        for label, (one, sees_gold) in filters(options.scorer).items():
            means = measure(one, cases, sees_gold=sees_gold)
            report[name][label] = means
            table.add_row(label, *(f"{means[column]:.3f}" for column in COLUMNS))
        console.print(table)
    if not options.scorer:
        console.print("CXMI left out: it needs a local model, --scorer PATH")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "filco_filters.json").write_text(
        json.dumps(report, indent=1) + "\n", encoding="utf-8"
    )
    if importlib.util.find_spec("matplotlib"):
        plot(report, RESULTS / "filco_filters.png")
    else:
        console.print("no plot: pip install matplotlib")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
