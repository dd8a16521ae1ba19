"""`ragweave label`: training data out of labelled questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Make training data from labelled questions.", no_args_is_help=True, rich_markup_mode=None
)

Source = Annotated[
    str, typer.Argument(help="Questions: NAME:FILE (hotpotqa:dev.json), a file alone, or hf:NAME.")
]
Out = Annotated[Path, typer.Option("--out", help="The training rows to write (.gz too).")]
Proxy = Annotated[
    str | None, typer.Option(help="Model that drafts answers: llamacpp:PATH, openai:NAME, …")
]
Draft = Annotated[
    str | None, typer.Option(help="Field of drafts that the file has; no proxy is asked then.")
]
Limit = Annotated[int | None, typer.Option(help="Only the first so many questions.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out rows that cannot be labelled, counted.")
]
Concurrency = Annotated[int, typer.Option(help="Questions in flight at once.")]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Try rows whose model call failed again.")
]
DropFailed = Annotated[
    bool, typer.Option("--drop-failed", help="Finish the file without rows whose call failed.")
]


@app.callback()
def root() -> None:
    """Make training data from labelled questions."""


@app.command("judge")
def judge(
    source: Source,
    out: Out,
    proxy: Proxy = None,
    draft: Draft = None,
    theta: Annotated[
        float, typer.Option(help="Share of gold answers above which a draft is known (θ).")
    ] = 0.5,
    aliases: Annotated[
        str,
        typer.Option(
            help="Names of one answer: together (any counts), apart (each is an answer), or auto: "
            "apart in SlimPLM's released files."
        ),
    ] = "auto",
    gold: Annotated[
        str | None, typer.Option(help="Field of gold answers (as the data set has them).")
    ] = None,
    known: Annotated[
        str | None, typer.Option(help="Field of labels that the file has; no ratio is made then.")
    ] = None,
    balance: Annotated[
        bool, typer.Option(help="Down-sample the larger class, data set by data set.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of that draw.")] = 0,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    concurrency: Concurrency = 16,
    retry_failed: RetryFailed = False,
    drop_failed: DropFailed = False,
) -> None:
    """Label draft answers as known or not, for the necessity judge (SlimPLM).

    Goes on where it was stopped; no draft is paid for twice.
    """
    from ragweave.cli.label_run import follow, model, show_judge
    from ragweave.training.labels import JudgeLabeler, LabelConfig

    labeler = JudgeLabeler(
        proxy=model(proxy),
        proxy_spec=proxy or "",
        draft=draft,
        theta=theta,
        aliases=aliases,
        gold=gold,
        known=known,
        balance=balance,
        seed=seed,
    )
    config = LabelConfig(
        concurrency=concurrency, retry_failed=retry_failed, drop_failed=drop_failed
    )
    show_judge(follow(source, labeler, out, config, limit=limit, skip_bad=skip_bad))


@app.command("rewrite")
def rewrite(
    source: Source,
    out: Out,
    teacher: Annotated[
        str | None,
        typer.Option(help="Model that annotates; without, the annotations of SlimPLM's file."),
    ] = None,
    proxy: Proxy = None,
    draft: Draft = None,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    concurrency: Concurrency = 16,
    retry_failed: RetryFailed = False,
    drop_failed: DropFailed = False,
) -> None:
    """Split draft answers into claims with queries, for the query rewriter (SlimPLM).

    A reply is checked against the paper's rules; the teacher is asked once more where one is
    broken, and what is still wrong is left out, counted.
    """
    from ragweave.cli.label_run import follow, model, show_rewrite
    from ragweave.training.labels import LabelConfig, RewriteLabeler

    labeler = RewriteLabeler(
        teacher=model(teacher),
        teacher_spec=teacher or "",
        proxy=model(proxy),
        proxy_spec=proxy or "",
        draft=draft,
    )
    config = LabelConfig(
        concurrency=concurrency, retry_failed=retry_failed, drop_failed=drop_failed
    )
    show_rewrite(follow(source, labeler, out, config, limit=limit, skip_bad=skip_bad))


@app.command("filter")
def filter_(
    source: Source,
    out: Out,
    measure: Annotated[
        str, typer.Option(help="strinc, lexical, cxmi, or gold: human annotations of sentences.")
    ],
    kb: Annotated[
        Path | None,
        typer.Option("--kb", help="Knowledge base to search (the data set's passages)."),
    ] = None,
    passages: Annotated[int, typer.Option(help="Passages a question: 1 or 5 in the paper.")] = 1,
    order: Annotated[
        str,
        typer.Option(
            help="Of the data set's own passages: gold-first, given, or retrieved (by score)."
        ),
    ] = "gold-first",
    top: Annotated[str, typer.Option(help="Sentences kept: a number, or all that pass.")] = "1",
    threshold: Annotated[
        float | None, typer.Option(help="The paper's: lexical 0.5, cxmi 0 (a log-ratio).")
    ] = None,
    target: Annotated[
        str,
        typer.Option(help="What lexical compares with: answer, question, auto (claims: question)."),
    ] = "auto",
    scorer: Annotated[
        str | None, typer.Option(help="Model of cxmi: hf:NAME, llamacpp:PATH, openai:NAME?…")
    ] = None,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    concurrency: Concurrency = 4,
    retry_failed: RetryFailed = False,
    drop_failed: DropFailed = False,
) -> None:
    """Mark the sentences that help, for the context filter and the generator (FILCO)."""
    from ragweave.cli.label_run import follow, read_top, show_filter
    from ragweave.training.labels import LabelConfig, Passages, SilverLabeler, scorer_of_spec

    found = Passages(kb, passages, order)
    labeler = SilverLabeler(
        measure,
        found,
        scorer=scorer_of_spec(scorer) if scorer else None,
        scorer_spec=scorer or "",
        top=read_top(top),
        threshold=threshold,
        target=target,
    )
    config = LabelConfig(
        concurrency=concurrency, retry_failed=retry_failed, drop_failed=drop_failed
    )
    done = follow(source, labeler, out, config, limit=limit, skip_bad=skip_bad)
    show_filter(done, found.described["passages"])


@app.command("needed")
def needed(
    source: Annotated[
        Path,
        typer.Argument(help="JSON lines (.gz too) with question and needed, known, or a draft."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The training file to write.")],
    draft: Annotated[
        str | None,
        typer.Option(help="Field of the model's answer without retrieval; labels are made by it."),
    ] = None,
    gold: Annotated[str, typer.Option(help="Field of the gold answers.")] = "answers",
    theta: Annotated[
        float, typer.Option(help="Share of gold answers above which a draft counts as known.")
    ] = 0.5,
) -> None:
    """Label questions as needing retrieval or not, for skr_knn."""
    from ragweave.tools.neighbours import write_training

    done = write_training(source, out, draft=draft, gold=gold, theta=theta)
    typer.echo(f"{done.path}: {done.questions} questions, {done.needed} of them need retrieval")
    typer.echo(f"use it: ragweave ask … --method skr_knn --option training={done.path}", err=True)
