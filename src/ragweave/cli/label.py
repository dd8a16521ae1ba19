"""`ragweave label`: turn labelled questions into training data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragweave.cli.on_ray import Ray, RayCommand, check_ray
from ragweave.cli.screen import console, marked_up, progress_bar, progress_console
from ragweave.errors import UsageError

if TYPE_CHECKING:
    from ragweave.training.labels import LabelConfig, LabelerSpec, Labelled
    from ragweave.training.labels.labeler import OnProgress

app = typer.Typer(
    help="Turn labelled questions into training data.", no_args_is_help=True, rich_markup_mode=None
)

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

Source = Annotated[
    str, typer.Argument(help="Questions: NAME:FILE (hotpotqa:dev.json), a file alone, or hf:NAME.")
]
Out = Annotated[
    Path, typer.Option("--out", help="File for the training rows (.gz compresses them).")
]
Proxy = Annotated[
    str | None, typer.Option(help="Model that drafts answers: llamacpp:PATH, openai:NAME, …")
]
Draft = Annotated[
    str | None, typer.Option(help="Field that holds drafts; the proxy is then not asked.")
]
Aliases = Annotated[
    str,
    typer.Option(
        help="How aliases count: together (any one will do), apart (each is an answer), or auto "
        "(as a row's labels counted them, and apart in SlimPLM's released files)."
    ),
]
Limit = Annotated[int | None, typer.Option(help="Use only the first N questions.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out rows that cannot be labelled, and count them.")
]
Concurrency = Annotated[int, typer.Option(help="Questions in flight at once.")]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Retry rows whose model call failed.")
]
DropFailed = Annotated[
    bool,
    typer.Option("--drop-failed", help="Finish the file without the rows whose model call failed."),
]


@app.callback()
def root() -> None:
    """Turn labelled questions into training data."""


@app.command("judge", cls=RayCommand)
def judge(
    source: Source,
    out: Out,
    proxy: Proxy = None,
    draft: Draft = None,
    theta: Annotated[
        float,
        typer.Option(help="Share of the gold answers above which a draft counts as known (θ)."),
    ] = 0.5,
    aliases: Aliases = "auto",
    gold: Annotated[
        str | None,
        typer.Option(help="Field that holds the gold answers (default: the data set's own)."),
    ] = None,
    known: Annotated[
        str | None, typer.Option(help="Field that holds labels; they are then not computed.")
    ] = None,
    balance: Annotated[
        bool, typer.Option(help="Down-sample the larger class within each data set.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of the down-sampling.")] = 0,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    concurrency: Concurrency = 16,
    retry_failed: RetryFailed = False,
    drop_failed: DropFailed = False,
    ray: Ray = None,
) -> None:
    """Label draft answers as known or not, for the necessity judge (SlimPLM).

    Resumes where it stopped; no draft is paid for twice.
    """
    from ragweave.training.labels import JudgeLabeler, LabelConfig, LabelerSpec

    given = {"draft": draft, "theta": theta, "aliases": aliases, "gold": gold, "known": known}
    labeler = LabelerSpec(
        JudgeLabeler, {"proxy": proxy}, {**given, "balance": balance, "seed": seed}
    )
    config = LabelConfig(
        concurrency=concurrency, retry_failed=retry_failed, drop_failed=drop_failed
    )
    _show_judge(_run(source, labeler, out, config, limit=limit, skip_bad=skip_bad, ray=ray))


@app.command("rewrite", cls=RayCommand)
def rewrite(
    source: Source,
    out: Out,
    teacher: Annotated[
        str | None,
        typer.Option(help="Model that annotates; without one, the annotations in SlimPLM's file."),
    ] = None,
    proxy: Proxy = None,
    draft: Draft = None,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    concurrency: Concurrency = 16,
    retry_failed: RetryFailed = False,
    drop_failed: DropFailed = False,
    ray: Ray = None,
) -> None:
    """Split draft answers into claims with queries, for the query rewriter (SlimPLM).

    Each reply is checked against the paper's rules. Where one is broken the teacher is asked once
    more; what is still wrong is left out, and counted.
    """
    from ragweave.training.labels import LabelConfig, LabelerSpec, RewriteLabeler

    models = {"teacher": teacher, "proxy": proxy}
    labeler = LabelerSpec(RewriteLabeler, models, {"draft": draft})
    config = LabelConfig(
        concurrency=concurrency, retry_failed=retry_failed, drop_failed=drop_failed
    )
    _show_rewrite(_run(source, labeler, out, config, limit=limit, skip_bad=skip_bad, ray=ray))


@app.command("filter", cls=RayCommand)
def filter_(
    source: Source,
    out: Out,
    measure: Annotated[
        str,
        typer.Option(help="strinc, lexical, cxmi, gold (what annotators chose), or full (all)."),
    ],
    kb: Annotated[
        str | None,
        typer.Option(
            "--kb", metavar="KB", help="Knowledge base to search (default: the file's own)."
        ),
    ] = None,
    passages: Annotated[int, typer.Option(help="Passages per question (1 or 5 in the paper).")] = 1,
    order: Annotated[
        str, typer.Option(help="Of the file's own: gold-first, given, or retrieved (by score).")
    ] = "gold-first",
    unit: Annotated[
        str,
        typer.Option(help="What is kept or dropped: sentence, or passage (whole: FILCO's PSG)."),
    ] = "sentence",
    top: Annotated[
        str | None,
        typer.Option(help="What to keep: a number (of sentences: 1), or all above the threshold."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Score that a sentence must reach (lexical 0.5, cxmi 0).")
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            help="What lexical compares with: answer, question, or auto (the question for claims)."
        ),
    ] = "auto",
    scorer: Annotated[
        str | None,
        typer.Option(help="Model that scores for cxmi: hf:NAME, llamacpp:PATH, openai:NAME?…"),
    ] = None,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    concurrency: Concurrency = 4,
    retry_failed: RetryFailed = False,
    drop_failed: DropFailed = False,
    ray: Ray = None,
) -> None:
    """Mark the sentences that help, for the context filter and the generator (FILCO)."""
    from ragweave.training.labels import LabelConfig, LabelerSpec, Passages, SilverLabeler

    found = Passages(kb, passages, order)
    kept = top or ("all" if unit == "passage" else "1")
    given = {"measure": measure, "passages": found, "top": _read_top(kept), "unit": unit}
    labeler = LabelerSpec(
        SilverLabeler, {"scorer": scorer}, {**given, "threshold": threshold, "target": target}
    )
    config = LabelConfig(
        concurrency=concurrency, retry_failed=retry_failed, drop_failed=drop_failed
    )
    done = _run(source, labeler, out, config, limit=limit, skip_bad=skip_bad, ray=ray)
    if measure == "full":
        _table(done, "Generator", {"rows": "Rows", "spans": "Passages"})
        _end(done, f"{done.rows} rows, every passage whole", "train generator")
    else:
        _show_filter(done, found.described["passages"], unit)


@app.command("needed")
def needed(
    source: Annotated[
        Path,
        typer.Argument(help="JSON lines (also .gz) with question, and needed, known or a draft."),
    ],
    out: Out,
    draft: Annotated[
        str | None,
        typer.Option(
            help="Field that holds the model's answer without retrieval; labels come from it."
        ),
    ] = None,
    gold: Annotated[str, typer.Option(help="Field that holds the gold answers.")] = "answers",
    theta: Annotated[
        float, typer.Option(help="Share of the gold answers above which a draft counts as known.")
    ] = 0.5,
    aliases: Aliases = "auto",
) -> None:
    """Label questions as needing retrieval or not, for skr_knn."""
    from ragweave.tools.neighbours import write_training

    done = write_training(source, out, draft=draft, gold=gold, theta=theta, aliases=aliases)
    typer.echo(f"{done.path}: {done.questions} questions, of which {done.needed} need retrieval")
    if done.dropped:
        typer.echo(
            f"left out: {done.dropped} questions with a yes or no answer, of which a match ratio "
            "says nothing"
        )
    typer.echo(f"use it: ragweave ask … --method skr_knn --option training={done.path}", err=True)


def _read_top(text: str) -> int | None:
    """Read `--top`: a number, or `all` (None)."""
    if text == "all":
        return None
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"--top must be a positive number, or all, not {text!r}")
    return int(text)


def _run(
    source: str,
    labeler: LabelerSpec,
    out: Path,
    config: LabelConfig,
    *,
    limit: int | None,
    skip_bad: bool,
    ray: str | None,
) -> Labelled:
    """Make the labels, showing progress on a terminal; on Ctrl-C say how to resume."""
    from ragweave.training.labels import make_labels, open_source

    check_ray(ray)
    with _progress() as on_progress:
        try:
            return make_labels(
                open_source(source),
                labeler,
                out,
                ray=ray,
                limit=limit,
                skip_bad=skip_bad,
                config=config,
                on_progress=on_progress,
            )
        except KeyboardInterrupt:
            progress_console().print(
                f"Finished labels are kept in {out}.partial: run the same command to resume.",
                markup=False,
                soft_wrap=True,
            )
            raise


_NEARLY_ALL = 0.95
"""Share of kept text above which rows teach little about what to leave out."""


def _show_judge(done: Labelled) -> None:
    """Print the columns of SlimPLM's Table 5: known, unknown and dropped, by data set."""
    _table(done, "Necessity judge", {"known": "Known", "unknown": "Unknown"})
    known, unknown = done.total("known"), done.total("unknown")
    if done.total("empty drafts"):
        _warn(f"{done.total('empty drafts')} drafts are empty and count as unknown")
    if known and unknown:
        _end(done, f"{known} known, {unknown} unknown", "train judge")
        return
    only = "known" if known else "unknown"
    _warn(f"all rows are {only}: a judge cannot be trained on a single class")
    _end(done, f"{known} known, {unknown} unknown")


def _show_rewrite(done: Labelled) -> None:
    """Print rows, claims, questions, repairs and what was left out."""
    names = {"rows": "Rows", "claims": "Claims", "questions": "Questions", "repaired": "Repaired"}
    _table(done, "Query rewriter", names)
    left_out = sorted({one for count in done.counts.values() for one in count if ":" in one})
    for name in left_out:
        number = done.total(name)
        if number:
            _remark(f"claims or questions {name.replace(':', ',')}: {number}")
    _end(done, f"{done.total('claims')} claims in {done.rows} rows", "train rewriter")


def _show_filter(done: Labelled, passages: str, unit: str) -> None:
    """Print rows, empty targets and the share of the passages that is kept."""
    kept = f"{unit.capitalize()}s kept"
    _table(done, "Context filter", {"rows": "Rows", "spans": kept, "empty": "Empty"})
    before, after = done.total("characters"), done.total("characters kept")
    _remark(f"passages: {passages}; {after / max(before, 1):.1%} of their text is kept")
    if after > _NEARLY_ALL * before:
        _warn(
            "nearly all text is kept, so little can be learnt: raise --passages to add text to drop"
        )
    empty = done.total("empty")
    if empty > done.rows / 2:
        _warn(
            f"{empty} of {done.rows} targets are empty: does the measure suit the answers? "
            "(lexical needs long answers, strinc answers spelt as in the passages)"
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


def _end(done: Labelled, summary: str, then: str = "") -> None:
    before = " (already finished)" if done.before else ""
    typer.echo(f"{done.path}: {summary}{before}")
    use = f"; use it: ragweave {then} {done.path}" if then else ""
    typer.echo(f"counts and settings: {done.report}{use}", err=True)


def _remark(text: str) -> None:
    console().print(text, style="dim", markup=False, soft_wrap=True)


def _warn(text: str) -> None:
    progress_console().print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Yield a progress callback: a bar on a terminal, nothing in a pipe."""
    with progress_bar() as bar:
        task = bar.add_task("labelling", total=None)

        def on_progress(done: int, total: int, failed: int) -> None:
            text = f"labelling, {failed} failed" if failed else "labelling"
            bar.update(task, completed=done, total=total, description=text)

        yield on_progress
