"""The trained filter on sentences that people chose: which sentence of a passage answers the question?

    ragweave label filter qed:../shared/data/filter/qed-dev.jsonl.gz --measure gold -k 1 --out W/qed
    ragweave label filter clapnq:../shared/data/filter/clapnq-answerable.jsonl.gz --measure gold -k 1 --out W/clapnq
    ragweave label filter squad:../shared/data/abstain/squad2-dev-sample.json.gz -k 1 --top all --out W/squad
    ragweave label filter nq:../shared/data/nq/nq-open-oracle.jsonl.gz -k 1 --top all --out W/nq
    python benchmarks/trained_filter.py --gold W/qed --gold W/clapnq --silver W/squad --silver W/nq --work W
        [--folds 3] [--fold 0] [--gold-rows 300] [--silver-rows 4000] [--epochs 1]

Trains on silver rows first, which nobody labelled (without those whose question is among the gold rows), and then on
the gold rows of the other folds; questions that share a passage are in one fold. `first`: the best sentence is one that
people chose; `in two`: one of the best two is. Of 300 rows of QED and CLAPNQ together (--gold-rows 300), untrained
MiniLM reaches .68, and 500 silver rows (--silver-rows 500) alone .75. Whatever was trained before is taken from --work W,
and a training that was stopped goes on from its last checkpoint. --gold-rows, --silver-rows and --epochs (of silver
rows) make it cheaper.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from langchain_core.documents import Document

from ragweave.nodes.segments import split_passages
from ragweave.tools.filters import FilterKind, FilterSettings
from ragweave.tools.models.huggingface import model_folder
from ragweave.tools.trained.bi_encoder import read, shares
from ragweave.tools.trained.models import trained_filter
from ragweave.training import train
from ragweave.training.job import Scored, filtered
from ragweave.training.rows import FilterRow, question_key, read_rows, sentences_of


def rows_of(path: Path) -> list[FilterRow]:
    """Return the rows in which there is something to choose."""
    rows = [row for row in read_rows(path / "labels.jsonl", "filter") if isinstance(row, FilterRow)]
    return [row for row in rows if len(set(sentences_of(row)[1])) == 2]


def folds_of(rows: Sequence[FilterRow], count: int) -> list[int]:
    """Return the fold of each row."""
    head: dict[str, str] = {}
    keys = [
        head.setdefault(row.passages[0].text, head.setdefault(question_key(row), row.passages[0].text)) for row in rows
    ]
    order = np.random.default_rng(1).permutation(sorted(set(keys)))
    place = {str(key): at % count for at, key in enumerate(order)}
    return [place[key] for key in keys]


def trained(rows: Sequence[FilterRow], folder: Path, **settings: object) -> FilterKind:
    """Train a bi-encoder, or return the one that was trained before."""
    if not (folder / "card.json").is_file():
        labels = folder.with_suffix(".jsonl")
        labels.write_text("".join(f"{row.model_dump_json()}\n" for row in rows), "utf-8")
        resume = any(folder.glob("checkpoints/checkpoint-*"))
        if not resume and folder.is_dir():  # stopped before its first checkpoint
            shutil.rmtree(folder)
        train("filter", labels, folder, resume=resume, settings={"held_out": 0, "save_every": 50, **settings})
    return trained_filter(f"{folder}/")


def scores_of(kind: FilterKind, row: FilterRow) -> list[float]:
    """Return the score of each sentence."""
    passages = [Document(passage.text, id=passage.id, metadata={"title": passage.title}) for passage in row.passages]
    return list(kind.scores(row.question, split_passages(passages), [], FilterSettings()))


def show(name: str, rows: Sequence[tuple[FilterRow, list[float]]]) -> None:
    """Print the measures of some rows."""
    scored = []
    for row, scores in rows:
        passages, keep = sentences_of(row)
        scored.append(Scored(scores, keep, [len(text.split()) for passage in passages for text in passage.sentences]))
    measures = filtered(scored, 0.5)
    print(
        f"{name:24}" + "  ".join(f"{key.replace('_', ' ')} {value:.3f}" for key, value in measures.items()), flush=True
    )


def main() -> None:
    """Train and measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gold", type=Path, action="append", required=True)
    parser.add_argument("--silver", type=Path, action="append")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--fold", type=int, action="append", help="measure this fold alone")
    parser.add_argument("--gold-rows", type=int, help="a sample of so many")
    parser.add_argument("--silver-rows", type=int, help="a sample of so many")
    parser.add_argument("--epochs", type=int, default=1, help="epochs over the silver rows")
    parser.add_argument("--work", type=Path, default=Path("filter-benchmark"))
    given = parser.parse_args()
    given.work.mkdir(exist_ok=True)
    files = [(path.stem, row) for path in given.gold for row in rows_of(path)]
    if given.gold_rows:
        files = random.Random(0).sample(files, min(given.gold_rows, len(files)))
    rows = [row for _, row in files]
    fold, base = folds_of(rows, given.folds), "minilm"
    model = read(model_folder(base), 256)
    show("untrained", [(row, shares(model, row.question, sentences_of(row)[0])) for row in rows])
    if given.silver:
        asked = {question_key(row) for row in rows}
        silver = [row for path in given.silver for row in rows_of(path) if question_key(row) not in asked]
        if given.silver_rows:
            silver = random.Random(0).sample(silver, min(given.silver_rows, len(silver)))
        kind, base = trained(silver, given.work / "silver", epochs=given.epochs), str(given.work / "silver")
        scored = [(row, scores_of(kind, row)) for row in rows]
        for path in given.gold:
            show(
                f"silver, {path.stem}",
                [pair for pair, (name, _) in zip(scored, files, strict=True) if name == path.stem],
            )
        show("silver", scored)
    scored, names = [], []
    for number in given.fold or range(given.folds):
        rest = [row for row, own in zip(rows, fold, strict=True) if own != number]
        kind = trained(rest, given.work / f"fold-{number}", base=base)
        here = [file for file, own in zip(files, fold, strict=True) if own == number]
        scored += [(row, scores_of(kind, row)) for _, row in here]
        names += [name for name, _ in here]
    for path in given.gold:
        show(
            f"then people's, {path.stem}", [pair for pair, name in zip(scored, names, strict=True) if name == path.stem]
        )
    show("then people's", scored)


if __name__ == "__main__":
    main()
