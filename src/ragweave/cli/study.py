"""`ragweave study`: the papers' studies, one command for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ragweave.cli import options

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NAMES = {
    "k": "Passages per query: 5, 10, 20.",
    "order": "The gold passage first, last, or where the search put it.",
    "samples": "Self-consistency samples: 1 to 50.",
    "sampling": "One answer under each top_p (0, 0.5, 1), and the best of them.",
    "blendfilter": "BlendFilter without each of its queries, and without its filter.",
    "slimplm": "SlimPLM without rewriting, without the question judge, without the claim filter.",
    "filco": "FILCO's measures as oracles, against whole passages.",
    "gate": "The uncertainty gate's ends, and the thresholds to set between them.",
    "retriever": "BM25, dense and hybrid retrieval; needs --kb with embeddings.",
}
"""The studies, listed here as well so that `--help` imports nothing heavy."""


@app.callback()
def root() -> None:
    """Run one of the papers' studies: its runs, table and plot. Resumes where it stopped."""


def _command(name: str) -> Callable[..., None]:
    def study(
        dataset: options.NeededDataset,
        out: options.NeededOut,
        methods: Annotated[
            str, typer.Option(help="Methods to compare (default: the paper's).")
        ] = "",
        values: Annotated[str, typer.Option(help="Values to try (default: the paper's).")] = "",
        model: options.Model = "extractive",
        proxy: options.Proxy = None,
        judge: options.Judge = None,
        rewriter: options.Rewriter = None,
        filter_model: options.FilterModel = None,
        kb: options.Kb = None,
        corpus: options.Corpus = "",
        rerank: options.Rerank = "",
        scorer: options.Scorer = "",
        limit: options.Limit = None,
        sample: options.Sample = None,
        seed: options.Seed = 0,
        option: options.OptionTexts = None,
        price: options.Prices = "",
        concurrency: options.Concurrency = 16,
        workers: options.Workers = 1,
        cache: options.Cache = None,
        budget_tokens: options.BudgetTokens = None,
        budget_usd: options.BudgetUsd = None,
        score: Annotated[
            str, typer.Option(help="Metric to plot (default: the data set's primary one).")
        ] = "",
    ) -> None:
        from ragweave.evaluation.runs import RunConfig

        models, texts = options.read_models(model, proxy, judge, rewriter, filter_model, option)
        _run(
            name,
            dataset,
            out,
            _words(methods),
            _words(values),
            config=RunConfig(
                concurrency=concurrency,
                cache=cache or out / "replies.sqlite",
                budget_tokens=budget_tokens,
                budget_usd=budget_usd,
            ),
            workers=workers,
            score=score,
            texts=texts,
            models=options.by_role(models),
            kb=kb,
            corpus=corpus,
            rerank=rerank,
            scorer=scorer,
            limit=limit,
            sample=sample,
            seed=seed,
            price=price,
        )

    study.__doc__ = NAMES[name]
    return study


for _name in NAMES:
    app.command(_name)(_command(_name))


def _run(
    name: str,
    dataset: str,
    out: Path,
    methods: list[str],
    values: list[str],
    *,
    config: Any,
    workers: int,
    score: str,
    texts: list[str],
    **settings: Any,
) -> None:
    from ragweave.cli.eval import conclude, follow, plan_run
    from ragweave.cli.screen import progress_console, show_tables
    from ragweave.evaluation.metrics import METRICS
    from ragweave.evaluation.report import can_plot, read_runs, tables_of, write_report
    from ragweave.evaluation.studies import STUDIES, plot_study, runs_of, values_of

    study, remarks = STUDIES[name], progress_console()
    if score:
        METRICS.named(score)
    values, left_out = values_of(study, values, settings["models"]["answer"], settings["scorer"])
    if left_out:
        remarks.print(left_out, markup=False, soft_wrap=True)
    directories = []
    for one in runs_of(study, methods, values):
        asked = {**settings, **one.settings}
        systems = options.with_options(one.systems, texts)
        directory = plan_run(out / one.folder, dataset, systems, texts=[], **asked)
        result = follow(directory, config, workers, resume=options.SAME_COMMAND)
        if not result.complete:
            conclude(directory, result, resume=options.SAME_COMMAND)
            return
        config = config.after(result.progress)
        directories.append(directory)
    experiments = {one.path.name: read_runs([one.path])[0] for one in directories}
    write_report(out / "report", list(experiments.values()))
    if can_plot():
        plot_study(out / "report" / "plots", study, experiments, score)
    for experiment in experiments.values():
        show_tables(tables_of(experiment))
    if name == "gate":
        from ragweave.cli.gates import gate_tables

        show_tables(gate_tables(directories[0], experiments, score))
    remarks.print(f"{study.summary} ({study.source})", markup=False, soft_wrap=True)
    remarks.print(f"wrote to {out / 'report'}", markup=False, soft_wrap=True)


def _words(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]
