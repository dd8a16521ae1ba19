"""The small judge on SlimPLM's own data: is Llama-2-7B's draft answer known?

    python benchmarks/trained_judge.py [--cross-encoder] [--limit N]

Trains on `judge-llama7b-train` and `judge2-llama7b-val`, measures on `judge-llama7b-dev` (all in
`../shared/data/slimplm`), with bootstrap intervals. Training rows are labelled as `ragweave label
judge --draft llama7b_without_search_answer --no-balance --skip-bad` labels them, which changes the
label of 27. Left out of the 800: 58 without short gold answers, 83 that carry a perplexity (the
authors labelled them by it, not by the match ratio), 18 whose question is in the dev file. 641 are
left, 288 of them known. `--cross-encoder` adds the plain MiniLM cross-encoder, some twenty minutes
more on one core.

Goal: an AUC of 0.70. It is missed. The linear judge reaches about 0.65, the most of all that was
tried, and is right about six times in ten: too little to save many searches by. The rest is out of
its reach:

* whether a fluent draft about NaturalQuestions or TriviaQA is right is a matter of facts, and an
  encoder of 22 million parameters has not stored them;
* the label depends on what nobody sees who judges: how many gold answers and aliases there are and
  how long they are (in an experiment not repeated here, these alone gave 0.72), and a gold answer
  counts where it is a substring of the draft, wherever it stands;
* 641 rows are few, and the AUC still rises with more: rows from `ragweave label judge` are the
  first thing to try, the proxy's own token probabilities (not in these files) the second.

The recordings of another model do not help: with the 3,000 of `routing.py` added (drafts of
Llama-3.1-8B, one sentence and an answer each), features of the words alone fall from 0.639 to 0.626,
with those of NQ and TriviaQA alone to 0.632, and trained on them alone they give 0.509 here (tried
once, not repeated by this script). What one model knows and how it words it says little of another.

The router's reading helps a little, and not to the goal. Over all 1,041 rows, five-fold by question
and three times dealt, AUC 0.662 becomes 0.680 with the router's features of the draft added (paired
difference +0.018 [0.008, 0.028]) and 0.687 with its hashed words too (+0.024 [0.012, 0.038]); on the
dev file, 0.654 becomes 0.656 and 0.666. Vectors and features of the router alone give 0.677 and 0.637.
A BM25 look at the corpus of `routing.py` tells nothing more (0.666; on dev 0.650). All of it was tried
once and is not repeated by this script; the judge is as it was, for +0.01 on dev.

A judge that is sure is right more often: see accuracy by coverage. Exits with 1 only where the
linear judge falls below `EXPECTED`, since missing the goal is known and explained.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ragweave.tools.statistics import bootstrap
from ragweave.trained.engines import engine_of
from ragweave.trained.judge_features import NAMES, features
from ragweave.trained.judge_reading import COLUMNS, Encoder, load_encoder
from ragweave.training.encoders.linear import fit_block
from ragweave.training.job import Watch
from ragweave.training.labels import JudgeLabeler, make_labels, open_source
from ragweave.training.measures import as_json, judge_measures, right
from ragweave.training.rows import question_key, read_rows
from ragweave.training.train import plan_training, train_part

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "slimplm"
RESULTS = ROOT / "benchmarks" / "results"
TRAIN = ("judge-llama7b-train", "judge2-llama7b-val")
DEV = "judge-llama7b-dev"
DRAFT = "llama7b_without_search_answer"
GOAL = 0.70
EXPECTED = 0.62
COVERAGE = (0.1, 0.25, 0.5, 1.0)
STRENGTH = {"words": 0.005, "vectors": 0.0003}

Rows = list[Any]
"""Judge rows."""


class Quiet(Watch):
    """Prints what is worth a line."""

    def say(self, line: str) -> None:
        print(f"  {line}")


def labelled(name: str, folder: Path, limit: int | None) -> tuple[Rows, dict[str, int]]:
    """Label a file as `ragweave label judge` does; return its rows and what was left out."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines][:limit]
    plain = [row for row in read if "ppl" not in row]
    source = folder / f"{name}.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in plain), encoding="utf-8")
    out = folder / f"{name}.labels.jsonl"
    maker = JudgeLabeler(draft=DRAFT, balance=False)
    made = make_labels(open_source(str(source)), maker, out, skip_bad=True)
    rows: Rows = list(read_rows(out, "judge"))
    said = {(row["question"].strip(), row[DRAFT].strip()): row["known"] for row in plain}
    other = sum(said[row["question"], row["draft"]] != row["known"] for row in rows)
    left = {"rows": len(read), "labelled by perplexity": len(read) - len(plain), **made.dropped}
    return rows, {**left, "relabelled": other}


def data(folder: Path, limit: int | None) -> tuple[Rows, Rows, dict[str, Any]]:
    dev, about_dev = labelled(DEV, folder, limit)
    asked = {question_key(row) for row in dev}
    train: Rows = []
    counts: dict[str, Any] = {DEV: {**about_dev, **by_label(dev)}}
    for name in TRAIN:
        rows, about = labelled(name, folder, limit)
        kept = [row for row in rows if question_key(row) not in asked]
        counts[name] = {**about, "in the dev file": len(rows) - len(kept), **by_label(kept)}
        train += [{**row, "id": f"{name}:{row['id']}"} for row in kept]
    counts["train"] = by_label(train)
    return train, dev, counts


def by_label(rows: Rows) -> dict[str, int]:
    known = int(labels(rows).sum())
    return {"known": known, "unknown": len(rows) - known}


def labels(rows: Rows) -> np.ndarray:
    return np.asarray([row["known"] for row in rows])


def written(rows: Rows, file: Path) -> Path:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def trained(kind: str, train: Rows, dev: Rows, folder: Path, settings: dict[str, Any]) -> tuple[list[float], float]:
    """Train a part on all training rows; return its probabilities on dev and its threshold.

    A linear judge chooses its threshold out of fold; a cross-encoder needs rows held out of train.
    """
    plan = plan_training("judge", written(train, folder / "train.jsonl"), folder / kind, kind=kind, settings=settings)
    card = train_part(plan, watch=Quiet())
    scorer: Any = engine_of(folder / kind)
    return scorer.score([(row["question"], row["draft"]) for row in dev]), card.threshold or 0.5


def logistic(train: np.ndarray, known: np.ndarray, dev: np.ndarray, strength: float) -> list[float]:
    weights, bias = fit_block(train, known, strength)
    return list(1 / (1 + np.exp(-(dev @ weights + bias))))


def embedded(rows: Rows, encoder: Encoder) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of questions and of drafts."""
    known = encoder.vectors([text for row in rows for text in (row["question"], row["draft"])])
    one, two = ([known[row[name]] for row in rows] for name in ("question", "draft"))
    return np.asarray(one), np.asarray(two)


def by_coverage(chances: Sequence[float], truth: np.ndarray, threshold: float) -> dict[str, Any]:
    """Accuracy among the rows that the judge is surest of."""
    values = np.asarray(chances)
    logit = np.log(values / (1 - values)) - np.log(threshold / (1 - threshold))
    order = np.argsort(-np.abs(logit), kind="stable")
    hits = np.asarray(right(list(values), truth.tolist(), threshold))
    found = {}
    for share in COVERAGE:
        chosen = order[: max(1, round(share * len(order)))]
        found[f"{share:.0%}"] = bootstrap(hits[chosen].tolist())
    return as_json(found)


def contestants(
    train: Rows, dev: Rows, folder: Path, *, cross_encoder: bool
) -> Iterator[tuple[str, Callable[[], tuple[list[float], float]]]]:
    """Yield each way to judge, and what runs it."""
    truth = labels(train)
    larger = float(truth.mean() >= 0.5)
    yield "majority class of train", lambda: ([larger] * len(dev), 0.5)
    encoder = load_encoder("minilm")

    def rows_of(rows: Rows) -> np.ndarray:
        return np.asarray([features(r["question"], r["draft"], encoder.pieces) for r in rows])

    words, words_dev = rows_of(train), rows_of(dev)
    asks = ("question.", "asks.", "rarity.question")
    asked = [at for at, name in enumerate(NAMES) if name.startswith(asks)]
    (q, d), (q_dev, d_dev) = embedded(train, encoder), embedded(dev, encoder)

    def crossed(one: np.ndarray, two: np.ndarray) -> np.ndarray:
        return np.hstack([one, two, abs(one - two), one * two])

    def line(name: str, a: np.ndarray, b: np.ndarray, kind: str) -> Any:
        return name, lambda: (logistic(a, truth, b, STRENGTH[kind]), 0.5)

    yield line("question only: features", words[:, asked], words_dev[:, asked], "words")
    yield line("question only: MiniLM vector", q, q_dev, "vectors")
    yield line(
        "logistic regression, MiniLM vectors of both",
        crossed(q, d),
        crossed(q_dev, d_dev),
        "vectors",
    )
    yield line(f"features of the words alone ({len(NAMES)})", words, words_dev, "words")
    if cross_encoder:
        yield "cross-encoder, MiniLM", lambda: trained("cross-encoder", train, dev, folder, {})
    yield (
        f"linear ({len(COLUMNS)} features and cosines, vectors)",
        lambda: trained("linear", train, dev, folder, {"held_out": 0.0}),
    )


def measured(chances: Sequence[float], truth: np.ndarray, threshold: float) -> dict[str, Any]:
    constant = len(set(chances)) == 1
    found = as_json(judge_measures(list(chances), truth.tolist(), threshold))
    found.pop("majority")
    if constant:
        found.pop("auc", None)
    return found


def told(value: dict[str, float] | None) -> str:
    return "–" if value is None else f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cross-encoder", action="store_true", help="measure it too: slow")
    parser.add_argument("--limit", type=int, help="rows a file; writes no result")
    options = parser.parse_args()
    console = Console(width=110)
    if not DATA.exists():
        console.print("needs ../shared/data/slimplm")
        return 2
    report: dict[str, Any] = {"goal_auc": GOAL}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, dev, report["data"] = data(folder, options.limit)
        console.print_json(data=report["data"])
        truth = labels(dev)
        table = Table("judge", "accuracy", "AUC", "seconds", title=f"{DEV}: {len(dev)} rows")
        report["judges"] = {}
        for judge, run in contestants(train, dev, folder, cross_encoder=options.cross_encoder):
            started = time.perf_counter()
            chances, threshold = run()
            seconds = round(time.perf_counter() - started, 1)
            found = measured(chances, truth, threshold)
            report["judges"][judge] = {**found, "threshold": threshold, "seconds": seconds}
            table.add_row(judge, told(found["accuracy"]), told(found.get("auc")), f"{seconds:.0f}")
    report["linear_by_coverage"] = by_coverage(chances, truth, threshold)
    console.print(table)
    for share, value in report["linear_by_coverage"].items():
        console.print(f"the {share} it is surest of: {told(value)} right", highlight=False)
    reached = found["auc"]["mean"]
    report["goal_met"] = reached >= GOAL
    verdict = "met" if report["goal_met"] else "missed, for the reasons in this file's docstring"
    console.print(f"goal: AUC {GOAL:.2f}; reached {reached:.3f}: {verdict}", highlight=False)
    if options.limit is None:
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps(report, indent=1) + "\n"
        (RESULTS / "trained_judge.json").write_text(text, encoding="utf-8")
    return 0 if options.limit or reached >= EXPECTED else 1


if __name__ == "__main__":
    raise SystemExit(main())
