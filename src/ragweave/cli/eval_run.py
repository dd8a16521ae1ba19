"""Running an evaluation for the command line: its plan, its progress, its end."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragweave.cli.faults import explain
from ragweave.cli.screen import console, progress_console
from ragweave.errors import ModelError, UsageError
from ragweave.evaluation.metrics import metric_info, read_prices
from ragweave.evaluation.report import Table, read_runs, tables_of
from ragweave.evaluation.runs import (
    Progress,
    RunConfig,
    RunDirectory,
    RunResult,
    System,
    WorkerError,
    claim_directory,
    evaluate_in_workers,
    parse_systems,
    plan,
)
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.run import OnProgress
from ragweave.graphs.build import method_named


def planned(
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
        texts: `name=value` options for each method that has them.
        shard: `i/n`.
        price: Text for `read_prices`.
        **settings: More settings of the run.

    Raises:
        UsageError: Anything of it is not understood, or the directory holds something else.
    """
    systems = (
        parse_systems(methods, shared_options(texts, methods))
        if isinstance(methods, str)
        else list(methods)
    )
    prices = {role: (one.input, one.output) for role, one in read_prices(price).items()}
    made = plan(dataset, systems, models, shard=_shard(shard), prices=prices, **settings)
    return claim_directory(out, made)


def shared_options(texts: Sequence[str], methods: str) -> dict[str, Any]:
    """Read `name=value` texts by the first method that knows the name."""
    from ragweave.graphs.method import parse_options

    if not texts:
        return {}
    named = [method_named(one.method) for one in parse_systems(methods)]
    found: dict[str, Any] = {}
    for text in texts:
        key = text.partition("=")[0].strip().replace("-", "_")
        knowing = [one for one in named if key in one.options.__dataclass_fields__]
        found |= parse_options([text], (knowing or named)[0])
    return found


def with_options(systems: Sequence[System], texts: Sequence[str]) -> list[System]:
    """Return a study's systems with `name=value` options for each method that has them.

    Raises:
        UsageError: No method has an option, or the study varies it itself.
    """
    shared = shared_options(texts, ",".join(dict.fromkeys(one.method for one in systems)))
    made = [replace(one, options={**_known(one, shared), **one.options}) for one in systems]
    for name in shared:
        if any(name in one.options for one in systems):
            raise UsageError(f"this study varies {name} itself: leave --option {name}=… out")
        if not any(name in one.options for one in made):
            raise UsageError(f"none of this study's methods has an option {name!r}")
    for one in made:
        one.resolved()
    return made


def _known(one: System, shared: Mapping[str, Any]) -> dict[str, Any]:
    fields = method_named(one.method).options.__dataclass_fields__
    return {name: value for name, value in shared.items() if name in fields}


def opened(path: Path) -> RunDirectory:
    """Return the run in a directory.

    Raises:
        UsageError: It is no run.
    """
    directory = RunDirectory(path)
    directory.settings  # noqa: B018 - raises where it is no run
    return directory


def follow(directory: RunDirectory, config: RunConfig, workers: int = 1) -> RunResult:
    """Run with progress on a terminal; on Ctrl-C say how to go on.

    Raises:
        KeyboardInterrupt: Ctrl-C; what is recorded stands.
    """
    with _shown() as on_progress:
        try:
            return asyncio.run(
                evaluate_in_workers(directory, config, workers=workers, on_progress=on_progress)
            )
        except WorkerError as error:
            line = explain(error) if error.status_code is not None else None
            raise error if line is None else ModelError(line) from error
        except KeyboardInterrupt:
            progress_console().print(
                f"Go on with: {_again(directory)}", markup=False, soft_wrap=True
            )
            raise


def conclude(directory: RunDirectory, result: RunResult) -> None:
    """Print the tables, and what is left to do."""
    progress, remarks = result.progress, progress_console()
    if progress.finished:
        for experiment in read_runs([directory.path]):
            show_tables(tables_of(experiment)[:1])
    told = f"{progress.answered} answered, {progress.failed} failed of {progress.planned}"
    spent = f"{progress.spent.paid_calls} calls, {progress.spent.paid_tokens} tokens"
    if progress.spent.cached_calls:
        spent += f", {progress.spent.cached_calls} replies from the cache"
    if progress.cost:
        spent += f", ${progress.cost:.4f}"
    remarks.print(f"{told}; {spent}; {directory.path}", markup=False, soft_wrap=True)
    if not result.complete:
        remarks.print(
            f"The budget is spent. Go on with a larger one: {_again(directory)}",
            markup=False,
            soft_wrap=True,
        )
    if progress.failed:
        remarks.print(
            f"Try the failed ones again with: {_again(directory)} --retry-failed",
            markup=False,
            soft_wrap=True,
        )


def show_tables(tables: Sequence[Table]) -> None:
    """Print tables of a report."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    screen = console()
    for table in tables:
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=escape(table.title))
        drawn.title_justify = "left"
        for place, head in enumerate(table.head):
            drawn.add_column(escape(head), overflow="fold", no_wrap=place == 0)
        for row in table.rows:
            drawn.add_row(*map(escape, row))
        screen.print(drawn)
        for remark in table.remarks:
            screen.print(escape(remark), style="dim")


@contextmanager
def _shown() -> Iterator[OnProgress]:
    """Yield what shows where a run stands: a line that moves on a terminal, nothing in a pipe."""
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
    """Return where a run stands in a line: time left, tokens, failures, running scores."""
    left = progress.eta
    parts = [] if left is None else [f"{_time(left)} left"]
    parts.append(f"{progress.spent.paid_tokens:,} tokens")
    if progress.cost:
        parts.append(f"${progress.cost:.2f}")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    running = progress.running
    if running:
        names = {name for name, _ in running.values()}
        head = metric_info(names.pop(), progress.metrics).label if len(names) == 1 else "score"
        scores = " ".join(f"{label} {mean * 100:.1f}" for label, (_, mean) in running.items())
        parts.append(f"{head}: {scores}")
    return " · ".join(parts)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _again(directory: RunDirectory) -> str:
    return f"ragweave eval --resume {shlex.quote(str(directory.path))}"


def _shard(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not slash or not part.isdigit() or not parts.isdigit():
        raise UsageError(f"--shard takes i/n, such as 2/8, not {text!r}")
    return int(part), int(parts)
