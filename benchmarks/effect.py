"""The registered experiment of `effect/PLAN.md`: does graph retrieval make a real model answer better?

    python benchmarks/effect.py run --model llamacpp:FILE --work W [--only noise primary]
    python benchmarks/effect.py table

`run` draws the questions, asks those without an answer, pays for no reply twice, and writes the answers to
`results/effect/`; it may be stopped and started as often as needed. `table` prints what they show so far.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from passage_sets import DATA, rows
from ragweave.datasets import open_dataset
from ragweave.evaluation import evaluate
from ragweave.evaluation.evaluate import EvalSettings
from ragweave.evaluation.folder import read_results
from ragweave.evaluation.statistics import compare, holm
from ragweave.tools.knowledge import KnowledgeBase

RESULTS = Path(__file__).parent / "results" / "effect"
TWO_HOPS = {"hotpotqa/hotpot-dev-200.jsonl.gz": 120, "2wiki/2wiki-train-500.json.gz": 120}
NOISE = 40


class Experiment(NamedTuple):
    """A comparison of two systems."""

    form: str
    files: Mapping[str, int]
    """How many questions are drawn from each file."""
    first: str
    second: str
    """The system that the first is compared with."""
    passages: str = "searched"


EXPERIMENTS = {
    "primary": Experiment("hotpotqa", TWO_HOPS, "concat[retriever=graph]", "concat[retriever=hybrid]"),
    "cot": Experiment(
        "hotpotqa", TWO_HOPS, "cot[retrieve=true,retriever=graph]", "cot[retrieve=true,retriever=hybrid]"
    ),
    "concat_pf": Experiment("nq", {"nq/nq-open-oracle.jsonl.gz": 240}, "concat_pf", "concat"),
    "skr": Experiment("skr", {"fusion/skr-dev-10-passages.json.gz": 175}, "pf_concat", "concat", "given"),
    "musique": Experiment(
        "musique", {"musique/musique-train-100.json.gz": 100}, "concat[retriever=graph]", "concat[retriever=hybrid]"
    ),
}
SECONDARY = ("cot", "concat_pf")


def with_ids(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, each with an id: its own, or that of its question."""
    for row in rows(path):
        yield row if {"_id", "id", "Id"} & row.keys() else {"id": digest(row["question"])[:16], **row}


def digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return sha256(text.encode()).hexdigest()


def draw(experiment: Experiment, count: int | None = None) -> list[dict[str, Any]]:
    """Return the rows whose ids have the lowest SHA-256, of each file its number, or of all together `count`."""
    drawn = []
    for path, number in experiment.files.items():
        order = sorted(with_ids(path), key=lambda row: digest(str(row.get("_id") or row.get("id") or row.get("Id"))))
        drawn += order[: number * (count or 1) // sum(experiment.files.values()) if count else number]
    return drawn


def knowledge_base(experiment: Experiment, work: Path) -> str:
    """Return a knowledge base of all passages of the files, made if there is none."""
    folder = work / f"kb-{'-'.join(Path(path).parts[0] for path in experiment.files)}"
    if not folder.is_dir():
        with KnowledgeBase.open_or_create(folder.with_suffix(".part")) as kb:
            for path in experiment.files:
                kb.add(open_dataset(f"{experiment.form}:{DATA / path}").corpus(), path, split=False)
        folder.with_suffix(".part").rename(folder)
    return str(folder)


def ask(name: str, experiment: Experiment, systems: tuple[str, ...], model: str, work: Path, count: int | None) -> None:
    """Ask the questions of an experiment, and keep the answers."""
    file = work / f"{name}.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in draw(experiment, count)), "utf-8")
    given = experiment.passages == "given"
    settings = EvalSettings(
        data=f"{experiment.form}:{file}",
        systems=systems,
        models={"generator": model},
        options={} if given else {"k": "5"},
        passages=experiment.passages,
        kb="" if given else knowledge_base(experiment, work),
    )
    own = name.startswith("noise")  # the same questions again: no reply may come from the cache
    cache = work / f"{name}.sqlite" if own else work / "replies.sqlite"
    evaluate(settings, work / name, cache=cache, concurrency=1)
    RESULTS.mkdir(exist_ok=True)
    records = "".join(f"{json.dumps(record)}\n" for record in read_results(work / name))
    (RESULTS / f"{name}.jsonl.gz").write_bytes(gzip.compress(records.encode(), mtime=0))


def run(model: str, work: Path, only: list[str]) -> None:
    """Ask what has not been asked: the noise first, then the experiments in order."""
    work.mkdir(parents=True, exist_ok=True)
    primary = EXPERIMENTS["primary"]
    for name in ("noise-1", "noise-2") if "noise" in only else ():
        ask(name, primary, (primary.second,), model, work, NOISE)
    for name, experiment in EXPERIMENTS.items():
        if name in only:
            ask(name, experiment, (experiment.first, experiment.second), model, work, None)


def answers(name: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the records of a run, by system and question."""
    path, systems = RESULTS / f"{name}.jsonl.gz", dict[str, dict[str, dict[str, Any]]]()
    for line in gzip.decompress(path.read_bytes()).splitlines() if path.is_file() else ():
        record = json.loads(line)
        systems.setdefault(record["system"], {})[record["id"]] = record
    return systems


def f1(record: Mapping[str, Any]) -> float:
    """Return the F1 of an answer; an error counts as 0."""
    return 0.0 if record.get("error") else float(record["scores"]["f1"])


def compared(name: str) -> tuple[str, float | None]:
    """Return a comparison's row, and its p once all questions are answered."""
    experiment, systems = EXPERIMENTS[name], answers(name)
    first, second = (systems.get(system, {}) for system in (experiment.first, experiment.second))
    both = [at for at in first if at in second]
    if not both:
        return f"{name:10} no answers", None
    scores = [[f1(record[at]) for at in both] for record in (first, second)]
    outcome, total = compare(*scores), sum(experiment.files.values())
    low, high = 100 * outcome.difference.low, 100 * outcome.difference.high
    means = " ".join(f"{100 * fmean(values):5.1f}" for values in scores)
    row = f"{name:10} {len(both):3} of {total} {means} {100 * outcome.difference.mean:+.1f} [{low:.1f}, {high:.1f}] p={outcome.p:.4f}"
    return row, outcome.p if len(both) == total else None


def details(records: list[dict[str, Any]]) -> str:
    """Return mean recall, calls and tokens, and how many answers each stage lost."""
    recall = 100 * fmean(record["scores"].get("recall", 0) for record in records)
    calls, tokens = (
        fmean(sum(record["usage"][name] for name in names) for record in records)
        for names in (("calls",), ("input_tokens", "output_tokens"))
    )
    lost = Counter(
        metric.removeprefix("lost_")
        for record in records
        for metric, value in record["scores"].items()
        if metric.startswith("lost_") and value
    )
    stages = ", ".join(f"{stage} {count}" for stage, count in lost.most_common())
    return f"{recall:.1f}, {calls:.1f}, {tokens:.0f}; {stages}"


def table() -> None:
    """Print the noise and the comparisons."""
    first, second = (next(iter(answers(f"noise-{n}").values()), {}) for n in (1, 2))
    if both := first.keys() & second.keys():
        changed = sum(first[at]["answer"] != second[at]["answer"] for at in both)
        means = [100 * fmean(f1(record[at]) for at in both) for record in (first, second)]
        print(f"noise: {changed} of {len(both)} answers differ; mean F1 {means[0]:.1f} and {means[1]:.1f}")
    outcomes = {name: compared(name) for name in EXPERIMENTS}
    print(f"{'':10} questions, F1 of the first and second system, difference [95 %], p")
    for row, _ in outcomes.values():
        print(row)
    print("system: recall, calls, tokens; wrong answers by the stage that lost them (`ragweave why`)")
    for name in EXPERIMENTS:
        for system, records in answers(name).items():
            print(f"{name} {system}: {details([*records.values()])}")
    values = [outcomes[name][1] for name in SECONDARY]
    if all(value is not None for value in values):
        for name, value in zip(SECONDARY, holm([value for value in values if value is not None]), strict=True):
            print(f"{name}: p={value:.4f} after Holm")


def main() -> None:
    """Run or show the experiment."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    asking = commands.add_parser("run")
    asking.add_argument("--model", required=True)
    asking.add_argument("--work", type=Path, required=True)
    asking.add_argument("--only", nargs="+", choices=["noise", *EXPERIMENTS], default=["noise", *EXPERIMENTS])
    commands.add_parser("table")
    args = parser.parse_args()
    if args.command == "run":
        run(args.model, args.work, args.only)
    else:
        table()


if __name__ == "__main__":
    main()
