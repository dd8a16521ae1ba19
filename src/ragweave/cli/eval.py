"""`ragweave eval`: a data set, several methods, a durable run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragweave.errors import UsageError

METHODS = "direct,concat,concat_pf"

Dataset = Annotated[
    str | None,
    typer.Argument(help="NAME:FILE (hotpotqa:dev.json), a file alone, or hf:NAME."),
]
Out = Annotated[Path | None, typer.Option("--out", help="Directory of the run.")]
Methods = Annotated[
    str,
    typer.Option("--methods", help="direct,concat[k=10],blendfilter[queries=question+internal]"),
]
Model = Annotated[
    str,
    typer.Option(
        help="extractive, openai:NAME, llamacpp:PATH, provider:NAME, or a trained part's folder; "
        "settings: ?"
    ),
]
Proxy = Annotated[str | None, typer.Option(help="Model that drafts answers.")]
Judge = Annotated[str | None, typer.Option(help="Model that judges what is known.")]
Rewriter = Annotated[str | None, typer.Option(help="Model that rewrites queries.")]
FilterModel = Annotated[str | None, typer.Option(help="Model that filters passages.")]
Kb = Annotated[Path | None, typer.Option("--kb", help="Knowledge base to search.")]
Corpus = Annotated[
    str,
    typer.Option(
        help="Without --kb, searched: file (all its passages), given (each question's own), none."
    ),
]
Passages = Annotated[
    str,
    typer.Option(help="searched, or given: hand each question's own to every method, unsearched."),
]
Gold = Annotated[
    str, typer.Option(help="Gold passages: as_found, marked, with (put in), without (taken out).")
]
DropAnswered = Annotated[
    Path | None,
    typer.Option(
        "--drop-answered",
        help="An earlier run with direct in it: leave out what that answered right.",
    ),
]
Oracle = Annotated[
    bool, typer.Option("--oracle", help="Hand methods the gold answers (FILCO's SILVER).")
]
Retriever = Annotated[str, typer.Option(help="auto, bm25, dense or hybrid.")]
Rerank = Annotated[
    str, typer.Option(help="Cross-encoder, by local path or hub name; or bi-encoder:NAME (E5).")
]
Scorer = Annotated[
    str, typer.Option(help="What scores outputs for CXMI: hf:NAME, llamacpp:PATH, openai:NAME?…")
]
Metrics = Annotated[
    str, typer.Option(help="What to compute, em,f1,my_metric; empty: all of ours that apply.")
]
Limit = Annotated[int | None, typer.Option(help="Only the first so many questions.")]
Sample = Annotated[int | None, typer.Option(help="Only so many questions, drawn with --seed.")]
Seed = Annotated[int, typer.Option(help="Seed of samples and of gold passages' places.")]
Shard = Annotated[str, typer.Option(help="i/n: every n-th question, from the i-th.")]
Concurrency = Annotated[int, typer.Option(help="Questions × methods in flight at once.")]
Workers = Annotated[
    int, typer.Option(help="Processes that part the questions and --concurrency: one a core.")
]
Cache = Annotated[Path | None, typer.Option(help="SQLite file of replies that runs share.")]
BudgetTokens = Annotated[int | None, typer.Option(help="Begin no question past so many tokens.")]
BudgetUsd = Annotated[float | None, typer.Option(help="Begin no question past so many dollars.")]
Prices = Annotated[
    str, typer.Option("--price", help="INPUT,OUTPUT dollars a million tokens, or a JSON file.")
]
OptionTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="name=value for each method that has it, or judge=, rewriter=, generator=, filter= "
        "with a trained part's folder; repeatable.",
    ),
]
K = Annotated[int | None, typer.Option("-k", "--k", help="Passages a query.")]


def evaluate(
    dataset: Dataset = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Go on with the run in this directory.")
    ] = None,
    methods: Methods = METHODS,
    model: Model = "extractive",
    proxy: Proxy = None,
    judge: Judge = None,
    rewriter: Rewriter = None,
    filter_model: FilterModel = None,
    out: Out = None,
    kb: Kb = None,
    corpus: Corpus = "",
    passages: Passages = "searched",
    gold: Gold = "as_found",
    drop_answered: DropAnswered = None,
    oracle: Oracle = False,
    retriever: Retriever = "auto",
    rerank: Rerank = "",
    scorer: Scorer = "",
    metrics: Metrics = "",
    k: K = None,
    option: OptionTexts = None,
    limit: Limit = None,
    sample: Sample = None,
    seed: Seed = 0,
    shard: Shard = "1/1",
    price: Prices = "",
    concurrency: Concurrency = 16,
    workers: Workers = 1,
    cache: Cache = None,
    budget_tokens: BudgetTokens = None,
    budget_usd: BudgetUsd = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try failed questions again.")
    ] = False,
) -> None:
    """Answer a data set's questions with several methods, durably.

    Every finished question is on the disk at once; a run that was stopped, killed or cut off goes
    on with --resume, and pays for no call twice.
    """
    from ragweave.cli.eval_run import conclude, follow, opened, planned
    from ragweave.cli.roles import by_role, with_named
    from ragweave.evaluation.runs import RunConfig

    config = RunConfig(
        concurrency=concurrency,
        cache=cache,
        budget_tokens=budget_tokens,
        budget_usd=budget_usd,
        retry_failed=retry_failed,
    )
    if resume is not None:
        if dataset is not None or out is not None:
            raise UsageError("--resume takes its settings from the run: give no data set, no --out")
        directory = opened(resume)
    else:
        if dataset is None or out is None:
            raise UsageError("give a data set and --out DIR, or --resume DIR")
        roles = {"proxy": proxy, "judge": judge, "rewriter": rewriter, "filter_model": filter_model}
        models, texts = with_named({"model": model, **roles}, option or [])
        directory = planned(
            out,
            dataset,
            methods,
            models=by_role(models),
            texts=[*texts, *([f"k={k}"] if k is not None else [])],
            kb=kb,
            corpus=corpus,
            passages=passages,
            gold=gold,
            drop_answered=drop_answered,
            oracle=oracle,
            retriever=retriever,
            rerank=rerank,
            scorer=scorer,
            metrics=[one.strip() for one in metrics.split(",") if one.strip()],
            limit=limit,
            sample=sample,
            seed=seed,
            shard=shard,
            price=price,
        )
    conclude(directory, follow(directory, config, workers))
