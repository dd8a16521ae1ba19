"""`ragweave study`: the papers' studies, one command each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ragweave.cli import eval as eval_

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NAMES = {
    "k": "Passages a query: 5, 10, 20.",
    "order": "The gold passage first, last, or where it was found.",
    "samples": "Self-consistency samples: 1 to 50.",
    "sampling": "One answer under each top_p (0, 0.5, 1), and the best of them.",
    "blendfilter": "BlendFilter without each query, and without its filter.",
    "slimplm": "SlimPLM without rewriting, question judge, claim filter.",
    "filco": "FILCO's measures as oracles, and whole passages.",
    "retriever": "BM25, dense and hybrid retrieval; needs --kb with embeddings.",
}
"""The studies; named here too, so that `--help` imports nothing heavy."""


@app.callback()
def root() -> None:
    """Run one of the papers' studies: its runs, its table, its plot. Resumes where it stopped."""


def _command(name: str) -> Callable[..., None]:
    def study(
        dataset: Annotated[str, typer.Argument(help="NAME:FILE, as for `ragweave eval`.")],
        out: Annotated[Path, typer.Option("--out", help="Directory of the study.")],
        methods: Annotated[str, typer.Option(help="Methods (the paper's).")] = "",
        values: Annotated[str, typer.Option(help="Values to try (the paper's).")] = "",
        model: eval_.Model = "extractive",
        proxy: eval_.Proxy = None,
        judge: eval_.Judge = None,
        rewriter: eval_.Rewriter = None,
        filter_model: eval_.FilterModel = None,
        kb: eval_.Kb = None,
        corpus: eval_.Corpus = "",
        rerank: eval_.Rerank = "",
        scorer: eval_.Scorer = "",
        limit: eval_.Limit = None,
        sample: eval_.Sample = None,
        seed: eval_.Seed = 0,
        option: eval_.OptionTexts = None,
        price: eval_.Prices = "",
        concurrency: eval_.Concurrency = 16,
        workers: eval_.Workers = 1,
        cache: eval_.Cache = None,
        budget_tokens: eval_.BudgetTokens = None,
        budget_usd: eval_.BudgetUsd = None,
        score: Annotated[str, typer.Option(help="Score to draw (the data set's first).")] = "",
    ) -> None:
        from ragweave.cli.roles import by_role, with_named
        from ragweave.evaluation.runs import RunConfig

        roles = {"proxy": proxy, "judge": judge, "rewriter": rewriter, "filter_model": filter_model}
        models, texts = with_named({"model": model, **roles}, option or [])
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
            models=by_role(models),
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
    from ragweave.cli.eval_run import conclude, follow, planned, show_tables, with_options
    from ragweave.cli.screen import progress_console
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
        systems = with_options(one.systems, texts)
        directory = planned(out / one.folder, dataset, systems, texts=[], **asked)
        result = follow(directory, config, workers)
        if not result.complete:
            conclude(directory, result)
            return
        directories.append(directory)
    experiments = {one.path.name: read_runs([one.path])[0] for one in directories}
    for experiment in experiments.values():
        show_tables(tables_of(experiment))
    files = write_report(out / "report", list(experiments.values()))
    if can_plot():
        files += plot_study(out / "report" / "plots", study, experiments, score)
    remarks.print(f"{study.summary} ({study.source})", markup=False, soft_wrap=True)
    remarks.print(f"written to {out / 'report'}", markup=False, soft_wrap=True)


def _words(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]
