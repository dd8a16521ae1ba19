"""`ragweave eval`, `report` and `reproduce`: resumable runs of several methods and their reports.

`ragweave label` (`train.py`) takes the options of runs too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options
from ragweave.cli.screen import console, table_of
from ragweave.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from ragweave.evaluation import EvalSettings, Summary
    from ragweave.evaluation.reproduce import Paper, Plan

Model = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="[ROLE=]SPEC",
        help="openai:NAME, llamacpp:FILE, PROVIDER:NAME, or a trained component's folder. Repeatable.",
    ),
]
Price = Annotated[
    list[str] | None, typer.Option("--price", help="[ROLE=]INPUT,OUTPUT in US dollars per million tokens. Repeatable.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Use only the first N questions.")]
Concurrency = Annotated[int, typer.Option(help="Questions in flight at once.")]
MaxCalls = Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop the run after N model calls.")]
MaxCost = Annotated[float | None, typer.Option(metavar="USD", help="Stop the run after this many US dollars.")]
Shard = Annotated[str, typer.Option(help="I/N: use every N-th question, starting with the I-th.")]
Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="[ADDRESS]", help="Run shards on Ray: auto, HOST:PORT; alone: this machine."),
]


def prices_of(texts: Iterable[str] | None) -> dict[str, tuple[float, float]]:
    """Return prices by role, with `*` for all others; raise `UsageError` unless each is a pair of amounts for a role."""
    from ragweave.evaluation import EVAL_ROLES

    prices = {}
    for text in texts or ():
        role, equals, pair = text.rpartition("=")
        try:
            read, written = map(float, pair.split(","))
        except ValueError:
            read = written = math.nan
        if not (0 <= read < math.inf and 0 <= written < math.inf):
            raise UsageError(f"--price must be INPUT,OUTPUT, such as 0.15,0.60, not {pair!r}")
        role = role if equals else "*"
        if role not in ("*", *EVAL_ROLES):
            raise UsageError(f"--price {text}: no role {role!r}: {did_you_mean(role, EVAL_ROLES)}")
        prices[role] = (read, written)
    return prices


def sharded(work: Callable[..., Summary], folder: Path, *, ray: str | None, shard: str, **limits: Any) -> Summary:
    """Run work here, or as shards on a cluster if `ray` is its address, and print what changed in the data."""
    from ragweave.evaluation.on_ray import run_on_ray

    if ray is not None and shard:
        raise UsageError("--ray makes the shards itself: omit --shard")
    summary = work(shard=shard, **limits) if ray is None else run_on_ray(work, folder, address=ray, **limits)
    if summary.rescored or summary.asked_again or summary.gone:
        changes = f"{summary.rescored} rescored, {summary.asked_again} asked again, {summary.gone} gone"
        typer.echo(f"{folder}: the data or the knowledge base changed: {changes}", err=True)
    return summary


def end(summary: Summary) -> None:
    """Print why a run ended early, and exit with its code."""
    if summary.stopped:
        typer.echo(f"stopped: {summary.stopped}", err=True)
    raise typer.Exit(summary.exit_code)


def evaluate(
    data: Annotated[
        str | None, typer.Argument(help="NAME:FILE (hotpotqa:dev.json), FILE, hf:NAME, beir:FOLDER.")
    ] = None,
    synthetic: Annotated[
        int | None, typer.Option(help="Instead of DATA: write this many questions about --kb.")
    ] = None,
    methods: Annotated[
        str,
        typer.Option(help="Methods to compare, such as direct,concat[k=10],blendfilter[queries=question+internal]."),
    ] = "direct,concat,concat_pf",
    prompts: Annotated[str, typer.Option(help="Prompts to compare: YAML files, separated by commas.")] = "",
    model: Model = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.  [default: runs/DATA]")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder with its own settings.")] = None,
    k: options.K = None,
    option: options.Option = None,
    kb: options.Kb = "",
    corpus: Annotated[str, typer.Option(help="What to search: own (each question's passages), file or kb.")] = "",
    passages: Annotated[str, typer.Option(help="searched, or given: each question's own passages.")] = "searched",
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    prefer: options.Prefer = "",
    second_retriever: options.SecondRetriever = "",
    gold: Annotated[str, typer.Option(help="Gold passages: as_found, with (add one), without (remove).")] = "as_found",
    metrics: Annotated[str, typer.Option(help="Metrics, separated by commas.  [default: all that need no judge]")] = "",
    limit: Limit = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Use N random questions (see --seed).")] = None,
    seed: int = 0,
    price: Price = None,
    max_calls: MaxCalls = None,
    max_cost: MaxCost = None,
    concurrency: Concurrency = 16,
    shard: Shard = "",
    ray: Ray = None,
    cache: options.Cache = None,
) -> None:
    """Answer the questions of a data set by several methods, and score the answers.

    Each answer is saved at once. If a run is interrupted, the same command resumes it and pays for no call twice.
    """
    from ragweave.evaluation import EVAL_ROLES, EvalSettings, Limits
    from ragweave.graphs.specs import is_choice, read_pairs, read_system, split_systems

    settings: EvalSettings
    if sum(source is not None for source in (data, synthetic, resume)) != 1:
        raise UsageError("name one of these: a data set, --synthetic N, or --resume RUN")
    if resume is not None:
        settings, folder = _resumed(resume), resume
        settings = replace(settings, prices=prices_of(price)) if price else settings
    else:
        kb = kb or (options.DEFAULT_KB if synthetic else "")
        place = data.partition("?")[0].rpartition(":")[2] if data else f"synthetic-{Path(kb).name}"
        folder = out or Path("runs") / Path(place).name.partition(".")[0]
        systems, wordings = split_systems(methods), read_prompts(prompts)
        choice = next((read_system(spec) for spec in systems if is_choice(spec)), None)
        kb = kb or (choice.kb if choice else "")
        if wordings and len(systems) > 1:
            raise UsageError("--prompts compares wordings of one method: name one with --methods")
        settings = EvalSettings(
            data=data or f"jsonl:{folder / 'questions.jsonl'}",
            systems=tuple(systems * (1 + len(wordings))),
            names=(*systems, *wordings) if wordings else (),
            prompts=wordings,
            models={
                "generator": "extractive",
                **(choice.models if choice else {}),
                **options.models_of(model, EVAL_ROLES),
            },
            options={**read_pairs(option or ()), **({} if k is None else {"k": str(k)})},
            passages=passages,
            corpus=corpus,
            kb=kb,
            retriever=retriever,
            rerank=rerank,
            prefer=prefer,
            second_retriever=second_retriever,
            gold=gold,
            metrics=tuple(name.strip() for name in metrics.split(",") if name.strip()),
            limit=limit,
            sample=sample,
            seed=seed,
            prices=prices_of(price),
        )
    limits = Limits(max_calls=max_calls, max_cost_usd=max_cost)
    more: dict[str, Any] = {"limits": limits, "concurrency": concurrency, "cache": cache}
    if synthetic:
        more |= write_questions(settings, synthetic, folder, **more)
    end(_run(settings, folder, shard=shard, ray=ray, **more))


def write_questions(settings: EvalSettings, count: int, folder: Path, **more: Any) -> dict[str, Any]:
    """Write questions, print a summary, and return what is left of the budget."""
    from ragweave.evaluation import synthetic

    summary, refused = synthetic.write_questions(settings, count, folder, **more)
    written = len((folder / synthetic.FILE).read_text("utf-8").splitlines())
    typer.echo(f"{folder / synthetic.FILE}: {written} questions; {summary.calls} calls", err=True)
    for why, number in refused.items():
        typer.echo(f"  {number} refused: {why}", err=True)
    if summary.exit_code or not written:
        end(summary if summary.exit_code else replace(summary, stopped="the model wrote no usable question"))
    return {"limits": more["limits"].less(summary.calls, summary.tokens, summary.dollars or 0.0)}


def read_prompts(files: str) -> dict[str, dict[str, Any]]:
    """Return the prompts of YAML files, which are separated by commas, by file name."""
    from ragweave.tools.files import read_yaml

    prompts = {}
    for path in (Path(file.strip()) for file in files.split(",") if file.strip()):
        texts = read_yaml(path)
        if not isinstance(texts, dict) or not texts:
            raise UsageError(f"{path}: must map names of prompts to texts, such as concat: 'Answer {{question}}'")
        prompts[path.stem] = texts
    return prompts


def _run(
    settings: EvalSettings,
    folder: Path,
    *,
    ray: str | None = None,
    shard: str = "",
    paper: Paper | None = None,
    **more: Any,
) -> Summary:
    """Run here or on a cluster, show and write the report, and print the cost."""
    from ragweave.evaluation import evaluate
    from ragweave.evaluation.folder import read_results, shard_folder

    limits = more.pop("limits")
    work = partial(evaluate, settings, folder.resolve(), **more)
    summary = sharded(work, folder, ray=ray, shard=shard, limits=limits)
    folder = shard_folder(folder, shard)
    if paper:
        paper.write(folder)
    if next(read_results(folder), None) is not None:
        _report([folder], "", folder)
    dollars = f", ${summary.dollars:.4f}" if summary.dollars else ""
    done = f"{summary.answered} answered" + (f", {summary.skipped} before" if summary.skipped else "")
    typer.echo(f"{folder}: {done}, {summary.failed} failed; {summary.calls} calls{dollars}", err=True)
    return summary


def _resumed(folder: Path) -> EvalSettings:
    """Return the settings of a run; raise `UsageError` if its models need keys, which are not stored."""
    from ragweave.evaluation import EvalSettings
    from ragweave.evaluation.folder import read_settings, shards

    plain = read_settings(shards(folder)[0])
    if "***" in str(plain.get("models")):
        raise UsageError(f"{folder}: keys are not stored; repeat the command that began the run")
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
    return EvalSettings(**{name: value for name, value in values.items() if name not in ("version", "own_metrics")})


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folder of a run. Several runs are compared.")],
    main: Annotated[str, typer.Option(help="Metric to compare the systems by.")] = "",
    langsmith: Annotated[bool, typer.Option("--langsmith", help="Write the scores to LangSmith, too.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write.  [default: the first run]")] = None,
) -> None:
    """Show a run as a table, and write report.md, report.csv and report.html."""
    written = _report(folders, main, out or folders[0])
    typer.echo(f"wrote {', '.join(map(str, written))}", err=True)
    if langsmith:
        from ragweave.evaluation.langsmith import write_experiments

        names = [name for folder in folders for name in write_experiments(folder)]
        typer.echo(f"wrote to LangSmith: {', '.join(names)}", err=True)


def _report(folders: list[Path], main: str, out: Path) -> list[Path]:
    """Show a report, write its files, and return their paths."""
    from ragweave.evaluation import read_report, write
    from ragweave.evaluation.layout import show

    run_report = read_report(folders, main)
    show(run_report)
    return write(run_report, out)


def reproduce(
    paper: Annotated[str, typer.Argument(help="blendfilter, slimplm, filco, post-fusion or hipporag2.")] = "",
    table: Annotated[str, typer.Argument(help="The table, such as 1, table2, figure3 or '1 with gold'.")] = "",
    data: Annotated[str | None, typer.Argument(help="NAME:FILE of one of its data sets.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--data", help="Folder with the data sets that the paper publishes (hipporag2).")
    ] = None,
    model: Model = None,
    paper_model: Annotated[str, typer.Option(help="The paper's model whose numbers are shown.")] = "",
    show_plan: Annotated[bool, typer.Option("--plan", help="Print what each row would run, and what differs.")] = False,
    row: Annotated[str, typer.Option(help="Run only the rows whose label contains this.")] = "",
    filter_: Annotated[
        list[str] | None, typer.Option("--filter", help="[ROW=]FOLDER of a trained filter (FILCO). Repeatable.")
    ] = None,
    option: options.Option = None,
    kb: options.Kb = "",
    retriever: options.Retriever = "auto",
    rerank: options.Rerank = "",
    drop_answered: Annotated[
        str, typer.Option(metavar="RUN", help="Leave out the questions that RUN answered correctly.")
    ] = "",
    limit: Limit = None,
    price: Price = None,
    max_calls: MaxCalls = None,
    max_cost: MaxCost = None,
    concurrency: Concurrency = 16,
    cache: options.Cache = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.  [default: runs/PAPER-TABLE-DATA]")] = None,
) -> None:
    """Evaluate the rows of a paper's table. Without a data set, list the tables."""
    from ragweave.datasets import open_dataset
    from ragweave.evaluation import EVAL_ROLES, Limits
    from ragweave.evaluation import reproduce as papers
    from ragweave.evaluation.evaluate import SCORER
    from ragweave.graphs.specs import read_pairs

    filters = {name: folder for name, _, folder in (text.rpartition("=") for text in filter_ or ())}
    models = options.models_of(model, EVAL_ROLES)
    if folder and data:
        raise UsageError("name a data set or --data, not both")
    table = table or (papers.tables(paper)[0].name if folder else "")
    sets = papers.table_of(paper, table).published(folder) if folder else [data] if data else []
    if not sets and not (show_plan and table):
        _list_tables(paper, table)
        return
    names = [open_dataset(spec).name for spec in sets] or papers.table_of(paper, table).datasets[:1]
    plans = [
        papers.plan(paper, table, name, model=paper_model, only=row, filters=filters, scorer=SCORER in models)
        for name in names
    ]
    if show_plan:
        for plan in plans:
            _show_plan(plan)
        return
    limits = Limits(max_calls=max_calls, max_cost_usd=max_cost)
    more: dict[str, Any] = {"limits": limits, "concurrency": concurrency, "cache": cache}
    for spec, name, plan in zip(sets, names, plans, strict=True):
        settings = replace(
            plan.settings,
            data=spec,
            models={**plan.settings.models, **models},
            options=read_pairs(option or ()),
            kb=kb,
            corpus="" if kb else plan.settings.corpus,
            retriever=plan.settings.retriever if kb and retriever == "auto" else retriever,
            rerank=rerank,
            limit=limit,
            drop_answered=drop_answered,
            prices=prices_of(price),
        )
        place = out / name if out and folder else out
        default = Path("runs") / f"{paper}-{table}-{name}".replace(" ", "")
        summary = _run(settings, place or default, paper=plan.paper, **more)
        if summary.exit_code:
            end(summary)


def _show_plan(plan: Plan) -> None:
    """Print each row's system, or why it is not run, and the differences from the paper."""
    typer.echo(plan.paper.title)
    skipped = ((label, f"not run: {reason}") for label, reason in plan.paper.empty.items())
    console().print(
        table_of(["Row", "Runs"], [*zip(plan.settings.names, plan.settings.systems, strict=True), *skipped])
    )
    for note in plan.paper.notes:
        typer.echo(f"- {note}")


def _list_tables(paper: str, table: str) -> None:
    from ragweave.evaluation import reproduce as papers

    if paper:
        papers.tables(paper)  # raises if there is no such paper
    name = papers.table_of(paper, table).name if table else ""
    shown = [row for row in papers.listing() if paper in ("", row[0]) and name in ("", row[1])]
    console().print(table_of(["Paper", "Table", "Shows", "Data sets"], shown))
