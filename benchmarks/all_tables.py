"""Does each row of the papers' tables run? Every table on each of its data sets, over two made questions (about a minute).

    python benchmarks/all_tables.py [PAPER [TABLE]] [--model ROLE=SPEC] [--filter [ROW=]FOLDER] [--out runs]

A scripted model answers unless `--model` names one, so the scores mean nothing. Rows that need a trained filter run with
`--filter`.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragweave.cli.options import models_of
from ragweave.errors import UsageError
from ragweave.evaluation import EVAL_ROLES, EvalSettings, evaluate, read_report
from ragweave.evaluation import reproduce as papers
from ragweave.evaluation.evaluate import SCORER
from ragweave.testing import ScriptedModel

_NAMES = {"Aster Bridge": "Ida Holm", "Veld Tower": "Karl Oster"}
_SCRIPT = "Ida Holm built it. So the answer is Ida Holm."


def row_of(dataset: str, number: int, work: str, builder: str) -> dict[str, Any]:
    """Return a question about who built a work, in a form in which a data set is published."""
    fact = f"{builder} built the {work}."
    passages = [
        {"title": title, "text": f"{name} built the {title}. It is long.", "isgold": title == work}
        for title, name in _NAMES.items()
    ]
    if dataset == "fever":
        return {"id": number, "claim": fact, "label": "SUPPORTS", "gold_evidence": [{"text": fact}]}
    if dataset == "strategyqa":
        question = f"Did {builder} build the {work}?"
        return {"qid": str(number), "question": question, "answer": True, "term": work, "facts": [fact]}
    question = f"Who built the {work}?"
    if dataset == "asqa":
        pair = {"short_answers": [builder], "context": fact, "wikipage": work}
        long = [{"long_answer": fact}]
        return {"sample_id": str(number), "ambiguous_question": question, "qa_pairs": [pair], "annotations": long}
    return {"id": str(number), "question": question, "answers": [builder], "ctxs": passages}


def run_tables(
    paper: str, table: str, folder: Path, *, models: Mapping[str, str], filters: Mapping[str, str]
) -> Iterator[tuple[str, bool]]:
    """Run tables on all of their data sets, and yield what happened, a line each, and whether it went well.

    `filters` are folders of trained filters by row, with "" for all other rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    needed = folder / "needed.jsonl"
    needed.write_text(json.dumps({"question": "Who built the Aster Bridge?", "needed": True}) + "\n", "utf-8")
    for name in (paper,) if paper else papers.PAPERS:
        for entry in [papers.table_of(name, table)] if table else papers.tables(name):
            for dataset in entry.datasets:
                data = folder / f"{dataset}.jsonl"
                rows = [row_of(dataset, number, *pair) for number, pair in enumerate(_NAMES.items())]
                data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
                for model in entry.models or [""]:
                    begin = " ".join(filter(None, [name, entry.name, dataset, model]))
                    try:
                        plan = papers.plan(
                            name, entry.name, dataset, model=model, filters=filters, scorer=SCORER in models
                        )
                        settings = replace(plan.settings, data=f"{dataset}:{data}", models=models, retriever="auto")
                        line, is_good = _run(plan, settings, folder / begin.replace(" ", "-"), needed)
                    except UsageError as error:  # its rows need a trained component
                        line, is_good = f"not run: {error}", True
                    yield f"{begin}: {line}", is_good


def _run(plan: papers.Plan, settings: EvalSettings, folder: Path, needed: Path) -> tuple[str, bool]:
    """Run a plan, and return what happened and whether every question was answered."""
    if any(spec.startswith("skr_knn") for spec in settings.systems):
        settings = replace(settings, options={"training": str(needed), "embedding": "minilm"})
    scripted = {
        role: ScriptedModel(script=lambda _call: _SCRIPT, role=role)
        for role in ("generator", "proxy")
        if role not in settings.models
    }
    summary = evaluate(settings, folder, given=scripted, quiet=True)
    plan.paper.write(folder)
    read_report([folder])
    empty = "".join(f"; {label}: {reason}" for label, reason in plan.paper.empty.items())
    answered = f"{summary.answered + summary.skipped} answers, {summary.failed} failed, {len(settings.systems)} rows"
    return answered + empty, summary.exit_code == 0


def main() -> None:
    """Run the tables, print a line for each, and exit with 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("paper", nargs="?", default="")
    parser.add_argument("table", nargs="?", default="")
    parser.add_argument("--model", action="append", help="ROLE=SPEC")
    parser.add_argument("--filter", action="append", default=[], help="[ROW=]FOLDER of a trained filter")
    parser.add_argument("--out", type=Path, default=Path("runs") / "tables")
    given = parser.parse_args()
    filters = {name: folder for name, _, folder in (text.rpartition("=") for text in given.filter)}
    all_good, models = True, models_of(given.model, EVAL_ROLES)
    for line, is_good in run_tables(given.paper, given.table, given.out, models=models, filters=filters):
        print(line, flush=True)
        all_good &= is_good
    sys.exit(not all_good)


if __name__ == "__main__":
    main()
