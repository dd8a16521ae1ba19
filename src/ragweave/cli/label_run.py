"""Making labels for the command line: progress on a terminal, counts at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ragweave.cli.screen import console, marked_up, progress_bar, progress_console
from ragweave.errors import UsageError
from ragweave.tools.models import ChatModel, chat_model
from ragweave.training.labels import LabelConfig, Labeler, Labelled, make_labels, open_source
from ragweave.training.labels.labeler import OnProgress

NAMES = {
    "nq": "NQ",
    "asqa": "ASQA",
    "triviaqa": "TQA",
    "hotpotqa": "HotpotQA",
    "2wiki": "2Wiki",
    "musique": "MuSiQue",
    "eli5": "ELI5",
    "plain": "plain rows",
}
"""Data sets and formats as tables name them; others by their own name."""


def model(spec: str | None) -> ChatModel | None:
    """Return the chat model of a spec, where one is given."""
    return None if spec is None else chat_model(spec)


def read_top(text: str) -> int | None:
    """Read `--top`: a number, or `all` (None).

    Raises:
        UsageError: It is neither.
    """
    if text == "all":
        return None
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"--top takes a number from 1, or all, not {text!r}")
    return int(text)


def follow(
    source: str,
    labeler: Labeler,
    out: Path,
    config: LabelConfig,
    *,
    limit: int | None,
    skip_bad: bool,
) -> Labelled:
    """Make the labels with progress on a terminal; on Ctrl-C say how to go on.

    Raises:
        KeyboardInterrupt: Ctrl-C; what is labelled stands.
    """
    with _progress() as on_progress:
        try:
            return make_labels(
                open_source(source),
                labeler,
                out,
                limit=limit,
                skip_bad=skip_bad,
                config=config,
                on_progress=on_progress,
            )
        except KeyboardInterrupt:
            progress_console().print(
                f"What is labelled is kept in {out}.partial: the same command goes on with it.",
                markup=False,
                soft_wrap=True,
            )
            raise


_NEARLY_ALL = 0.95
"""Share of kept text above which rows hardly tell what to leave out."""


def show_judge(done: Labelled) -> None:
    """Print what SlimPLM's Table 5 prints: known, unknown and dropped, by data set."""
    _table(done, "Necessity judge", {"known": "Known", "unknown": "Unknown"})
    known, unknown = done.total("known"), done.total("unknown")
    if done.total("empty drafts"):
        _warn(f"{done.total('empty drafts')} drafts are empty; they count as unknown")
    if known and unknown:
        _end(done, f"{known} known, {unknown} unknown", "train judge")
        return
    only = "known" if known else "unknown"
    _warn(f"all rows are {only}: a judge cannot be trained on one class alone")
    _end(done, f"{known} known, {unknown} unknown")


def show_rewrite(done: Labelled) -> None:
    """Print rows, claims and questions, repairs and what was left out."""
    names = {"rows": "Rows", "claims": "Claims", "questions": "Questions", "repaired": "Repaired"}
    _table(done, "Query rewriter", names)
    left_out = sorted({one for count in done.counts.values() for one in count if ":" in one})
    for name in left_out:
        number = done.total(name)
        if number:
            _remark(f"claims or questions {name.replace(':', ',')}: {number}")
    _end(done, f"{done.total('claims')} claims in {done.rows} rows", "train rewriter")


def show_filter(done: Labelled, passages: str) -> None:
    """Print rows, empty targets and the share of the passages that is kept."""
    _table(done, "Context filter", {"rows": "Rows", "spans": "Sentences kept", "empty": "Empty"})
    before, after = done.total("characters"), done.total("characters kept")
    _remark(f"passages: {passages}; {after / max(before, 1):.1%} of their text is kept")
    if after > _NEARLY_ALL * before:
        _warn("nearly all text is kept, so little can be learnt; more --passages show what to drop")
    empty = done.total("empty")
    if empty > done.rows / 2:
        _warn(
            f"{empty} of {done.rows} targets are empty: does the measure suit the answers? "
            "(lexical wants long ones, strinc ones that passages spell alike)"
        )
    _end(done, f"{done.rows} rows, {done.total('empty')} with an empty target", "train filter")


def _table(done: Labelled, title: str, columns: dict[str, str]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    table.add_column("Data", no_wrap=True)
    for head in (*columns.values(), "Dropped"):
        table.add_column(head, justify="right")
    for data, count in done.counts.items():
        shown = [f"{count.get(name, 0):,}" for name in (*columns, "dropped")]
        table.add_row(marked_up(NAMES.get(data, data)), *shown)
    if len(done.counts) > 1:
        table.add_section()
        table.add_row("all", *[f"{done.total(name):,}" for name in (*columns, "dropped")])
    console().print(table)
    for reason, number in done.dropped.items():
        _remark(f"dropped, {reason}: {number}")


def _end(done: Labelled, told: str, then: str = "") -> None:
    before = " (finished before)" if done.before else ""
    typer.echo(f"{done.path}: {told}{before}")
    use = f"; use it: ragweave {then} {done.path}" if then else ""
    typer.echo(f"counts and settings: {done.report}{use}", err=True)


def _remark(text: str) -> None:
    console().print(text, style="dim", markup=False, soft_wrap=True)


def _warn(text: str) -> None:
    progress_console().print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Yield what shows how far it is: a bar on a terminal, nothing in a pipe."""
    with progress_bar() as bar:
        task = bar.add_task("labelling", total=None)

        def on_progress(done: int, total: int, failed: int) -> None:
            told = f"labelling, {failed} failed" if failed else "labelling"
            bar.update(task, completed=done, total=total, description=told)

        yield on_progress
