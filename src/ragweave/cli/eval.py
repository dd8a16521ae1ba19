"""`ragweave eval`: a data set, several methods, a durable run and its report."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragweave.cli import runs
from ragweave.errors import UsageError

if TYPE_CHECKING:
    from ragweave.evaluation import Settings


def evaluate(
    data: Annotated[
        str | None, typer.Argument(help="NAME:FILE (hotpotqa:dev.json), a file, hf:NAME, beir:FOLDER.")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Methods, such as direct,concat[k=10],blendfilter[queries=question+internal].")
    ] = "direct,concat,concat_pf",
    model: runs.Model = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.  [default: runs/DATA]")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder, as it was.")] = None,
    k: Annotated[int | None, typer.Option("-k", help="Passages a query.")] = None,
    option: runs.Option = None,
    kb: runs.Kb = "",
    corpus: Annotated[str, typer.Option(help="What is searched: a question's own passages, the file's, or kb.")] = "",
    passages: Annotated[
        str, typer.Option(help="searched, or given: each question's own, without a search.")
    ] = "searched",
    retriever: Annotated[str, typer.Option(help="auto, bm25, dense or hybrid.")] = "auto",
    rerank: Annotated[str, typer.Option(help="Reranker of the knowledge base's passages.")] = "",
    second_retriever: Annotated[str, typer.Option(help="Where crag searches again.")] = "",
    gold: Annotated[str, typer.Option(help="Gold passages: as_found, with (one put in), without.")] = "as_found",
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Context filters see the right answers (FILCO's SILVER).")
    ] = False,
    drop_answered: Annotated[str, typer.Option(metavar="RUN", help="Leave out what that run answered right.")] = "",
    metrics: Annotated[str, typer.Option(help="Comma-separated; none: all that ask no model.")] = "",
    limit: runs.Limit = None,
    sample: Annotated[int | None, typer.Option(help="N of them, drawn by --seed.")] = None,
    seed: int = 0,
    price: runs.Price = None,
    max_calls: runs.MaxCalls = None,
    max_cost: runs.MaxCost = None,
    concurrency: runs.Concurrency = 16,
    shard: runs.Shard = "",
    ray: runs.Ray = None,
    cache: runs.Cache = None,
) -> None:
    """Answer a data set's questions by several methods, and score the answers.

    Each answer is saved at once. The same command resumes a run, and pays for no call twice.
    """
    from ragweave.evaluation import ROLES, Settings
    from ragweave.evaluation.specs import read_pairs, split_systems

    settings: Settings
    if resume is not None:
        settings, folder = resumed(resume), resume
        settings = replace(settings, prices=runs.prices_of(price)) if price else settings
    elif data is None:
        raise UsageError("name a data set, or a run to --resume")
    else:
        folder = out or Path("runs") / Path(data.partition("?")[0].rpartition(":")[2]).name.partition(".")[0]
        settings = Settings(
            data=data,
            systems=tuple(split_systems(methods)),
            models={"answer": "extractive", **runs.models_of(model, ROLES)},
            options={**read_pairs(option or ()), **({} if k is None else {"k": str(k)})},
            passages=passages,
            corpus=corpus,
            kb=kb,
            retriever=retriever,
            rerank=rerank,
            second_retriever=second_retriever,
            gold=gold,
            oracle=("*",) if oracle else (),
            metrics=tuple(one.strip() for one in metrics.split(",") if one.strip()),
            limit=limit,
            sample=sample,
            seed=seed,
            drop_answered=drop_answered,
            prices=runs.prices_of(price),
        )
    more = {"calls": max_calls, "dollars": max_cost, "concurrency": concurrency, "cache": cache}
    runs.finish(*run(settings, folder, shard=shard, ray=ray, **more))


def run(settings: Settings, folder: Path, *, ray: str | None = None, shard: str = "", **more: Any) -> tuple[Any, Path]:
    """Run here or on a cluster, and return how it ended and the folder of the results."""
    from ragweave.evaluation import evaluate
    from ragweave.evaluation.folder import shard_folder

    if ray is None:
        return evaluate(settings, folder, shard=shard, **more), shard_folder(folder, shard)
    from ragweave.evaluation.on_ray import run_on_ray

    if shard:
        raise UsageError("--ray makes the shards itself: leave out --shard")
    budget = {name: more.pop(name) for name in ("calls", "dollars")}
    return run_on_ray(partial(evaluate, settings, folder.resolve(), **more), folder, address=ray, **budget), folder


def resumed(folder: Path) -> Settings:
    """Return the settings that a run began with.

    Raises:
        UsageError: The folder holds no run, or its models need keys, which are not stored.
    """
    from ragweave.evaluation import Settings
    from ragweave.evaluation.folder import read_settings, shards

    plain = read_settings(shards(folder)[0])
    for name in ("version", "own_metrics"):
        plain.pop(name, None)
    if "***" in str(plain.get("models")):
        raise UsageError(f"{folder}: keys are not stored; repeat the command that began the run")
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in plain.items()}
    return Settings(**values)
