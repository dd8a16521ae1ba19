"""`ragweave reproduce`: a paper's table, with the paper's numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options, runs
from ragweave.cli.eval import run

if TYPE_CHECKING:
    from ragweave.evaluation.reproduce import Plan


def reproduce(
    paper: Annotated[str, typer.Argument(help="blendfilter, slimplm, filco or post-fusion.")] = "",
    table: Annotated[str, typer.Argument(help="The table, such as 1, table2, figure3 or '1 with gold'.")] = "",
    data: Annotated[str | None, typer.Argument(help="NAME:FILE of one of its data sets.")] = None,
    model: runs.Model = None,
    paper_model: Annotated[str, typer.Option(help="The paper's model whose numbers are shown.")] = "",
    show_plan: Annotated[bool, typer.Option("--plan", help="Print what each row would run, and what differs.")] = False,
    row: Annotated[str, typer.Option(help="Run only the rows whose label contains this.")] = "",
    filter_: Annotated[
        list[str] | None, typer.Option("--filter", help="[ROW=]FOLDER of a trained filter (FILCO). Repeatable.")
    ] = None,
    option: options.Option = None,
    kb: runs.Kb = "",
    drop_answered: Annotated[
        str, typer.Option(metavar="RUN", help="Leave out questions that RUN answered right.")
    ] = "",
    limit: runs.Limit = None,
    price: runs.Price = None,
    max_calls: runs.MaxCalls = None,
    max_cost: runs.MaxCost = None,
    concurrency: runs.Concurrency = 16,
    cache: runs.Cache = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.  [default: runs/PAPER-TABLE-DATA]")] = None,
) -> None:
    """Evaluate the rows of a paper's table. Without a data set, list the tables."""
    from ragweave.datasets import open_dataset
    from ragweave.evaluation import ROLES, Settings
    from ragweave.evaluation import reproduce as papers
    from ragweave.graphs.specs import read_pairs

    if data is None and not (show_plan and table):
        _list(paper, table)
        return
    dataset = open_dataset(data).name if data else papers.table_of(paper, table).datasets[0]
    filters = {name: folder for name, _, folder in (one.rpartition("=") for one in filter_ or ())}
    plan = papers.plan(paper, table, dataset, model=paper_model, only=row, filters=filters)
    if show_plan or data is None:
        _show(plan)
        return
    folder = out or Path("runs") / f"{paper}-{table}-{dataset}".replace(" ", "")
    settings = Settings(
        data=data,
        systems=tuple(plan.systems),
        names=tuple(plan.names),
        models={"answer": "extractive", **options.models_of(model, ROLES)},
        options=read_pairs(option or ()),
        kb=kb,
        retriever=plan.retriever if kb else "auto",
        gold=plan.gold,
        oracle=tuple(plan.oracle),
        metrics=tuple(plan.metrics),
        limit=limit,
        drop_answered=drop_answered,
        prices=runs.prices_of(price),
    )
    more: dict[str, Any] = {"calls": max_calls, "dollars": max_cost, "concurrency": concurrency, "cache": cache}
    summary, folder = run(settings, folder, **more)
    plan.write(folder)
    runs.finish(summary, folder)


def _show(plan: Plan) -> None:
    """Print each row's system, or why it is not run, and what differs from the paper."""
    from ragweave.cli.screen import console, table_of

    typer.echo(plan.paper.title)
    skipped = ((label, f"not run: {reason}") for label, reason in plan.paper.empty.items())
    console().print(table_of(["Row", "Runs"], [*zip(plan.names, plan.systems, strict=True), *skipped]))
    for note in plan.paper.notes:
        typer.echo(f"- {note}")


def _list(paper: str, table: str) -> None:
    from ragweave.cli.screen import console, table_of
    from ragweave.evaluation import reproduce as papers

    if paper:
        papers.tables(paper)  # raises if there is no such paper
    name = papers.table_of(paper, table).name if table else ""
    shown = [one for one in papers.listing() if paper in ("", one[0]) and name in ("", one[1])]
    console().print(table_of(["Paper", "Table", "Shows", "Data sets"], shown))
