"""The folder that a training writes: started, resumed, finished, and never mixed with another.

Its `README.md` is the model card in Markdown.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragweave.errors import LockedError, UsageError
from ragweave.tools.files import hold, parse_json, remove_leftovers, sync_tree, write_atomic
from ragweave.trained import ModelCard, is_part, write_card
from ragweave.training.job import CHECKPOINTS
from ragweave.training.trainer.checkpoints import room_needed

_INNER = "out_of_fold"
_DOES = {
    "judge": "says whether a draft answer is known well enough to go without retrieval "
    "(SlimPLM, section 3.2)",
    "rewriter": "turns a draft answer into claims and search queries (SlimPLM, section 3.3)",
    "filter": "keeps the sentences of passages that help to answer a question (FILCO, M_ctx)",
    "generator": "answers a question from filtered context (FILCO, M_gen)",
    "router": "chooses by a draft answer whether a question needs none, one or many rounds of "
    "retrieval",
}
_USE = {
    "judge": "ragweave ask … --method slimplm --option judge={folder}",
    "rewriter": "ragweave ask … --method slimplm --option rewriter={folder}",
    "filter": "ragweave ask … --method filco --option filter={folder}",
    "generator": "ragweave ask … --method filco --option generator={folder}",
    "router": "ragweave ask … --method adaptive --option route=classifier --option router={folder}",
}


def readme(card: ModelCard) -> str:
    """Return the card as Markdown, with the front matter that model hubs read."""
    return "\n".join(_lines(card))


def _lines(card: ModelCard) -> Iterator[str]:
    yield "---"
    yield f"base_model: {json.dumps(card.base)}"
    yield "library_name: ragweave"
    yield f"tags: [ragweave, {card.role}, {card.kind}]"
    yield "---"
    yield f"# A {card.role} for ragweave ({card.kind})"
    yield ""
    yield f"It {_DOES[card.role]}. Trained from `{card.base}` on {card.created}."
    yield ""
    yield "```"
    yield _USE[card.role].format(folder="THIS_FOLDER")
    yield "```"
    if card.threshold is not None:
        yield ""
        source = f", chosen on {card.threshold_from}" if card.threshold_from else ""
        yield f"Threshold: {card.threshold:.4f}{source}."
    inner = {name: one for name, one in card.metrics.items() if name.startswith(_INNER)}
    outer = {name: one for name, one in card.metrics.items() if name not in inner}
    titles = {
        "Measured on held-out rows": outer,
        "Measured on training rows, out of fold": inner,
        "Data": card.data,
        "Settings": card.settings,
        "Versions": card.versions,
    }
    for title, values in titles.items():
        if values:
            yield f"\n## {title}\n"
            yield "| | |"
            yield "|---|---|"
            yield from (f"| {name} | {value} |" for name, value in _flat(values))
    yield ""


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        label = f"{before}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{label}: ")
        elif isinstance(value, list):
            for index, one in enumerate(value, start=1):
                inner = one if isinstance(one, Mapping) else {"": one}
                yield from _flat(inner, f"{label} {index}: ")
        else:
            yield label, _shown(value)


def _shown(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|")


PLAN = "training.json"
"""What is being trained: kind, settings, hashes of the data. Removed when the part is finished."""


def begin_folder(folder: Path, plan: Mapping[str, Any], *, resume: bool) -> None:
    """Make the folder of a training ready.

    Args:
        folder: The part's folder.
        plan: What is trained, from what, how, in plain JSON values.
        resume: Whether to resume the training that the folder holds.

    Raises:
        UsageError: The folder holds a finished part, another training, or something else; it
            can't be written; there is nothing to resume, or the plan has changed.
    """
    if is_part(folder):
        (folder / PLAN).unlink(missing_ok=True)
        shutil.rmtree(_aside(folder), ignore_errors=True)
        raise UsageError(f"{folder}: already holds a trained part; name another folder")
    if (folder / PLAN).is_file():
        _check_resumable(folder, plan, resume=resume)
        return
    if resume:
        raise UsageError(f"{folder}: holds no training to resume")
    try:
        remove_leftovers(folder / PLAN)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder}: already exists and holds no training; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(plan, ensure_ascii=False, indent=2) + "\n"
        write_atomic(folder / PLAN, text)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def only_training(folder: Path) -> Iterator[None]:
    """Keep other processes from training into the folder meanwhile.

    Raises:
        UsageError: Another process is at work on it.
    """
    lock = folder.resolve().with_name(f".{folder.resolve().name}.lock")
    try:
        with hold(lock, remove=True):
            yield
    except LockedError as error:
        raise UsageError(
            f"{folder}: process {error.holder or 'unknown'} is training into it; wait until it has "
            "finished, or name another folder"
        ) from None


def finish_folder(folder: Path, card: ModelCard) -> None:
    """Write the model card, put the checkpoints aside, make the folder a part, and remove them.

    A folder with checkpoints, which hold pickles, is never a part; and until it is one, they stay.

    Raises:
        TrainingStoppedError: The disk is full.
    """
    with room_needed(folder / CHECKPOINTS):
        write_atomic(folder / "README.md", readme(card), alone=True)
        sync_tree(folder)  # a card promises that the weights are there
        if (folder / CHECKPOINTS).exists():
            (folder / CHECKPOINTS).replace(_aside(folder))
        write_card(folder, card)
    (folder / PLAN).unlink(missing_ok=True)
    if _aside(folder).exists():
        shutil.rmtree(_aside(folder))


def _aside(folder: Path) -> Path:
    """Return where checkpoints wait, beside the folder, while it becomes a part."""
    return folder.resolve().with_name(f".{folder.resolve().name}.{CHECKPOINTS}")


def abandon_folder(folder: Path) -> None:
    """Remove the folder of a training that saved nothing, so that another may begin there."""
    saved = folder / CHECKPOINTS
    with contextlib.suppress(OSError):  # not empty: something was saved, and stays
        saved.rmdir()
    if [one.name for one in folder.iterdir()] == [PLAN]:
        (folder / PLAN).unlink()
        folder.rmdir()


def _check_resumable(folder: Path, plan: Mapping[str, Any], *, resume: bool) -> None:
    if not resume:
        raise UsageError(
            f"{folder}: holds an unfinished training: resume it with --resume, or name another "
            f"folder"
        )
    try:
        begun = parse_json((folder / PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / PLAN}: cannot be read ({type(error).__name__})") from error
    wanted = json.loads(json.dumps(plan))
    if _aside(folder).exists() and not (folder / CHECKPOINTS).exists():
        _aside(folder).replace(folder / CHECKPOINTS)
    for name in [*begun, *wanted]:
        if begun.get(name) != wanted.get(name):
            raise UsageError(
                f"{folder}: was started with other {name} ({_changed(begun, wanted, name)}); a "
                f"training can only be resumed with the settings and data it was started with"
            )


def _changed(begun: Any, wanted: Any, name: str) -> str:
    """Say what of one entry of the plan differs."""
    before, now = begun.get(name), wanted.get(name)
    if isinstance(before, dict) and isinstance(now, dict):
        differing = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return ", ".join(f"{key}: {before.get(key)}, now {now.get(key)}" for key in differing)
    return f"{before}, now {now}"
