"""The small filter on sentences that people chose: which sentence of a passage answers?

    python benchmarks/trained_filter.py [--folds 3] [--run 0,1] [--silver squad,nq]
        [--only silver,further,distilled,distilled-further,gold] [--cross-encoder] [--fresh]

Measures on `filter/qed-dev` and `filter/clapnq-answerable` (in `../shared/data`), by
cross-validation over questions. All rows are made by `ragweave label filter`'s own code: people's
choice (`gold`) there, and for silver pre-training the sentences that hold an answer (`strinc`) of
SQuAD 2.0's sample, NQ-open with gold passages, and (`--silver …,dpr`) DPR's. Silver rows are left
out whose question stands in `filter/*`, or whose passages share three 8-word shingles with one
there. Passages of one sentence, or whose every sentence was chosen, are not measured: nothing can
be wrong there.

Ways: word F1 with the question, the lead sentence, cosine of untrained MiniLM, and span encoders
trained on silver rows alone, on `filter/*` alone, and on silver rows first and `filter/*` after;
`--cross-encoder` adds the plain cross-encoder on `filter/*`, `--only …,distilled` a stage behind
silver rows on those that a language model scored (`cxmi_scores.py`), `distilled-further` people's
after it. `first`: the best sentence is one that people chose; `in two`: one of the best two is. The
threshold of each fold is chosen on the other folds' scores to keep 0.9 of the chosen sentences; recall and share of words kept are measured at
it. Where one fold alone was run, its threshold is chosen on itself, which flatters it a little.

Goal: 0.75 first. It is missed, narrowly. Silver rows first, then those kept by CXMI (Qwen2.5-Coder
1.5B), then people's reach 0.749 on both sets (three folds; the interval holds the goal), 0.806 on
CLAPNQ and 0.719 on QED, where word F1 has 0.485. Nearly all of it comes of silver rows, which nobody
labelled: they alone give 0.737 on both. CXMI's rows behind them alone take it down to 0.721; what they
add to people's 550 rows (0.742 without them) lies within the noise. In two, 0.92 are right.

Each stage keeps its part and its scores in `benchmarks/.trained_filter`, so that a run that was
broken off goes on; `--fresh` begins anew. One torch thread. Writes `results/trained_filter.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from langchain_core.documents import Document
from rich.console import Console
from rich.table import Table

from ragweave.nodes.segments import split_passages
from ragweave.tools.filters import FilterSettings, lexical
from ragweave.trained.filter import trained_filter
from ragweave.trained.judge_reading import load_encoder
from ragweave.training.encoders.pairs import sentences_of
from ragweave.training.encoders.span_rows import span_measures, span_threshold
from ragweave.training.job import Watch
from ragweave.training.labels import Passages, SilverLabeler, make_labels, open_source
from ragweave.training.rows import SilverRow, TrainingRow, question_key, read_rows
from ragweave.training.train import plan_training, train_part

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "benchmarks" / "results" / "trained_filter.json"
KEPT = ROOT / "benchmarks" / ".trained_filter"
CXMI_ROWS, CXMI_SCORES = KEPT / "cxmi-rows.jsonl", KEPT / "cxmi-scores.jsonl"
GOLD = {
    "qed": "qed:filter/qed-dev.jsonl.gz",
    "clapnq": "clapnq:filter/clapnq-answerable.jsonl.gz",
}
SILVER = {
    "squad": "squad:abstain/squad2-dev-sample.json.gz",
    "nq": "nq:nq/nq-open-oracle.jsonl.gz",
    "dpr": "dpr:nq/dpr-one-passage.jsonl.gz",
}
GOAL, RECALL, SHINGLE, SHARED = 0.75, 0.9, 8, 3
TRAINED = {
    "silver": "span encoder: silver",
    "distilled": "span encoder: silver, then CXMI",
    "gold": "span encoder: filter/*",
    "further": "span encoder: silver, then filter/*",
    "distilled-further": "span encoder: silver, CXMI, then filter/*",
    "cross-encoder": "cross-encoder: filter/*",
}
BY_FOLD = ("further", "distilled-further", "gold", "cross-encoder")
Scores = list[list[float] | None]


class Passage(NamedTuple):
    """A passage to measure on."""

    data: str
    row: SilverRow
    sentences: list[str]
    gold: list[int]


class Judged(NamedTuple):
    """A passage with its scores."""

    logits: list[float]
    gold: list[int]
    sizes: list[int]
    """Words of each sentence."""


class Bar(Watch):
    """Prints every twentieth step."""

    def step(self, done: int, total: int, loss: float | None) -> None:
        """Tell a step."""
        if done % 20 == 0 or done == total:
            print(f"  {done}/{total} loss {loss:.3f}", flush=True)

    def say(self, line: str) -> None:
        """Tell a line."""
        print(f"  {line}", flush=True)


def labelled(name: str, spec: str, measure: str) -> list[SilverRow]:
    """Return a data set's rows, labelled by the package."""
    kind, _, path = spec.partition(":")
    maker = SilverLabeler(measure, Passages(None, 1), top=None if measure == "strinc" else 1)
    out = KEPT / f"{name}.jsonl"
    made = make_labels(open_source(f"{kind}:{DATA / path}"), maker, out, skip_bad=True)
    return cast("list[SilverRow]", read_rows(made.path, "filter"))


def passages() -> list[Passage]:
    """Return the passages with something to choose, of which people chose."""
    found = []
    for data, spec in GOLD.items():
        for row in labelled(data, spec, "gold"):
            spans = sentences_of(row)
            gold = [at for at, one in enumerate(spans) if one.keep]
            if 0 < len(gold) < len(spans):
                found.append(Passage(data, row, [one.span["text"] for one in spans], gold))
    return found


def silver(names: Sequence[str], held: Sequence[Passage]) -> tuple[list[SilverRow], dict[str, int]]:
    """Return silver rows that share nothing with what is measured, and how many are left out."""
    questions = {question_key(one.row) for one in held}
    texts = {gram for one in held for gram in shingles(one.row)}
    rows: list[SilverRow] = []
    counts: dict[str, int] = {}
    for name in names:
        for row in labelled(name, SILVER[name], "strinc"):
            apart = question_key(row) not in questions and len(shingles(row) & texts) < SHARED
            key = f"{name}: {'rows' if apart else 'left out'}"
            counts[key] = counts.get(key, 0) + 1
            if apart:
                rows.append(row)
    return rows, counts


def distilled() -> list[SilverRow]:
    """Return rows that keep, of the sentences with an answer, the one with the highest CXMI.

    The others that hold the answer's words are hard negatives; a row is left out where no such
    sentence makes the answer likelier. What scored them is `cxmi_scores.py`.
    """
    rows = [cast("SilverRow", row) for row in read_rows(CXMI_ROWS, "filter")]
    lines = CXMI_SCORES.read_text("utf-8").splitlines()
    made: list[SilverRow] = []
    for row, line in zip(rows, map(json.loads, lines), strict=False):
        if line["id"] != row["id"]:
            raise SystemExit(f"{CXMI_SCORES}: {line['id']} is not {row['id']}: score them again")
        found = list(zip(line["cxmi"], sentences_of(row), strict=True))
        best = max((one for one in found if one[1].keep), key=lambda one: one[0], default=None)
        if best is not None and best[0] > 0:
            source = {**row.get("source", {}), "measure": "cxmi"}
            made.append({**row, "spans": [{**best[1].span, "score": 1.0}], "source": source})
    return made


def shingles(row: SilverRow) -> set[str]:
    """Return the runs of eight words in a row's passages."""
    found = set()
    for one in row["passages"]:
        words = "".join(c if c.isalnum() else " " for c in one["text"].lower()).split()
        found |= {" ".join(words[at : at + SHINGLE]) for at in range(len(words) - SHINGLE + 1)}
    return found


def folds_of(found: Sequence[Passage], count: int) -> list[int]:
    """Deal the questions out to folds; questions that share a passage are in one fold."""
    head: dict[str, str] = {}
    keys = []
    for one in found:
        text = one.row["passages"][0]["text"]
        keys.append(head.setdefault(text, head.setdefault(question_key(one.row), text)))
    order = np.random.default_rng(1).permutation(sorted(set(keys)))
    place = {str(key): at % count for at, key in enumerate(order)}
    return [place[key] for key in keys]


def train(name: str, rows: Sequence[TrainingRow], kind: str, **settings: Any) -> tuple[Path, float]:
    """Train a part, or return the one that was trained before; and its minutes."""
    folder, file = KEPT / name, KEPT / f"{name}.rows.jsonl"
    minutes = KEPT / f"{name}.minutes"
    if not (folder / "part.json").is_file():
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        plan = plan_training(
            "filter",
            file,
            folder,
            kind=kind,
            settings={"held_out": 0.02, "save_every": 50, **settings},
        )
        print(f"{name}: {len(rows)} rows", flush=True)
        started = time.process_time()
        train_part(plan, resume=(folder / "training.json").is_file(), watch=Bar())
        minutes.write_text(str((time.process_time() - started) / 60))
    return folder, float(minutes.read_text())


def part_scores(name: str, folder: Path, found: Sequence[Passage]) -> list[list[float]]:
    """Return a part's logits of each passage's sentences, as it gives them in use."""
    file = KEPT / f"{name}.scores.json"
    if not file.is_file():
        part = trained_filter(str(folder))
        made = []
        for one in found:
            texts = [Document(p["text"], id=p["id"], metadata={"title": p["title"]})
                     for p in one.row["passages"]]  # fmt: skip
            segments = split_passages(texts)
            scores = part.scores(one.row["question"], segments, [], FilterSettings())
            place = {s.metadata["start"]: score for s, score in zip(segments, scores, strict=True)}
            starts = [span.span["start"] for span in sentences_of(one.row)]
            made.append([float(np.log(place.get(at, 0.0) + 1e-12)) for at in starts])
        file.write_text(json.dumps(made))
    return cast("list[list[float]]", json.loads(file.read_text()))


def untrained(found: Sequence[Passage]) -> Iterator[tuple[str, Scores]]:
    """Yield the ways that nothing is trained for."""
    yield "word F1", [[lexical(s, one.row["question"]) for s in one.sentences] for one in found]
    yield "lead sentence", [[-float(at) for at in range(len(one.sentences))] for one in found]
    encoder = load_encoder("minilm", device="cpu")
    texts = [one.row["question"] for one in found] + [s for one in found for s in one.sentences]
    vectors = encoder.vectors(texts)
    yield (
        "untrained MiniLM",
        [[float(vectors[s] @ vectors[one.row["question"]]) for s in one.sentences] for one in found],
    )


def measured(found: Sequence[Passage], scores: Scores, folds: Sequence[int]) -> dict[str, Any]:
    """Return the measures by data set, over the passages that have scores."""
    have = [at for at, one in enumerate(scores) if one is not None]
    told: dict[str, Any] = {}
    for data in (*GOLD, "both"):
        parts: list[Judged] = []
        for fold in sorted({folds[at] for at in have}):
            rest = [at for at in have if folds[at] != fold] or have
            least = span_threshold([scores[at] or [] for at in rest],
                                   [found[at].gold for at in rest], RECALL)  # fmt: skip
            for at in have:
                if folds[at] == fold and data in (found[at].data, "both"):
                    # in units of its fold's threshold, so that one threshold serves all folds
                    logits = (np.asarray(scores[at]) / -np.log(least)).tolist()
                    sizes = [len(sentence.split()) for sentence in found[at].sentences]
                    parts.append(Judged(logits, found[at].gold, sizes))
        if parts:
            told[data] = span_measures(
                [one.logits for one in parts],
                [one.gold for one in parts],
                [one.sizes for one in parts],
                float(np.exp(-1.0)),
            )
    return told


def trained(
    options: argparse.Namespace, found: Sequence[Passage], folds: Sequence[int]
) -> Iterator[tuple[str, Scores, dict[str, float]]]:
    """Yield the ways that are trained, each after each of its folds."""
    ways = options.only.split(",") + (["cross-encoder"] if options.cross_encoder else [])
    rows = silver(options.silver.split(","), found)[0]
    bases: dict[str, dict[str, Any]] = {}
    if {"silver", "further", "distilled", "distilled-further"} & set(ways):
        folder, took = train("silver", rows, "span-encoder", epochs=1.0)
        bases["further"] = {"base": str(folder)}
        if "silver" in ways:
            yield "silver", list(part_scores("silver", folder, found)), {"training": took}
    if {"distilled", "distilled-further"} & set(ways):
        more = bases["further"]
        folder, took = train("distilled", distilled(), "span-encoder", epochs=2.0, **more)
        bases["distilled-further"] = {"base": str(folder)}
        if "distilled" in ways:
            yield "distilled", list(part_scores("distilled", folder, found)), {"training": took}
    for way in [one for one in BY_FOLD if one in ways]:
        scores: Scores = [None] * len(found)
        minutes = []
        for fold in map(int, options.run.split(",")):
            name = f"{way}-{fold}"
            others = [one.row for one, at in zip(found, folds, strict=True) if at != fold]
            kind = "cross-encoder" if way == "cross-encoder" else "span-encoder"
            folder, took = train(name, others, kind, **bases.get(way, {}))
            minutes.append(took)
            mine = [at for at, one in enumerate(folds) if one == fold]
            for at, one in zip(mine, part_scores(name, folder, [found[at] for at in mine]),
                               strict=True):  # fmt: skip
                scores[at] = one
            yield way, scores, {"training": sum(minutes) / len(minutes)}


def show(console: Console, ways: dict[str, Any]) -> None:
    """Print a table."""
    table = Table(title="Filters of sentences: mean [95% interval]")
    for column in ("", "data", "n", "first", "in two", "recall", "words kept"):
        table.add_column(column)
    for name, way in ways.items():
        for data, one in way["measures"].items():
            cells = [
                f"{one[key]['mean']:.3f} [{one[key]['low']:.3f}, {one[key]['high']:.3f}]"
                for key in ("first", "in_two", "recall", "words_kept")
            ]
            table.add_row(name, data, str(one["first"]["n"]), *cells)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--run", help="folds to run, such as 0,1 (all)")
    parser.add_argument("--silver", default="squad,nq", help="squad,nq,dpr")
    parser.add_argument("--only", default="silver,further,gold")
    parser.add_argument("--cross-encoder", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs kept")
    options = parser.parse_args()
    options.run = options.run or ",".join(map(str, range(options.folds)))
    import torch

    torch.set_num_threads(1)
    if options.fresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(exist_ok=True)
    (KEPT / ".gitignore").write_text("*\n")
    console = Console(width=140)
    found = passages()
    folds = folds_of(found, options.folds)
    told: dict[str, Any] = {
        "goal": {"first": GOAL},
        "folds": options.folds,
        "folds_run": options.run,
        "recall_wanted": RECALL,
        "passages": {data: sum(one.data == data for one in found) for data in GOLD},
        "silver": silver(options.silver.split(","), found)[1],
        "ways": {},
    }
    console.print(told)
    ways = told["ways"]
    for name, scores in untrained(found):
        ways[name] = {"measures": measured(found, scores, folds)}
    for way, scores, minutes in trained(options, found, folds):
        name = TRAINED[way]
        done = sorted({fold for fold, one in zip(folds, scores, strict=True) if one is not None})
        ways[name] = {
            "measures": measured(found, scores, folds),
            "cpu_minutes": minutes,
            "folds_run": done,
        }
        RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        best = ways[name]["measures"]
        reached = {data: one["first"]["mean"] for data, one in best.items()}
        console.print(f"{name}: first {reached} (goal {GOAL}), {minutes}")
    RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    show(console, ways)
    for data in (*GOLD, "both"):
        name, most = max(
            ((name, way["measures"][data]["first"]["mean"]) for name, way in ways.items()),
            key=lambda one: one[1],
        )
        word = "reached" if most >= GOAL else "missed"
        console.print(f"goal {GOAL} first on {data}: {word} ({most:.3f}, {name})")


if __name__ == "__main__":
    main()
