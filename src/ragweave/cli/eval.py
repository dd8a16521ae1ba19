"""`ragweave eval`: a data set, several methods, a durable run and its report. `ragweave report`: the report alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import options, runs
from ragweave.errors import UsageError

if TYPE_CHECKING:
    from ragweave.evaluation import Settings, Summary


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
    prompts: Annotated[str, typer.Option(help="Compare prompts of one method: YAML files, with commas.")] = "",
    model: runs.Model = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.  [default: runs/DATA]")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder with its own settings.")] = None,
    k: options.K = None,
    option: options.Option = None,
    kb: runs.Kb = "",
    corpus: Annotated[str, typer.Option(help="Search own passages of each question, the file's, or the kb.")] = "",
    passages: Annotated[str, typer.Option(help="searched, or given: each question's own, unsearched.")] = "searched",
    retriever: Annotated[str, typer.Option(help="auto, bm25, dense, hybrid or graph (of a file: bm25).")] = "auto",
    rerank: Annotated[str, typer.Option(help="Reranker of what is found.")] = "",
    second_retriever: Annotated[str, typer.Option(help="Where crag searches a second time.")] = "",
    gold: Annotated[str, typer.Option(help="Gold passages: as_found, with (add one), without (remove).")] = "as_found",
    metrics: Annotated[str, typer.Option(help="Metrics, with commas.  [default: all that need no judge]")] = "",
    limit: runs.Limit = None,
    sample: Annotated[int | None, typer.Option(help="Draw N of them at random (see --seed).")] = None,
    seed: int = 0,
    price: runs.Price = None,
    max_calls: runs.MaxCalls = None,
    max_cost: runs.MaxCost = None,
    concurrency: runs.Concurrency = 16,
    shard: runs.Shard = "",
    ray: runs.Ray = None,
    cache: runs.Cache = None,
) -> None:
    """Answer the questions of a data set by several methods, and score the answers.

    Each answer is saved at once. If a run is interrupted, the same command resumes it and pays for no call twice.
    """
    from ragweave.evaluation import ROLES, Settings
    from ragweave.graphs.specs import read_pairs, split_systems

    settings: Settings
    if sum(one is not None for one in (data, synthetic, resume)) != 1:
        raise UsageError("name one of these: a data set, --synthetic N, or --resume RUN")
    if resume is not None:
        settings, folder = resumed(resume), resume
        settings = replace(settings, prices=runs.prices_of(price)) if price else settings
    else:
        kb = kb or (options.DEFAULT_KB if synthetic else "")
        place = data.partition("?")[0].rpartition(":")[2] if data else f"synthetic-{Path(kb).name}"
        folder = out or Path("runs") / Path(place).name.partition(".")[0]
        systems, wordings = split_systems(methods), read_prompts(prompts)
        if wordings and len(systems) > 1:
            raise UsageError("--prompts compares wordings of one method: give one with --methods")
        settings = Settings(
            data=data or f"jsonl:{folder / 'questions.jsonl'}",
            systems=tuple(systems * (1 + len(wordings))),
            names=(*systems, *wordings) if wordings else (),
            prompts=wordings,
            models={"answer": "extractive", **options.models_of(model, ROLES)},
            options={**read_pairs(option or ()), **({} if k is None else {"k": str(k)})},
            passages=passages,
            corpus=corpus,
            kb=kb,
            retriever=retriever,
            rerank=rerank,
            second_retriever=second_retriever,
            gold=gold,
            metrics=tuple(one.strip() for one in metrics.split(",") if one.strip()),
            limit=limit,
            sample=sample,
            seed=seed,
            prices=runs.prices_of(price),
        )
    more: dict[str, Any] = {"calls": max_calls, "dollars": max_cost, "concurrency": concurrency, "cache": cache}
    if synthetic:
        more |= write(settings, synthetic, folder, **more)
    runs.finish(*run(settings, folder, shard=shard, ray=ray, **more))


def write(settings: Settings, count: int, folder: Path, **more: Any) -> dict[str, Any]:
    """Write questions, say what came of it, and return what is left of the budget."""
    from ragweave.evaluation.synthetic import FILE, write_questions

    summary, refused = write_questions(settings, count, folder, **more)
    written = len((folder / FILE).read_text("utf-8").splitlines())
    typer.echo(f"{folder / FILE}: {written} questions; {summary.calls} calls", err=True)
    for why, number in refused.items():
        typer.echo(f"  {number} refused: {why}", err=True)
    if summary.exit_code or not written:
        runs.end(summary if summary.exit_code else replace(summary, stopped="the model wrote no usable question"))
    spent = {"calls": summary.calls, "dollars": summary.dollars or 0.0}
    return {name: more[name] - cost for name, cost in spent.items() if more[name] is not None}


def read_prompts(files: str) -> dict[str, dict[str, Any]]:
    """Return the prompts of YAML files, separated by commas, by the files' names."""
    import yaml

    found = {}
    for path in (Path(one.strip()) for one in files.split(",") if one.strip()):
        try:
            texts = yaml.safe_load(path.read_text("utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise UsageError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
        if not isinstance(texts, dict) or not texts:
            raise UsageError(f"{path}: must map names of prompts to texts, such as concat: 'Answer {{question}}'")
        found[path.stem] = texts
    return found


def run(
    settings: Settings, folder: Path, *, ray: str | None = None, shard: str = "", **more: Any
) -> tuple[Summary, Path]:
    """Run here or on a cluster, and return how it ended and the folder of the results."""
    from ragweave.evaluation import evaluate
    from ragweave.evaluation.folder import shard_folder

    budget = {name: more.pop(name) for name in ("calls", "dollars")}
    work = partial(evaluate, settings, folder.resolve(), **more)
    return runs.sharded(work, folder, ray=ray, shard=shard, **budget), shard_folder(folder, shard)


def resumed(folder: Path) -> Settings:
    """Return the settings that a run began with; raise `UsageError` if its models need keys, which are not stored."""
    from ragweave.evaluation import Settings
    from ragweave.evaluation.folder import read_settings, shards

    plain = read_settings(shards(folder)[0])
    if "***" in str(plain.get("models")):
        raise UsageError(f"{folder}: keys are not stored; repeat the command that began the run")
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in plain.items()}
    return Settings(**{name: one for name, one in values.items() if name not in ("version", "own_metrics")})


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folder of a run. Several runs are compared.")],
    main: Annotated[str, typer.Option(help="Metric to compare the systems by.")] = "",
    langsmith: Annotated[bool, typer.Option("--langsmith", help="Write a run on langsmith:NAME there, too.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write.  [default: the first run]")] = None,
) -> None:
    """Show a run as a table, and write report.md, report.csv and report.html."""
    from ragweave.evaluation.report import read_report, show, write

    found = read_report(folders, main)
    show(found)
    folder = out or folders[0]
    folder.mkdir(parents=True, exist_ok=True)
    typer.echo(f"wrote {', '.join(map(str, write(found, folder)))}", err=True)
    if langsmith:
        from ragweave.evaluation.langsmith import write_experiments

        names = [name for one in folders for name in write_experiments(one)]
        typer.echo(f"wrote to LangSmith: {', '.join(names)}", err=True)
