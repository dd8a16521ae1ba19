"""`train`: labelled rows in, the folder of a trained component out."""

import hashlib
import shutil
import sys
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic import ValidationError

from ragweave.errors import UsageError, need
from ragweave.tools.trained.card import CARD, ROLES_BY_KIND, Card, Kind, TrainedRole, read_card, write_card
from ragweave.training.job import CHECKPOINTS, Job, Trained, TrainSettings, settings_of
from ragweave.training.rows import LabelledRow, check_disjoint, read_rows, split_rows

_TORCH = ("torch", "transformers", "accelerate")
_FITS: dict[Kind, tuple[str, tuple[str, ...]]] = {
    "linear": ("linear:fit", ("sklearn", "safetensors")),
    "bi-encoder": ("bi_encoder:fit", (*_TORCH, "sentence_transformers", "datasets")),
    "seq2seq": ("writer:fit", _TORCH),
    "causal-lora": ("writer:fit", (*_TORCH, "peft")),
}
"""The function that trains each kind, and the modules that it needs."""
_LIBRARIES = ("ragweave", "torch", "transformers", "sentence_transformers", "peft", "sklearn")


def train(
    role: TrainedRole,
    labels: str | Path,
    out: str | Path,
    *,
    kind: Kind | None = None,
    held_out: str | Path | None = None,
    resume: bool = False,
    settings: dict[str, Any] | None = None,
) -> Card:
    """Train a component.

    Ctrl-C saves a checkpoint. `resume` starts from the last checkpoint.

    Args:
        role: What the component does.
        labels: File of rows, or the folder that `ragweave label` made.
        out: The component's folder.
        kind: How it works; None: the smallest kind that does the role well.
        held_out: File or folder of rows to choose the threshold on and to measure; None: a tenth of the questions of `labels`.
        resume: Whether to resume the unfinished training in `out`.
        settings: Settings by name, which replace the kind's defaults.

    Returns:
        The card, which is written last.

    Raises:
        UsageError: A row, kind or setting is wrong, a question is in both files, `out` holds something else, or there
            is nothing to resume.
        MissingExtraError: A library that trains the kind is not installed.
        ModelError: The base model is not on this machine.
        KeyboardInterrupt: Ctrl-C was pressed; a checkpoint was saved.
    """
    chosen, folder = _kind(kind, role), Path(out).expanduser()
    need(f"Training a {chosen}", "train", *_FITS[chosen][1])
    own = _settings(chosen, role, settings or {})
    files = [_labels(path) for path in (labels, held_out) if path is not None]
    rows, held_rows = _rows(role, files, own.held_out)
    _begin(folder, resume=resume)
    job = Job(role=role, train=rows, held_out=held_rows, settings=own, folder=folder, resume=resume)
    trained: Trained = resolve_name(f"ragweave.training.{_FITS[chosen][0]}")(job)
    card = Card(
        role=role,
        kind=chosen,
        base=own.base,
        data={
            "files": [{"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for path in files],
            "train_rows": len(rows),
            "held_out_rows": len(held_rows),
        },
        settings=own.model_dump(),
        metrics=dict(trained.metrics),
        versions={name: sys.modules[name].__version__ for name in _LIBRARIES if name in sys.modules},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        **trained.fields,
    )
    if trained.main:
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        write_card(folder, card)
    return card


def _kind(kind: Kind | None, role: TrainedRole) -> Kind:
    kinds = [kind for kind, roles in ROLES_BY_KIND.items() if role in roles]
    if not kinds:
        roles = dict.fromkeys(chain.from_iterable(ROLES_BY_KIND.values()))
        raise UsageError(f"unknown role {role!r}; roles: {', '.join(roles)}")
    if kind is None:
        return kinds[0]
    if kind not in ROLES_BY_KIND:
        raise UsageError(f"unknown kind {kind!r}; kinds: {', '.join(ROLES_BY_KIND)}")
    if kind not in kinds:
        raise UsageError(f"a {kind} can't be trained as a {role}, only as: {', '.join(ROLES_BY_KIND[kind])}")
    return kind


def _settings(kind: Kind, role: TrainedRole, values: dict[str, Any]) -> TrainSettings:
    try:
        return settings_of(kind, role, values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        known = ", ".join(type(settings_of(kind, role, {})).model_fields)
        raise UsageError(f"setting {first['loc'][0]} of a {kind} {role}: {first['msg']} (settings: {known})") from error


def _labels(file: str | Path) -> Path:
    path = Path(file).expanduser()
    return path / "labels.jsonl" if path.is_dir() else path


def _rows(role: TrainedRole, files: list[Path], share: float) -> tuple[list[LabelledRow], list[LabelledRow]]:
    """Return the rows to train on and those held out."""
    rows = read_rows(files[0], role)
    if len(files) == 1:
        rows, held_out = split_rows(rows, share)
    else:
        held_out = read_rows(files[1], role)
        check_disjoint(rows, held_out)
    if not rows:
        raise UsageError(f"{files[0]}: all rows are held out; set held_out=0, or give more rows")
    return rows, held_out


def _begin(folder: Path, *, resume: bool) -> None:
    """Make the folder; it may hold nothing except an unfinished training to resume."""
    begun = folder / CHECKPOINTS
    if resume and not begun.is_dir():
        raise UsageError(f"{folder}: there is no unfinished training to resume")
    if not resume and begun.is_dir():
        raise UsageError(f"{folder}: holds an unfinished training; resume it, or remove the folder")
    if not resume and folder.is_dir() and any(folder.iterdir()):
        what = f"a trained {read_card(folder).role}" if (folder / CARD).is_file() else "other files"
        raise UsageError(f"{folder}: already holds {what}; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
