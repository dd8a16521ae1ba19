"""`ragweave reproduce`: a table or figure of the four papers, planned, run and shown beside it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options
from ragweave.cli.screen import console, progress_console, show_tables
from ragweave.errors import UsageError

if TYPE_CHECKING:
    from ragweave.evaluation.published import PaperTable
    from ragweave.evaluation.reproduction import Estimate, PlannedRun, Request
    from ragweave.evaluation.runs import RunConfig


def reproduce(
    paper: Annotated[
        str | None, typer.Argument(help="blendfilter, slimplm, filco or post-fusion.")
    ] = None,
    table: Annotated[
        str, typer.Argument(help="table1, figure2, …; a number is a table (default: all).")
    ] = "",
    listing: Annotated[
        bool, typer.Option("--list", help="List the tables and figures, and stop.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the plan and what it will cost, and stop.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run without asking first.")] = False,
    model: options.Model = "extractive",
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="Proxy model; repeatable, for SlimPLM's table 3, in its order."),
    ] = None,
    judge: options.Judge = None,
    rewriter: options.Rewriter = None,
    filter_model: options.FilterModel = None,
    trained_filter: Annotated[
        str, typer.Option("--filter", help="Trained filter's folder, for FILCO's own rows.")
    ] = "",
    data: Annotated[
        Path, typer.Option(help="Folder in which the data sets' files are looked for.")
    ] = Path("data"),
    file: Annotated[
        list[str] | None,
        typer.Option(help="DATASET=FILE, in the place of what is found. Repeatable."),
    ] = None,
    kb: options.Kb = None,
    rerank: options.Rerank = "",
    scorer: options.Scorer = "",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="name=value, where a row does not set it. Repeatable."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Only the first N questions (default: the paper's).")
    ] = None,
    seed: options.Seed = 0,
    price: options.Prices = "",
    out: Annotated[
        Path | None, typer.Option(help="Directory (default: reproduction/PAPER).")
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option(help="Write every question's output to this file, without paths and keys."),
    ] = None,
    concurrency: options.Concurrency = 16,
    workers: options.Workers = 1,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    retry_failed: options.RetryFailed = False,
) -> None:
    """Reproduce a table or figure: plan, cost, durable runs, our values beside the paper's.

    The same command again goes on where it stopped, and pays for no call twice.
    """
    from ragweave.evaluation.published import tables_of_paper
    from ragweave.evaluation.reproduction import Request, check_request
    from ragweave.evaluation.runs import RunConfig

    if listing or paper is None:
        _list(paper, listing=listing)
        return
    tables = _reproducible(tables_of_paper(paper, table))
    if plan and publish is not None:
        raise UsageError("--plan stops before there is anything to publish: give one of the two")
    roles = {"judge": judge, "rewriter": rewriter, "filter_model": filter_model}
    named, texts = options.with_named({"model": model, **roles}, option or [])
    request = Request(
        model=named.pop("model"),
        proxies=tuple(options.filled("proxy", one) for one in proxy or ()),
        models=named,
        data=data,
        files=_files(file or []),
        kb=kb,
        rerank=rerank,
        scorer=scorer,
        filter=trained_filter,
        options=tuple(texts),
        limit=limit,
        seed=seed,
        prices=price,
    )
    check_request(request)
    folder = out or Path("reproduction") / paper
    config = RunConfig(
        concurrency=concurrency,
        cache=folder / "replies.sqlite",
        budget_tokens=budget_tokens,
        budget_usd=budget_usd,
        retry_failed=retry_failed,
    )
    if budget_usd is not None and not price:
        raise UsageError("--budget-usd needs prices: add --price INPUT,OUTPUT")
    _line(progress_console(), "Planning: the data sets are read, and a trial of each row is run.")
    runs = {one.name: _runs(one, request) for one in tables}
    _show_plan(tables, runs, request)
    if plan or not _agreed(runs, yes=yes):
        return
    _check_keys((request.model, *request.proxies, *request.models.values()))
    if not _run(_to_run(runs), folder, config, workers):
        return
    _conclude(tables, runs, request, folder)
    if publish is not None:
        _publish(publish, _to_run(runs), folder)


def _list(paper: str | None, *, listing: bool) -> None:
    from ragweave.evaluation.published import PAPERS, tables_of_paper
    from ragweave.evaluation.report import Table

    if not listing:
        raise UsageError(
            f"name a paper ({', '.join(PAPERS)}), or --list to see its tables and figures"
        )
    for name in PAPERS if paper is None else [paper]:
        tables = tables_of_paper(name)
        rows = [[one.name, one.title, _data_sets(one)] for one in tables]
        title = f"{name}: {tables[0].source}"
        show_tables([Table(title, ["name", "what it shows", "data sets"], rows)])
    screen = console()
    screen.print("Reproduce one with: ragweave reproduce PAPER NAME --plan", markup=False)


def _data_sets(table: PaperTable) -> str:
    return f"– ({table.listed})" if table.listed else ", ".join(table.datasets)


def _reproducible(tables: Sequence[PaperTable]) -> list[PaperTable]:
    found = [one for one in tables if not one.listed]
    if not found:
        one = tables[0]
        raise UsageError(f"{one.paper} {one.name} ({one.title}) cannot be reproduced: {one.listed}")
    return found


def _files(texts: Sequence[str]) -> dict[str, Path]:
    found = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise UsageError(f"--file takes DATASET=FILE, such as nq=dev.jsonl, not {text!r}")
        found[name] = Path(path)
    return found


def _runs(table: PaperTable, request: Request) -> list[PlannedRun]:
    """Return a table's runs, without those that only serve runs which cannot be made."""
    from ragweave.evaluation.reproduction import runs_of_table

    runs = runs_of_table(table, request)
    needed = {one.base for one in runs if one.made is not None}
    return [one for one in runs if one.rows or one.folder in needed]


def _to_run(runs: dict[str, list[PlannedRun]]) -> list[PlannedRun]:
    """Return the runs that can be made, each folder once."""
    found = {one.folder: one for listed in runs.values() for one in listed if one.made is not None}
    return list(found.values())


def _show_plan(
    tables: Sequence[PaperTable], runs: dict[str, list[PlannedRun]], request: Request
) -> None:
    from ragweave.evaluation.report import Table
    from ragweave.evaluation.reproduction import HOW, about_lines, compare_table
    from ragweave.evaluation.reproduction import difference_tables as differing

    screen = console()
    for table in tables:
        _line(screen, f"{table.source}, {table.label}: {table.title}.")
        for line in about_lines(table):
            _line(screen, line)
        show_tables(differing(table, compare_table(table, runs[table.name], None)))
    show_tables([_needs(runs, request)])
    rows, total = _estimates(_to_run(runs))
    if rows:
        head = ["run", "rows × questions", "calls", "tokens in", "tokens out", "US$"]
        remarks = [HOW] if total.dollars else [HOW, "Dollars: give --price INPUT,OUTPUT."]
        show_tables([Table("What it costs, at least and at most", head, rows, remarks)])


def _needs(runs: dict[str, list[PlannedRun]], request: Request) -> Any:
    from ragweave.evaluation.report import Table
    from ragweave.tools.text.secrets import without_secrets

    specs = [("answer", request.model), *(("proxy", one) for one in request.proxies)]
    specs += request.models.items()
    rows = [["model", role, _with_missing(spec)] for role, spec in specs]
    listed = [one for each in runs.values() for one in each]
    papers = list(dict.fromkeys(row.model for one in listed for row in _rows(one) if row.model))
    rows[0][2] += f" (in the paper: {', '.join(papers)})" if papers else ""
    corpora = dict.fromkeys(row.corpus for one in listed for row in _rows(one))
    own = "none: the data sets' own passages are searched"
    where = without_secrets(str(request.kb)) if request.kb else own
    rows.append(["passages", "--kb", f"{where} (in the paper: {'; '.join(corpora)})"])
    for one in {each.data.dataset: each for each in listed}.values():
        found = f"found {one.path}" if one.path else f"missing: get {one.data.file}"
        source = "" if one.path and one.path.name.startswith(one.data.file) else _source(one)
        rows.append(["data", one.data.dataset, f"{found}; {one.data.about}{source}"])
    reasons = dict.fromkeys(
        (one.data.dataset, one.problem) for one in listed if one.problem and one.path
    )
    rows += [["not run", dataset, problem] for dataset, problem in reasons]
    return Table("What it needs", ["what", "which", "here"], rows)


def _with_missing(spec: str) -> str:
    from ragweave.evaluation.reproduction import missing_of

    missing = missing_of(spec)
    return f"{spec}; missing: {missing}" if missing else spec


def _source(one: PlannedRun) -> str:
    return f"; the paper's file: {one.data.where}" if one.path else f" from {one.data.where}"


def _rows(run: PlannedRun) -> list[Any]:
    return [row for listed in run.rows.values() for row in listed]


def _estimates(runs: Sequence[PlannedRun]) -> tuple[list[list[str]], Estimate]:
    from ragweave.evaluation.reproduction import Estimate, estimate

    total, rows = Estimate(dollars=(0.0, 0.0)), []
    for run in runs:
        if run.made is not None:
            one = estimate(run, run.made)
            total += one
            rows.append(_cost_row(run.folder, one, f"{len(run.systems)} × {run.made.planned}"))
    if len(rows) > 1:
        rows.append(_cost_row("all", total, str(total.questions)))
    return rows, total


def _cost_row(name: str, one: Estimate, asked: str) -> list[str]:
    dollars = "–" if one.dollars is None else "–".join(f"{each:.2f}" for each in one.dollars)
    spans = (one.calls, one.input_tokens, one.output_tokens)
    return [name, asked, *("–".join(map(_short, span)) for span in spans), dollars]


def _short(count: int) -> str:
    for size, sign in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if count >= size:
            unit = min(size, 1_000) if sign == "k" else size
            return f"{count / unit:.{0 if count >= 10 * unit else 1}f}{sign}"
    return str(count)


def _agreed(runs: dict[str, list[PlannedRun]], *, yes: bool) -> bool:
    if not _to_run(runs):
        raise UsageError("nothing of this can be run: see above what it needs")
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("the plan is above: add --yes to run it, or --plan to stop there")
    return typer.confirm("Run it?")


def _check_keys(specs: Sequence[str]) -> None:
    from ragweave.evaluation.reproduction import missing_of

    for spec in specs:
        if missing := missing_of(spec):
            raise UsageError(missing)


def _run(runs: Sequence[PlannedRun], folder: Path, config: RunConfig, workers: int) -> bool:
    """Run what is left; return whether all is finished. Budgets hold for all runs together."""
    from ragweave.cli.eval import dollars_of, follow
    from ragweave.evaluation.runs import claim_directory

    screen, complete = progress_console(), True
    for run in runs:
        directory = claim_directory(folder / run.folder, run.plan(folder))
        _line(screen, f"{run.folder}: {', '.join(run.systems)}")
        result = follow(directory, config, workers, resume=options.SAME_COMMAND)
        progress = result.progress
        spent = f"{progress.spent.paid_calls} calls, {progress.spent.paid_tokens} tokens"
        dollars = f", {found}" if (found := dollars_of(progress)) else ""
        failed = f", {progress.failed} failed (--retry-failed)" if progress.failed else ""
        _line(screen, f"  {progress.answered} answered{failed}; {spent}{dollars}")
        complete = result.complete
        if not complete:
            break
        if progress.failed and not run.rows:
            raise UsageError(
                f"{run.folder}: {progress.failed} questions failed, and the next run leaves out what "
                "was answered right there: give the same command again with --retry-failed"
            )
        config = config.after(progress)
    if not complete:
        _line(screen, f"The budget is spent. Go on with a larger one and {options.SAME_COMMAND}.")
    return complete


def _conclude(
    tables: Sequence[PaperTable],
    runs: dict[str, list[PlannedRun]],
    request: Request,
    folder: Path,
) -> None:
    from ragweave.evaluation.reproduction import (
        about_lines,
        compare_table,
        comparison_tables,
        write_pages,
    )

    models = {"answer": request.model, **dict.fromkeys(request.models, "")} | dict(request.models)
    if request.proxies:
        models["proxy"] = ", ".join(request.proxies)
    files: list[Path] = []
    for table in tables:
        if not any(one.made is not None for one in runs[table.name]):
            continue
        rows = compare_table(table, runs[table.name], folder)
        files += write_pages(folder, table, rows, models)
        show_tables(comparison_tables(table, rows, models))
        for line in about_lines(table):
            _line(console(), line)
    listed = ", ".join(path.relative_to(folder).as_posix() for path in files)
    _line(progress_console(), f"wrote to {folder}: {listed}")


def _publish(file: Path, runs: Sequence[PlannedRun], folder: Path) -> None:
    from ragweave.evaluation.reproduction import publish

    if not file.parent.is_dir():
        raise UsageError(f"no such folder: {file.parent}")
    lines = publish(file, runs, folder)
    _line(progress_console(), f"wrote {lines} outputs to {file}")


def _line(screen: Any, text: str) -> None:
    screen.print(text, markup=False, soft_wrap=not screen.is_terminal)
