"""`ragweave label`: training rows from a data set's questions. `ragweave train`: a trained component from rows."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ragweave.cli import options, runs
from ragweave.errors import UsageError
from ragweave.tools.text.untrusted import plain

_ROLES = ("proxy", "teacher", "generator", "scorer")


def label(
    kind: Annotated[str, typer.Argument(help="judge, rewriter, filter or needed.")],
    data: Annotated[str, typer.Argument(help="NAME:FILE, a file, or hf:NAME.")],
    out: Annotated[Path, typer.Option(help="The folder of the labels.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="[ROLE=]SPEC", help="proxy (drafts), teacher (annotates), generator, scorer. Repeatable."
        ),
    ] = None,
    draft: Annotated[str, typer.Option(metavar="FIELD", help="Field of the rows that holds drafts.")] = "",
    label_: Annotated[str, typer.Option("--label", metavar="FIELD", help="rewriter: field of the rows' claims.")] = "",
    theta: Annotated[float, typer.Option(help="judge: share of the right answers that a known draft exceeds.")] = 0.5,
    split_names: Annotated[
        bool, typer.Option("--split-names", help="judge: each name of an answer counts as an answer.")
    ] = False,
    balance: Annotated[bool, typer.Option(help="judge: downsample the larger class.")] = True,
    seed: int = 0,
    measure: Annotated[str, typer.Option(help="filter: strinc, lexical, cxmi, full or gold.")] = "strinc",
    unit: Annotated[str, typer.Option(help="filter: sentence, or passage (FILCO's PSG).")] = "sentence",
    top: Annotated[
        str, typer.Option(help="filter: maximum of sentences kept, or all: each above the threshold.")
    ] = "1",
    threshold: Annotated[float | None, typer.Option(help="filter: the score that a sentence must exceed.")] = None,
    k: Annotated[int, typer.Option("-k", help="Passages per question.")] = 5,
    kb: options.Kb = "",
    limit: runs.Limit = None,
    concurrency: runs.Concurrency = 16,
    shard: runs.Shard = "",
    ray: runs.Ray = None,
    cache: options.Cache = None,
) -> None:
    """Make training rows: OUT/labels.jsonl, which `ragweave train` reads.

    The same command resumes, and pays for no call twice.
    """
    from ragweave.evaluation.labels import LabelSettings, make_labels, write_labels

    if not (top == "all" or (top.isdecimal() and int(top))):
        raise UsageError(f"--top must be a number above 0, or all, not {top!r}")
    settings = LabelSettings(
        kind=kind,
        data=data,
        models=options.models_of(model, _ROLES, "generator" if kind == "needed" else "proxy"),
        limit=limit,
        draft=draft,
        label=label_,
        theta=theta,
        split_names=split_names,
        balance=balance and kind == "judge",
        seed=seed,
        measure=measure,
        unit=unit,
        top=None if top == "all" else int(top),
        threshold=threshold,
        k=k,
        kb=kb,
    )
    work = partial(make_labels, settings, out.resolve(), cache=cache, concurrency=concurrency)
    summary = runs.sharded(work, out, ray=ray, shard=shard)
    path, classes, dropped = write_labels(out)
    typer.echo(f"{path}: {', '.join(f'{number} {name}' for name, number in classes.items()) or 'no rows'}")
    for why, number in dropped.items():
        typer.echo(f"  {number} left out: {why}", err=True)
    if len(classes) == 1 and kind in ("judge", "needed"):
        typer.echo("warning: all rows have one class, so nothing can be learnt from them", err=True)
    runs.end(summary)


def train(
    role: Annotated[str, typer.Argument(help="judge, rewriter, filter, generator or router.")],
    labels: Annotated[Path, typer.Argument(help="The folder that `ragweave label` made, or a file of rows.")],
    out: Annotated[Path, typer.Argument(help="Folder of the component.")],
    kind: Annotated[
        str | None,
        typer.Option(
            help="linear (judge, router), bi-encoder (filter), seq2seq or causal-lora (all except router); by default the "
            "first that fits the role."
        ),
    ] = None,
    base: Annotated[str | None, typer.Option(help="Model to start from: minilm, a folder, or a hub name.")] = None,
    held_out: Annotated[Path | None, typer.Option(help="Rows to evaluate on.  [default: a tenth of LABELS]")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="name=value of another setting, such as epochs=2. Repeatable.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the unfinished training in OUT.")] = False,
) -> None:
    """Train a judge, rewriter, filter, generator or router. Ctrl-C saves a checkpoint; --resume continues."""
    from ragweave.graphs.specs import read_pairs
    from ragweave.training import train as train_component

    settings = read_pairs(setting or []) | ({"base": base} if base else {})
    arguments: dict[str, Any] = {"kind": kind, "held_out": held_out, "resume": resume, "settings": settings}
    card = train_component(cast("Any", role), labels, out, **arguments)
    typer.echo(plain(f"{out}: a {card.role} ({card.kind}) from {card.base}"))
    for name, value in card.metrics.items():
        typer.echo(f"  {name.replace('_', ' ')}: {value:.3f}")
    typer.echo(plain(f"use it: ragweave ask … {_USE[card.role].format(out=out)}"), err=True)


_USE = {
    "judge": "--method slimplm --model judge={out}/",
    "rewriter": "--method slimplm --model rewriter={out}/",
    "filter": "--method filco --option filter={out}/",
    "generator": "--method filco --model {out}/",
    "router": "--method slimplm --option route=classifier --model router={out}/",
}
