"""`plan_training` and `train_part`: labelled rows in, a folder with a trained part out."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, cast

from ragweave.datasets.rows import file_hash
from ragweave.errors import MissingExtraError, RagweaveError, UsageError
from ragweave.state.records import ROUTES
from ragweave.tools.text.secrets import without_secrets
from ragweave.trained import ModelCard, PartRole, is_part
from ragweave.training.folder import (
    abandon_folder,
    begin_folder,
    begun_settings,
    finish_folder,
    only_training,
)
from ragweave.training.job import (
    CHECKPOINTS,
    OF_COMPUTING,
    InputPreview,
    Job,
    Recipe,
    Settings,
    TrainingResult,
    Watch,
    changed,
)
from ragweave.training.rows import (
    Split,
    TrainingRow,
    check_apart,
    check_unseen,
    question_hash,
    read_question_hashes,
    read_rows,
    split_rows,
    write_question_hashes,
)
from ragweave.training.trainer.arguments import is_main, world_size
from ragweave.training.trainer.checkpoints import room_needed

KINDS = {
    "linear": "ragweave.training.encoders.linear",
    "linear-router": "ragweave.training.encoders.router",
    "cross-encoder": "ragweave.training.encoders.cross_encoder",
    "span-encoder": "ragweave.training.encoders.span_encoder",
    "seq2seq": "ragweave.training.writers.seq2seq",
    "causal-lora": "ragweave.training.writers.causal",
}
"""Module of each kind."""

ONE_PROCESS = ("linear", "linear-router", "span-encoder")
"""Kinds that are trained by one process alone."""

DEFAULT_KIND: dict[PartRole, str] = {
    "judge": "linear",
    "filter": "span-encoder",
    "rewriter": "seq2seq",
    "generator": "seq2seq",
    "router": "linear-router",
}
"""The kind that is trained where none is named: the smallest that does the role well."""


def recipe_of(kind: str, role: PartRole) -> Recipe:
    """Return how a kind is trained.

    Raises:
        UsageError: There is no such kind, or it can't play the role.
        MissingExtraError: What it trains with is not installed.
    """
    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind!r}; kinds: {', '.join(KINDS)}")
    recipe = cast("Recipe", import_module(KINDS[kind]).RECIPE)
    if role not in recipe.roles:
        can = ", ".join(recipe.roles)
        raise UsageError(f"a {kind} can't be trained as a {role}, only as: {can}")
    if any(find_spec(name) is None for name in recipe.modules):
        raise MissingExtraError(f"Training a {kind}", recipe.extra)
    return recipe


_LIBRARIES = ("ragweave", "torch", "transformers", "sentence-transformers", "peft", "trl")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A training that is ready to begin: rows read and checked, settings settled."""

    role: PartRole
    kind: str
    settings: Settings
    rows: Split
    files: tuple[Path, ...]
    folder: Path
    seen: frozenset[str] = frozenset()
    """Hashes of the questions that the base has learnt from (`training.rows`)."""
    given: frozenset[str] = frozenset()
    """Names of the settings that were given; the others are the kind's own."""

    def job(self, *, resume: bool = False, watch: Watch | None = None) -> Job:
        """Return the job that a recipe takes."""
        return Job(
            role=self.role,
            kind=self.kind,
            rows=self.rows,
            settings=self.settings,
            folder=self.folder,
            resume=resume,
            watch=watch or Watch(),
        )

    def preview(self, limit: int) -> list[InputPreview]:
        """Return the first training rows exactly as the model will see them."""
        return list(islice(recipe_of(self.kind, self.role).preview(self.job()), limit))

    def recorded_settings(self) -> dict[str, Any]:
        """Return the settings as the folder keeps them: a knowledge base without its password."""
        kept = dataclasses.asdict(self.settings)
        return kept | ({"look": without_secrets(str(kept["look"]))} if kept.get("look") else {})

    def data(self) -> dict[str, Any]:
        """Return what the card says of the data: files, hashes, counts by label."""
        files = [{"file": one.name, "sha256": file_hash(one)} for one in self.files]
        described: dict[str, Any] = {
            "files": files,
            "train": counts(self.role, self.rows.train),
            "held_out": counts(self.role, self.rows.held_out),
        }
        if self.role in ("filter", "generator"):
            described["passages"] = max(len(_passages(row)) for row in self.rows.train)
            if _unit_of(self.rows.train) == "passage":
                described["unit"] = "passage"
        return described


def plan_training(
    role: PartRole,
    rows: str | Path,
    out: str | Path,
    *,
    kind: str | None = None,
    held_out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """Read and check everything that a training needs; nothing is written.

    Args:
        role: What the part will do.
        rows: File of training rows (`ragweave label …`).
        out: Folder of the part.
        kind: How it works; None: the smallest kind that does the role well.
        held_out: File of held-out rows; None: a share of the questions of `rows`.
        settings: Settings by name, in the place of the kind's defaults.

    Raises:
        UsageError: A file, row, kind or setting is bad, or a setting has no effect here; all rows
            have one label; a question stands in both files.
        MissingExtraError: What the kind trains with is not installed.
    """
    chosen = kind or DEFAULT_KIND[role]
    recipe = recipe_of(chosen, role)
    defaults = recipe.defaults(role)
    settled = changed(defaults, settings or {})
    for name in recipe.unused(role):
        if getattr(settled, name) != getattr(defaults, name):
            raise UsageError(f"a {chosen} {role} is trained without {name}: leave it out")
    settled, seen = _resolve_base(chosen, settled)
    read = read_rows(rows, role)
    if held_out is None:
        unseen = lambda row: question_hash(row) not in seen  # noqa: E731
        split = split_rows(read, settled.held_out, settled.seed, unseen)
    else:
        split = Split(read, read_rows(held_out, role))
        check_apart(split.train, split.held_out)
        check_unseen(split.held_out, seen, settled.base)
    _check_labels(role, split.train, rows)
    files = (Path(rows),) if held_out is None else (Path(rows), Path(held_out))
    return Plan(
        role=role,
        kind=chosen,
        settings=settled,
        rows=split,
        files=files,
        folder=Path(out),
        seen=seen,
        given=frozenset(settings or {}),
    )


def _resolve_base(kind: str, settings: Settings) -> tuple[Settings, frozenset[str]]:
    """Return the settings, and the hashes of the questions that the base has learnt from.

    Adapters and linear judges need their base wherever they are used, so a folder's path is kept
    whole. A model that adapters were merged into is no part, and keeps its part's hashes.
    """
    folder = Path(settings.base).expanduser()
    learnt = is_part(folder) or (folder / "config.json").is_file()
    seen = read_question_hashes(folder) if learnt else frozenset()
    if kind in ("causal-lora", "linear", "linear-router") and folder.is_dir():
        return changed(settings, {"base": str(folder.resolve())}), seen
    return settings, seen


def train_part(plan: Plan, *, resume: bool = False, watch: Watch | None = None) -> ModelCard:
    """Train a part and write its folder: weights, tokenizer, model card.

    Args:
        plan: What to train (`plan_training`).
        resume: Resume the unfinished training in the folder; of its settings only those of how to
            compute (`job.OF_COMPUTING`) may be others, and those not given are as they were.
        watch: Follows the training.

    Returns:
        The part's card, as written to the folder.

    Raises:
        UsageError: The folder holds something else, or the plan is not the one it was started with.
        TrainingStoppedError: The loss is not finite, or the disk is full; `resume` continues from
            the last good checkpoint.
        ModelError: The base model is not available; nothing was written.
    """
    recipe = recipe_of(plan.kind, plan.role)
    plan = _as_begun(plan, recipe) if resume else plan
    data = plan.data()
    settings = plan.recorded_settings()
    written = {"role": plan.role, "kind": plan.kind, "settings": settings, "data": data}
    if world_size() > 1 and plan.kind in ONE_PROCESS:
        raise UsageError(
            f"a {plan.kind} is trained by one process: run it without accelerate launch"
        )
    job = plan.job(resume=resume, watch=watch)
    recipe.check(job)
    if is_main():
        begin_folder(plan.folder, written, resume=resume)
    with only_training(plan.folder) if is_main() else nullcontext():
        return _trained(plan, recipe, job, data)


def _as_begun(plan: Plan, recipe: Recipe) -> Plan:
    """Return the plan with the settings of how to compute as they were, where none was given."""
    begun, own = begun_settings(plan.folder), recipe.defaults(plan.role)
    kept = {
        name: begun[name]
        for name in (OF_COMPUTING - plan.given) & begun.keys()
        if getattr(plan.settings, name) == getattr(own, name)
    }
    return dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, **kept))


def _trained(plan: Plan, recipe: Recipe, job: Job, data: Mapping[str, Any]) -> ModelCard:
    """Train, and finish the folder; what saved nothing leaves nothing."""
    try:
        fitted: TrainingResult = recipe.fit(job)
    except RagweaveError:
        if is_main():
            abandon_folder(plan.folder)
        raise
    card = ModelCard(
        role=plan.role,
        kind=plan.kind,
        base=plan.settings.base,
        threshold=fitted.threshold,
        threshold_from=fitted.threshold_from,
        data={**data, **fitted.data},
        settings={**plan.recorded_settings(), **fitted.settings},
        metrics=fitted.metrics,
        versions=dict(_versions()),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if is_main():
        with room_needed(plan.folder / CHECKPOINTS):
            write_question_hashes(plan.folder, plan.rows.train, plan.seen)
        finish_folder(plan.folder, card)
    return card


def counts(role: PartRole, rows: Sequence[TrainingRow]) -> dict[str, int]:
    """Return the number of rows, and of rows by label."""
    labels = Counter(label for row in rows for label in _labels(role, row))
    return {"rows": len(rows), **dict(sorted(labels.items()))}


def _passages(row: Mapping[str, Any]) -> Sequence[Any]:
    passages: Sequence[Any] = row["passages"]
    return passages


def _labels(role: PartRole, row: Mapping[str, Any]) -> Iterator[str]:
    if role == "judge":
        yield "known" if row["known"] else "unknown"
    elif role in ("filter", "generator"):
        yield "with_spans" if row["spans"] else "empty"
    elif role == "router":
        yield from (f"right_{name}" for name, right in row["right"].items() if right)


def _check_labels(role: PartRole, rows: Sequence[TrainingRow], where: str | Path) -> None:
    found = counts(role, rows)
    if role == "judge" and not (found.get("known") and found.get("unknown")):
        only = "known" if found.get("known") else "unknown"
        raise UsageError(f"{where}: all {found['rows']} rows are {only}; a judge needs both")
    if role in ("filter", "generator") and _unit_of(rows) == "mixed":
        raise UsageError(
            f"{where}: some rows keep sentences and some whole passages (--unit): train on one kind"
        )
    if role == "filter" and all(_source(row).get("measure") == "full" for row in rows):
        raise UsageError(
            f"{where}: all rows keep everything (--measure full): they train a generator, and no filter"
        )
    if role == "router" and any(found.get(f"right_{n}", 0) in (0, found["rows"]) for n in ROUTES):
        raise UsageError(
            f"{where}: a route is right in all rows or in none: a router has nothing to choose by"
        )
    if role == "filter" and not found.get("with_spans"):
        raise UsageError(f"{where}: no row keeps a span; a filter has nothing to learn from")


def _unit_of(rows: Sequence[TrainingRow]) -> str:
    """Return what the oracle kept or dropped: sentences, or passages whole; or mixed."""
    units = {str(_source(row).get("unit") or "sentence") for row in rows}
    return units.pop() if len(units) == 1 else "mixed"


def _source(row: TrainingRow) -> Mapping[str, Any]:
    return row.get("source") or {}


def _versions() -> Iterator[tuple[str, str]]:
    for name in _LIBRARIES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
