"""`ragweave tune`: choose method, search and prompts for your questions, and confirm the choice on others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragweave.cli import options
from ragweave.cli.runs import (
    Concurrency,
    Limit,
    MaxCalls,
    MaxCost,
    Model,
    Price,
    end,
    prices_of,
    read_prompts,
    write_questions,
)
from ragweave.cli.screen import console, table_of
from ragweave.errors import UsageError


def tune(
    questions: Annotated[
        str | None, typer.Argument(help="A data set: FILE, NAME:FILE, langsmith:NAME, or the app's feedback.jsonl.")
    ] = None,
    synthetic: Annotated[int | None, typer.Option(help="Instead of QUESTIONS: write this many about --kb.")] = None,
    kb: options.Kb = options.DEFAULT_KB,
    model: Model = None,
    objective: Annotated[
        str, typer.Option(help="What counts: a metric, such as f1 or contains, or judge:METRIC.  [default: by kind]")
    ] = "",
    within: Annotated[
        float | None, typer.Option(min=0, help="Choose the cheapest that loses no more than this many points.")
    ] = None,
    incumbent: Annotated[
        str, typer.Option(help="What stays unless another wins: a method or an earlier choice.yaml.")
    ] = options.DEFAULT_METHOD,
    methods: Annotated[str, typer.Option(help="Methods to compare.  [default: a few that suit the questions]")] = "",
    rerank: Annotated[str, typer.Option(help="Rerankers to try, separated by commas.")] = "",
    chunkers: Annotated[str, typer.Option(help="Chunkers to try, each in a knowledge base of its own.")] = "",
    prompts: Annotated[
        str, typer.Option(help="Prompts to try: YAML files, separated by commas, or auto: gepa writes them.")
    ] = "",
    limit: Limit = None,
    price: Price = None,
    max_calls: MaxCalls = None,
    max_cost: MaxCost = None,
    concurrency: Concurrency = 16,
    out: Annotated[Path, typer.Option(help="The run's folder, which remembers the questions used up.")] = Path(
        "runs/tune"
    ),
) -> None:
    """Choose method, search and prompts by a third of your questions, and test the choice once on the others.

    Writes choice.yaml, which ask, chat, serve, eval and build_graph take as a method, and report.html. If it is
    interrupted, the same command resumes it and pays for no call twice.
    """
    from ragweave.evaluation import EVAL_ROLES, EvalSettings, Limits
    from ragweave.evaluation.layout import arm_cells, gain_cells, lost_cells, write_tuned
    from ragweave.evaluation.race import Goal
    from ragweave.evaluation.tune import Ended, sentence
    from ragweave.evaluation.tune import tune as run_tune
    from ragweave.graphs.specs import is_choice, read_system, split_systems

    if (questions is None) == (synthetic is None):
        raise UsageError("name one of these: a file of questions, or --synthetic N")
    earlier = read_system(incumbent) if is_choice(incumbent) else None
    settings = EvalSettings(
        data=questions or f"jsonl:{out / 'questions.jsonl'}",
        systems=tuple(split_systems(methods)),
        models={
            "generator": "extractive",
            **(earlier.models if earlier else {}),
            **options.models_of(model, EVAL_ROLES),
        },
        prompts={} if prompts == "auto" else read_prompts(prompts),
        kb=earlier.kb if earlier and earlier.kb and kb == options.DEFAULT_KB else kb,
        limit=limit,
        prices=prices_of(price),
    )
    rewrite: Any = None
    if prompts == "auto":
        from ragweave.evaluation import prompts as by_gepa

        rewrite, (_, warning) = by_gepa.rewrite, by_gepa.reflector_of(settings.models)
        typer.echo(warning, err=True, nl=bool(warning))
    limits = Limits(max_calls=max_calls, max_cost_usd=max_cost)
    if synthetic:
        limits = write_questions(settings, synthetic, out, limits=limits, concurrency=concurrency)["limits"]
    try:
        outcome = run_tune(
            settings,
            out,
            incumbent=incumbent,
            goal=Goal(None if within is None else within / 100),
            target=objective,
            limits=limits,
            rerankers=split_systems(rerank),
            chunkers=split_systems(chunkers),
            rewrite=rewrite,
            concurrency=concurrency,
            say=lambda line: typer.echo(line, err=True),
        )
    except Ended as ended:
        end(ended.summary)
    else:
        page = write_tuned(outcome)
        tables = [arm_cells(outcome), *[gain_cells(outcome)] * (outcome.finalist != outcome.incumbent)]
        for table in [*tables, *[lost_cells(outcome.lost)] * bool(outcome.lost)]:
            console().print(table_of(*table))
        typer.echo(sentence(outcome))
        typer.echo(f"wrote {outcome.choice} and {page}", err=True)
