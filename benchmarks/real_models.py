"""What each method buys with models that really speak: small tables, with intervals.

    python benchmarks/real_models.py --minutes 60                      # goes on where it stopped
    python benchmarks/real_models.py --tables fusion-skr,filco-nq --questions 100
    python benchmarks/real_models.py --tables methods-nq,methods-hotpotqa   # every method, 60 each
    python benchmarks/real_models.py --model llamacpp:PATH?n_gpu_layers=-1 --proxy … --results FOLDER

The large model is a 1.5B, the proxy a 0.5B, both 4-bit instruct models: so small that what a
method gains with them says little of what it gains with a large model. What the tables can show is
whether the graphs do with a real model what they say, and in which direction each step moves it.
Passages are real: each question's own retrieved or distractor passages, searched with BM25. The
tables `methods-…` put all methods side by side at three passages (`dos_rag`: 1,500 tokens), with a
plot of F1 against tokens; what the model can't serve is left out, with the reason. What `skr_knn`
and FILCO's trained filter learn from is in `table_parts.py`.

Every table is a durable run of `ragweave eval` under --runs; a killed one goes on, and shares the
replies at temperature 0 with the other tables. Questions are a seeded sample; a table holds as many
as there was time for, and says how many: for each system the same ones, those that all finished.
Writes `benchmarks/results/real_models.json`, a plot a table, and every question's answer to
`benchmarks/results/real_models/TABLE.jsonl` (ids and answers; the questions are the data sets').
`--published` begins a table's run with the answers that stand there, so that another machine goes
on where one stopped; without it, a run that lacks some of them is refused, since what it writes
takes their place. A table is of one pair of models and of the settings that stand in it as `made`:
others need another --results. Answers of a system whose options are no longer those are asked anew.

Many questions in flight share the processor, and how long each waited says nothing of its method.
So seconds are measured apart: `--timed 3` puts three questions to each system of the tables, one
answer at a time and none from the cache, and adds the mean of each to its table. A model in this
process then keeps nothing of earlier answers but the last prompt, and the
bare model is asked before each method: else one finds its prompt read by another.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from call_log import logged
from published_answers import USAGE, begin, made_of, model_name, publish
from ragweave.errors import RagweaveError, UsageError
from ragweave.evaluation.metrics import bootstrap
from ragweave.evaluation.report import TOKENS, Point, plot_bars, plot_points
from ragweave.evaluation.runs import (
    RunConfig,
    RunDirectory,
    System,
    claim_directory,
    parse_systems,
    plan,
    records_of,
    system,
)
from ragweave.evaluation.runs.directory import hold
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.run import answer, checked
from ragweave.evaluation.studies import STUDIES, runs_of
from ragweave.graphs import METHODS, build_graph
from ragweave.tools.models import chat_model
from table_parts import TRAINED, with_parts

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "benchmarks" / "results"
MODELS = Path(os.environ.get("RAGWEAVE_MODELS", "~/.cache/ragweave-models")).expanduser()


@dataclass(frozen=True)
class Comparison:
    """One table: a data set, the systems, and the run's settings."""

    dataset: str
    systems: Callable[[], list[System]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    questions: int | None = None
    """A sample of so many; None: as many as the command line says."""
    every_method: bool = False
    """Whether it compares all methods: what the model can't serve is left out."""


def named(text: str) -> Callable[[], list[System]]:
    """Return what parses systems as `ragweave eval --methods` does."""
    return lambda: parse_systems(text)


def studied(name: str, *, first: str = "") -> Callable[[], list[System]]:
    """Return what makes a study's systems, after those named."""
    return lambda: [
        *(parse_systems(first) if first else ()),
        *runs_of(STUDIES[name], (), ())[0].systems,
    ]


def filters() -> list[System]:
    """Return a system for each of FILCO's oracles, and one whose filter is trained."""
    return [
        *studied("filco")(),
        System(label="filco trained", method="filco", options={"filter": TRAINED}),
    ]


def every_method() -> list[System]:
    """Return a system for each method, with few passages: what they cost is read many times."""
    found = parse_systems(",".join(one.name for one in METHODS.ours()))
    return [replace(one, options={**FEW.get(one.method, {"k": 3}), **one.options}) for one in found]


FEW: Mapping[str, Mapping[str, Any]] = {
    "dos_rag": {"token_budget": 1500},
    "adaptive_rag": {"k": 3, "k_one": 3},
}
"""Where `k` is not the measure: a budget of tokens, some twice those of three passages; or not alone,
since a question of one round has a number of its own."""


SKR = "skr:fusion/skr-dev-10-passages.json.gz"
NQ = "nq:nq/nq-open-oracle.jsonl.gz"
HOTPOT = "hotpotqa:hotpotqa/hotpot-dev-200.jsonl.gz"
FUSION = named("concat,post_fusion,concat_pf,pf_concat,pruning,summary")
COMPARISONS: Mapping[str, Comparison] = {
    "filco-nq": Comparison(NQ, filters, {"oracle": True, "corpus": "given"}),
    "fusion-skr": Comparison(SKR, FUSION, {"corpus": "given"}),
    "filco-hotpotqa": Comparison(HOTPOT, filters, {"oracle": True, "corpus": "given"}),
    "slimplm-nq": Comparison(NQ, studied("slimplm", first="direct,concat"), {"corpus": "file"}),
    "adaptive-hotpotqa": Comparison(HOTPOT, named("direct,concat,concat_pf,adaptive")),
    "blendfilter-hotpotqa": Comparison(HOTPOT, studied("blendfilter", first="direct,concat")),
    "fusion-nq": Comparison(NQ, FUSION, {"corpus": "file"}),
    "methods-nq": Comparison(NQ, every_method, {"corpus": "file"}, 60, every_method=True),
    "methods-hotpotqa": Comparison(HOTPOT, every_method, {}, 60, every_method=True),
}
"""Cheapest first."""


def served(systems: Sequence[System], options: argparse.Namespace) -> list[System]:
    """Return the systems that the model can serve; tell of the others."""
    model, found = chat_model(options.model), []
    for one in systems:
        try:
            build_graph(METHODS[one.method], model=model, **one.options)
        except RagweaveError as error:
            print(f"{one.method} is left out: {error}", file=sys.stderr)
        else:
            found.append(one)
    return found


def directory_of(name: str, options: argparse.Namespace) -> RunDirectory:
    """Return a table's run: a new one, or the one begun with the same settings."""
    one = COMPARISONS[name]
    systems = with_parts(one.systems(), options.data, options.runs)
    systems = served(systems, options) if one.every_method else systems
    form, _, file = one.dataset.partition(":")
    models = {"answer": options.model, "proxy": options.proxy}
    if options.timed:
        systems = apart(systems)
    return claim_directory(
        options.runs / (f"{name}-timed" if options.timed else name),
        plan(
            f"{form}:{options.data / file}",
            systems,
            models,
            sample=options.timed or options.questions or one.questions or 100,
            seed=0,
            **one.settings,
        ),
    )


BETWEEN = "between "
"""How the labels of what is asked between two systems begin."""


def apart(systems: Sequence[System]) -> list[System]:
    """Return systems, each behind one that asks the bare model otherwise: its prompt alone stays."""
    listed: list[System] = []
    for number, one in enumerate(systems):
        bare = "direct" if one.method in ("cot", "adaptive_rag") else "cot"
        listed += [system(bare, f"{BETWEEN}{number}"), one]
    return listed


async def work(directory: RunDirectory, options: argparse.Namespace, until: float) -> bool:
    """Answer what is left of a run until the time is up; return whether it is complete."""
    cache = options.runs / "replies.sqlite"
    config = RunConfig(concurrency=1) if options.timed else RunConfig(concurrency=options.concurrency, cache=cache)
    dataset = checked(directory.settings, config)
    models = models_of(options)
    small = dict.fromkeys(("proxy", "judge", "rewrite"), models["proxy"])
    names = {"answer": models["model"]} | small
    about = {"dataset": directory.settings.dataset_name}
    with hold(directory), logged(options.calls, about, names):
        result = await answer(directory, config, dataset, stop=lambda: time.monotonic() > until)
    return result.complete


def models_of(options: argparse.Namespace) -> dict[str, str]:
    """Return what the models that answer are called in the results."""
    return {"model": model_name(options.model), "proxy": model_name(options.proxy)}


def mixed(name: str, before: Mapping[str, Any], models: Mapping[str, str]) -> str:
    """Return why a table can't be worked on by these models; "" where it can.

    Args:
        name: The table's name.
        before: The published results; earlier versions named the models once for all tables.
        models: The models that are to answer.
    """
    table = before.get("tables", {}).get(name, {})
    theirs = table.get("models") or (before.get("models") if table else None)
    if theirs in (None, models):
        return ""
    told = " and ".join(f"{theirs[role]} ({role})" for role in models)
    return f"the published table {name} is of {told}: give those, or another --results"


def shared_records(directory: RunDirectory) -> dict[str, list[Record]]:
    """Return each system's records of the questions that every system answered, by index."""
    labels = [one.label for one in directory.settings.systems]
    found: dict[str, dict[int, Record]] = {label: {} for label in labels}
    for record in records_of([directory.results]):
        if not record["error"]:
            found[record["system"]][record["at"]] = record
    shared = sorted(set.intersection(*(set(one) for one in found.values())))
    return {label: [found[label][at] for at in shared] for label in labels}


def row(label: str, records: Sequence[Record]) -> dict[str, Any]:
    """Return a system's line of the table: means with 95 % bootstrap intervals, and costs."""
    names = sorted({name for one in records for name in one["scores"]})
    scores = {}
    for name in names:
        values = [one["scores"][name] for one in records if name in one["scores"]]
        found = bootstrap(values)
        scores[name] = [round(100 * x, 1) for x in (found.mean, found.low, found.high)]
    costs = {name: round(fmean(one["usage"][name] for one in records), 1) for name in USAGE}
    return {"system": label, "questions": len(records), **scores, **costs}


def write(name: str, directory: RunDirectory, results: Path) -> dict[str, Any] | None:
    """Write a table's answers, draw and return it.

    Returns:
        The table; None where no question is shared by all systems yet: nothing is written then.
    """
    found = shared_records(directory)
    if not next(iter(found.values())):
        return None
    folder = results / "real_models"
    publish(folder / f"{name}.jsonl", directory)
    scores = [bootstrap([one["scores"]["f1"] for one in records]) for records in found.values()]
    plot_bars(folder, name, list(found), scores, "F1 (%), 95% interval")
    if COMPARISONS[name].every_method:
        points = [
            Point(label, fmean(map(tokens, records)), score)
            for (label, records), score in zip(found.items(), scores, strict=True)
        ]
        plot_points(folder, f"{name}-tokens", points, TOKENS, "F1 (%), 95% interval")
    return {
        "dataset": directory.settings.dataset_name,
        "settings": dict(COMPARISONS[name].settings),
        "made": made_of(directory, COMPARISONS[name].systems()),
        "systems": [row(label, records) for label, records in found.items()],
    }


def tokens(record: Record) -> int:
    """Return the tokens that a question took, in and out."""
    return sum(record["usage"][name] for name in ("input_tokens", "output_tokens"))


def timed(directory: RunDirectory) -> dict[str, Any] | None:
    """Return the mean seconds of each system of a timed run, None where no question counts.

    A question counts that all systems answered, each without a break: one that was broken off has
    the seconds after it alone.
    """
    found = shared_records(directory)
    broken = {one["at"] for records in found.values() for one in records if one.get("resumed")}
    seconds = {
        label: [one["seconds"] for one in records if one["at"] not in broken]
        for label, records in found.items()
        if not label.startswith(BETWEEN)
    }
    questions = len(next(iter(seconds.values())))
    if not questions:
        return None
    means = {label: round(fmean(one), 2) for label, one in seconds.items()}
    return {"questions": questions, "seconds": means}


def still_timed(before: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seconds of an earlier table, without those of systems with other options today."""
    if "timed" not in before:
        return {}
    ours = table["made"]["systems"]
    theirs = before.get("made", {}).get("systems", ours)
    timed = before["timed"]
    kept = {one: s for one, s in timed["seconds"].items() if theirs.get(one) == ours.get(one)}
    return {"timed": timed | {"seconds": kept}}


def reported(
    name: str, directory: RunDirectory, options: argparse.Namespace, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a table by its name with what the run adds, nothing where that is nothing yet."""
    models = {"models": models_of(options)}
    if not options.timed:
        table = write(name, directory, options.results)
        return {name: models | table | still_timed(before, table)} if table else {}
    times = timed(directory)
    return {name: models | dict(before) | {"timed": times}} if before and times else {}


def show(name: str, table: Mapping[str, Any], console: Console) -> None:
    """Print a table."""
    lines = table.get("systems", ())  # none where no question is shared yet
    questions = lines[0]["questions"] if lines else 0
    shown = Table(title=f"{name}: {table['dataset']}, {questions} questions")
    columns = ("em", "f1", "unknown", "nm", *USAGE, "seconds")
    for column in ("system", *columns):
        shown.add_column(column)
    seconds = table.get("timed", {}).get("seconds", {})
    for line in lines:
        cells = [line.get(column, "") for column in columns[:-1]]
        shown.add_row(line["system"], *map(_cell, cells), _cell(seconds.get(line["system"], "")))
    console.print(shown)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return f"{value[0]} [{value[1]}, {value[2]}]"
    return str(value)


def prepared(
    name: str, options: argparse.Namespace, before: Mapping[str, Any], begins: bool
) -> tuple[RunDirectory, int]:
    """Return a table's run, and how many published answers it now begins with.

    Raises:
        UsageError: They are of other settings, or what the run writes would take their place.
    """
    directory = directory_of(name, options)
    writes = begins or options.published or directory.results.exists()
    if options.timed or not writes:
        return directory, 0
    place = options.results / "real_models" / f"{name}.jsonl"
    made = made_of(directory, COMPARISONS[name].systems())
    theirs = before.get("made", {})
    return directory, begin(place, directory, made, theirs, go_on=options.published)


def arguments() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--model", default=f"llamacpp:{MODELS / 'qwen2.5-coder-1.5b.gguf'}")
    add("--proxy", default=f"llamacpp:{MODELS / 'qwen2.5-coder-0.5b.gguf'}")
    add("--data", type=Path, default=DATA, help="folder of the data sets")
    add("--runs", type=Path, default=ROOT / ".benchmarks" / "real_models", help="the runs")
    add("--tables", default=",".join(COMPARISONS), help="comma-separated")
    add("--questions", type=int, help="a seeded sample of so many a table (100; methods: 60)")
    add("--results", type=Path, default=RESULTS, help="folder of tables, answers and plots")
    add("--minutes", type=float, default=60, help="begin no question after this time")
    add("--concurrency", type=int, default=4, help="questions times methods in flight")
    add("--report", action="store_true", help="only write what the runs hold")
    add("--published", action="store_true", help="begin with the answers in --results")
    add("--calls", type=Path, help="write what is asked and replied (see record_replies.py)")
    add("--timed", type=int, help="measure seconds, on so many questions, one answer at a time")
    return parser


def main() -> None:
    """Work on the tables until they are done or the time is up."""
    parser = arguments()
    options = parser.parse_args()
    console, until = Console(), time.monotonic() + 60 * options.minutes
    path = options.results / "real_models.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    tables = result.setdefault("tables", {})
    names = options.tables.split(",")
    for why in (mixed(name, result, models_of(options)) for name in names):
        if why:
            parser.error(f"{path}: {why}")
    for name in names:
        begins = not options.report and time.monotonic() < until
        directory, count = prepared(name, options, tables.get(name, {}), begins)
        if count:
            console.print(f"{name}: {count} published answers")
        if begins:
            complete = asyncio.run(work(directory, options, until))
            console.print(f"{name}: {'complete' if complete else 'time is up'}")
        if found := reported(name, directory, options, tables.get(name, {})):
            tables |= found
            text = json.dumps({"sample_seed": 0} | result, indent=1, ensure_ascii=False)
            path.write_text(f"{text}\n", encoding="utf-8")
        if name in tables:
            show(name, tables[name], console)


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        raise SystemExit(f"error: {error}") from None
