"""`ragweave eval` and `ragweave report`: a data set, several methods, a durable run and its tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options
from ragweave.cli.on_ray import Ray, check_ray
from ragweave.cli.screen import explain, progress_console, show_tables
from ragweave.errors import ModelError, UsageError

if TYPE_CHECKING:
    from ragweave.evaluation.runs import Progress, RunConfig, RunDirectory, RunResult, System
    from ragweave.evaluation.runs.outcome import Record
    from ragweave.evaluation.runs.run import OnProgress


def evaluate(
    context: typer.Context,
    dataset: options.Dataset = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Resume the run in this directory.")
    ] = None,
    methods: options.Methods = options.METHODS,
    model: options.Model = "extractive",
    proxy: options.Proxy = None,
    judge: options.Judge = None,
    rewriter: options.Rewriter = None,
    filter_model: options.FilterModel = None,
    out: options.Out = None,
    kb: options.Kb = None,
    corpus: options.Corpus = "",
    passages: options.Passages = "searched",
    gold: options.Gold = "as_found",
    drop_answered: options.DropAnswered = None,
    oracle: options.Oracle = False,
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    second_retriever: options.SecondRetriever = "",
    scorer: options.Scorer = "",
    metrics: options.Metrics = "",
    judge_model: options.JudgeModel = "",
    k: options.K = None,
    option: options.OptionTexts = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    seed: options.Seed = 0,
    shard: options.Shard = "1/1",
    price: options.Prices = "",
    concurrency: options.Concurrency = 16,
    workers: options.Workers = 1,
    ray: Ray = None,
    cache: options.Cache = None,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    retry_failed: options.RetryFailed = False,
    moved_server: options.MovedServer = False,
) -> None:
    """Answer a data set's questions with several methods, durably.

    Each finished question is saved at once. A run that was stopped or killed continues with
    --resume, and pays for no call twice.
    """
    from ragweave.evaluation.runs import RunConfig, record_moved_servers

    check_ray(ray, workers=workers, shard=shard)
    config = RunConfig(
        concurrency=concurrency,
        cache=cache,
        budget_tokens=budget_tokens,
        budget_usd=budget_usd,
        retry_failed=retry_failed,
    )
    if resume is not None:
        _check_resuming(context)
        directory = _open_run(resume)
        if moved_server:
            record_moved_servers(directory)
    else:
        if moved_server:
            raise UsageError("--moved-server goes with --resume DIR")
        if dataset is None or out is None:
            raise UsageError("give a data set and --out DIR, or --resume DIR")
        model = _answering(model, dataset)
        models, texts = options.read_models(model, proxy, judge, rewriter, filter_model, option)
        directory = plan_run(
            out,
            dataset,
            methods,
            models=options.by_role(models),
            texts=options.with_k(texts, k),
            kb=kb,
            corpus=corpus,
            passages=passages,
            gold=gold,
            drop_answered=drop_answered,
            oracle=oracle,
            retriever=retriever,
            rerank=rerank,
            second_retriever=second_retriever,
            scorer=scorer,
            metrics=[one.strip() for one in metrics.split(",") if one.strip()],
            judge_model=judge_model,
            limit=limit,
            sample=sample,
            seed=seed,
            shard=shard,
            price=price,
        )
    conclude(directory, follow(directory, config, workers, ray=ray))


_OF_A_SESSION = frozenset(
    [
        "resume",
        "concurrency",
        "workers",
        "ray",
        "cache",
        "budget_tokens",
        "budget_usd",
        "retry_failed",
        "moved_server",
    ]
)
"""Parameters of `evaluate` that a later session may set anew."""


def _check_resuming(context: typer.Context) -> None:
    """Refuse what the run has settled already."""
    given = []
    for one in context.command.params:
        source = context.get_parameter_source(str(one.name))
        if one.name not in _OF_A_SESSION and source and source.name == "COMMANDLINE":
            given.append(
                "the data set" if one.param_type_name == "argument" else max(one.opts, key=len)
            )
    if given:
        raise UsageError(f"--resume takes its settings from the run: leave out {', '.join(given)}")


def _answering(model: str, dataset: str) -> str:
    """Return the answering model: a recording is replayed where no other model is named.

    The default, `extractive`, would find no passage to quote there.
    """
    name, _, path = dataset.partition("?")[0].partition(":")
    replayed = model == "extractive" and name == "recorded"
    return f"recorded:{Path(path).resolve()}" if replayed else model


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Run directories; shards of one run are merged.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder to write to (default: `report` in the first run)."),
    ] = None,
    pages: Annotated[int, typer.Option(help="Most pages for single questions.")] = 200,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw plots.")] = True,
) -> None:
    """Show runs as tables; write report.md, report.html, results.csv and plots."""
    from ragweave.evaluation.report import (
        between_table,
        can_plot,
        read_runs,
        tables_of,
        write_report,
    )

    experiments = read_runs(runs)
    folder = out or runs[0] / "report"
    files = write_report(folder, experiments, pages=pages, plots=plots)
    for experiment in experiments:
        show_tables(tables_of(experiment))
    between = between_table(experiments)
    show_tables([between] if between is not None else [])
    remarks = progress_console()
    listed = ", ".join(path.relative_to(folder).as_posix() for path in files)
    remarks.print(f"wrote to {folder}: {listed}", markup=False, soft_wrap=True)
    if plots and not can_plot():
        remarks.print('no plots: pip install "ragweave[eval]"', markup=False)


def plan_run(
    out: Path,
    dataset: str,
    methods: str | Sequence[System],
    *,
    models: dict[str, str],
    texts: Sequence[str],
    shard: str = "1/1",
    price: str = "",
    **settings: Any,
) -> RunDirectory:
    """Plan a run and claim its directory.

    Args:
        out: The directory.
        dataset: The data set's spec.
        methods: Text for `parse_systems`, or the systems themselves.
        models: Model specs by role.
        texts: `name=value` options, set on each method that has them.
        shard: `i/n`.
        price: Text for `read_prices`.
        **settings: More settings of the run.

    Raises:
        UsageError: A value is invalid, or the directory holds something else.
    """
    from ragweave.evaluation.metrics import read_prices
    from ragweave.evaluation.runs import claim_directory, parse_systems, plan

    systems = (
        parse_systems(methods, options.shared_options(texts, methods))
        if isinstance(methods, str)
        else list(methods)
    )
    prices = {role: (one.input, one.output) for role, one in read_prices(price).items()}
    made = plan(
        dataset,
        systems,
        models,
        shard=_shard(shard),
        prices=prices,
        own_retriever=False,
        **settings,
    )
    return claim_directory(out, made)


def _open_run(path: Path) -> RunDirectory:
    from ragweave.evaluation.runs import RunDirectory

    directory = RunDirectory(path)
    directory.settings  # noqa: B018 - raises UsageError where the directory holds no run
    return directory


def follow(
    directory: RunDirectory,
    config: RunConfig,
    workers: int = 1,
    *,
    ray: str | None = None,
    resume: str = "",
) -> RunResult:
    """Run, showing progress on a terminal; on Ctrl-C say how to resume.

    Args:
        directory: The run.
        config: Concurrency, cache, budgets.
        workers: Processes that share the questions.
        ray: Address of a Ray cluster whose nodes share the questions.
        resume: How to resume, as it is told; "": by `ragweave eval --resume`.

    Raises:
        KeyboardInterrupt: Ctrl-C; what is recorded stands.
    """
    import asyncio

    from ragweave.evaluation.runs import evaluate_in_workers, evaluate_on_ray
    from ragweave.tools.process_errors import ProcessError

    with _progress() as on_progress:
        try:
            work = (
                evaluate_in_workers(directory, config, workers=workers, on_progress=on_progress)
                if ray is None
                else evaluate_on_ray(directory, config, address=ray, on_progress=on_progress)
            )
            return asyncio.run(work)
        except ProcessError as error:
            line = explain(error) if error.status_code is not None else None
            raise error if line is None else ModelError(line) from error
        except KeyboardInterrupt:
            progress_console().print(
                f"Resume with: {resume or _resume_command(directory)}",
                markup=False,
                soft_wrap=True,
            )
            raise


def conclude(directory: RunDirectory, result: RunResult, *, resume: str = "") -> None:
    """Print the tables, and what is left to do.

    Args:
        directory: The run.
        result: What its session came to.
        resume: How to resume, as it is told; "": by `ragweave eval --resume`.
    """
    from ragweave.evaluation.report import read_runs, tables_of

    progress, remarks = result.progress, progress_console()
    if progress.finished:
        for experiment in read_runs([directory.path]):
            show_tables(tables_of(experiment)[:1])
    counts = f"{progress.answered} answered, {progress.failed} failed of {progress.planned}"
    spent = f"{progress.spent.paid_calls} calls, {progress.spent.paid_tokens} tokens"
    if progress.spent.cached_calls:
        spent += f", {progress.spent.cached_calls} replies from the cache"
    if dollars := dollars_of(progress):
        spent += f", {dollars}"
    remarks.print(f"{counts}; {spent}; {directory.path}", markup=False, soft_wrap=True)
    if not result.complete:
        remarks.print(
            "The budget is spent. Resume with a larger one: "
            f"{resume or _resume_command(directory)}",
            markup=False,
            soft_wrap=True,
        )
    if progress.failed:
        remarks.print(
            f"Retry the failed questions with: {_resume_command(directory)} --retry-failed",
            markup=False,
            soft_wrap=True,
        )


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Yield a progress callback: a status line on a terminal, nothing in a pipe."""
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    screen = progress_console()
    if not screen.is_terminal:
        yield lambda _progress, _record: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
    with Bar(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("")

        def on_progress(progress: Progress, _record: Record | None) -> None:
            bar.update(
                task,
                completed=progress.finished,
                total=progress.planned,
                description=escape(status_line(progress)),
            )

        yield on_progress


def status_line(progress: Progress) -> str:
    """Return a run's progress in a line: time left, tokens, failures, running scores."""
    from ragweave.evaluation.metrics import metric_info

    left = progress.eta
    parts = [] if left is None else [f"{_time(left)} left"]
    parts.append(f"{progress.spent.paid_tokens:,} tokens")
    if dollars := dollars_of(progress, digits=2):
        parts.append(dollars)
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    running = progress.running
    if running:
        names = {name for name, _ in running.values()}
        head = metric_info(names.pop(), progress.metrics).label if len(names) == 1 else "score"
        scores = " ".join(f"{label} {mean * 100:.1f}" for label, (_, mean) in running.items())
        parts.append(f"{head}: {scores}")
    return " · ".join(parts)


def dollars_of(progress: Progress, digits: int = 4) -> str:
    """Return what a run has cost, or who has no price for it; "" where no price is known."""
    if progress.unpriced:
        return f"no price for {', '.join(progress.unpriced)}"
    return f"${progress.cost:.{digits}f}" if progress.cost else ""


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _resume_command(directory: RunDirectory) -> str:
    return f"ragweave eval --resume {shlex.quote(str(directory.path))}"


def _shard(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not slash or not part.isdigit() or not parts.isdigit():
        raise UsageError(f"--shard must be i/n, such as 2/8, not {text!r}")
    return int(part), int(parts)
