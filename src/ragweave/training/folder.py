"""The folder that a training writes: started, resumed, finished, and never mixed with another.

Its `README.md` is the model card in Markdown.
"""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragweave.errors import LockedError, UsageError
from ragweave.tools.files import hold, parse_json, remove_leftovers, sync_tree, write_atomic
from ragweave.trained import ModelCard, is_part, write_card
from ragweave.training.job import CHECKPOINTS, OF_COMPUTING
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
_LOCK = ".training.lock"
"""In the folder, not beside it: beside a mount point is another disk, or no room to write."""


def begin_folder(folder: Path, plan: Mapping[str, Any], *, resume: bool) -> None:
    """Make the folder of a training ready.

    A resumed training may compute in another way (`job.OF_COMPUTING`); its plan then says so.

    Args:
        folder: The part's folder.
        plan: What is trained, from what, how, in plain JSON values.
        resume: Whether to resume the training that the folder holds.

    Raises:
        UsageError: The folder holds a finished part, another training, or something else; it
            can't be written; there is nothing to resume, or the plan has changed; another process
            is training into it.
    """
    if is_part(folder):
        _clear_finished(folder)
        raise UsageError(f"{folder}: already holds a trained part; name another folder")
    if (folder / PLAN).is_file():
        if not resume:
            raise UsageError(
                f"{folder}: holds an unfinished training: resume it with --resume, or name another "
                f"folder"
            )
        with only_training(folder):
            _make_resumable(folder, plan)
        return
    if resume:
        raise UsageError(f"{folder}: holds no training to resume")
    try:
        remove_leftovers(folder / PLAN)
        if folder.exists() and (not folder.is_dir() or _content(folder)):
            raise UsageError(f"{folder}: already exists and holds no training; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        _write_plan(folder, plan)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def only_training(folder: Path) -> Iterator[None]:
    """Keep other processes from training into the folder meanwhile.

    Raises:
        UsageError: Another process is at work on it, or it can't be written.
    """
    with contextlib.ExitStack() as held:
        held.callback(_remove_empty, folder)  # what was abandoned goes with its lock
        try:
            held.enter_context(hold(folder / _LOCK, remove=True))
        except LockedError as error:
            raise UsageError(
                f"{folder}: process {error.holder or 'unknown'} is training into it; wait until it "
                "has finished, or name another folder"
            ) from None
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written ({error.strerror})") from error
        yield


def finish_folder(folder: Path, card: ModelCard) -> None:
    """Write the model card, put the checkpoints aside, make the folder a part, and remove them.

    A folder with checkpoints, which hold pickles, is never a part; and until it is one, they stay,
    where there is a place beside it for them.

    Raises:
        TrainingStoppedError: The disk is full.
    """
    with room_needed(folder / CHECKPOINTS):
        write_atomic(folder / "README.md", readme(card), alone=True)
        sync_tree(folder)  # a card promises that the weights are there
        if (folder / CHECKPOINTS).exists():
            _put_aside(folder)
        write_card(folder, card)
    _remove_unneeded(folder)


def _clear_finished(folder: Path) -> None:
    """Remove what a training that was killed right after it had finished left beside its part."""
    if any(one.exists() for one in (folder / PLAN, folder / _LOCK, _aside(folder))):
        with only_training(folder):
            _remove_unneeded(folder)


def _remove_unneeded(folder: Path) -> None:
    """Remove what only an unfinished training needs."""
    if _aside(folder).exists():
        shutil.rmtree(_aside(folder))
    (folder / PLAN).unlink(missing_ok=True)


_NO_PLACE = (errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
"""What a rename fails with where nothing can be put beside a folder, such as a mount point."""


def _put_aside(folder: Path) -> None:
    """Take the checkpoints out of the folder; remove them where there is no place beside it."""
    try:
        (folder / CHECKPOINTS).replace(_aside(folder))
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        shutil.rmtree(folder / CHECKPOINTS)


def _aside(folder: Path) -> Path:
    """Return where checkpoints wait, beside the folder, while it becomes a part."""
    return folder.resolve().with_name(f".{folder.resolve().name}.{CHECKPOINTS}")


def abandon_folder(folder: Path) -> None:
    """Remove the folder of a training that saved nothing, so that another may begin there."""
    saved = folder / CHECKPOINTS
    with contextlib.suppress(OSError):  # not empty: something was saved, and stays
        saved.rmdir()
    if _content(folder) == [PLAN]:
        (folder / PLAN).unlink()
        _remove_empty(folder)


def _content(folder: Path) -> list[str]:
    """Return the names in a folder but for the lock's, which a killed training may leave."""
    return [one.name for one in folder.iterdir() if one.name != _LOCK]


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it holds something, is a mount point, or must stay
        folder.rmdir()


def _write_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    write_atomic(folder / PLAN, json.dumps(plan, ensure_ascii=False, indent=2) + "\n")


def begun_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of the unfinished training in a folder; none where there is none.

    Raises:
        UsageError: Its plan can't be read.
    """
    settings = _read_plan(folder).get("settings") if (folder / PLAN).is_file() else None
    return settings if isinstance(settings, dict) else {}


def _read_plan(folder: Path) -> dict[str, Any]:
    try:
        plan = parse_json((folder / PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / PLAN}: cannot be read ({type(error).__name__})") from error
    if not isinstance(plan, dict):
        raise UsageError(f"{folder / PLAN}: is no plan of a training")
    return plan


def _make_resumable(folder: Path, plan: Mapping[str, Any]) -> None:
    """Check that the plan is the one that was begun, and that nothing stands in its way."""
    begun, wanted = _read_plan(folder), json.loads(json.dumps(plan))
    if _aside(folder).exists() and not (folder / CHECKPOINTS).exists():
        _aside(folder).replace(folder / CHECKPOINTS)
    first, now = _to_learn(begun), _to_learn(wanted)
    for name in [*first, *now]:
        if first.get(name) != now.get(name):
            raise UsageError(
                f"{folder}: was started with other {name} ({_changed(first, now, name)}); a "
                f"training can only be resumed with the settings and data it was started with"
            )
    if begun != wanted:
        _write_plan(folder, plan)


def _to_learn(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a plan decides what is learnt."""
    settings = plan.get("settings")
    if not isinstance(settings, dict):
        return dict(plan)
    kept = {name: value for name, value in settings.items() if name not in OF_COMPUTING}
    return {**plan, "settings": kept}


def _changed(begun: Any, wanted: Any, name: str) -> str:
    """Say what of one entry of the plan differs."""
    before, now = begun.get(name), wanted.get(name)
    if isinstance(before, dict) and isinstance(now, dict):
        differing = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return ", ".join(f"{key}: {before.get(key)}, now {now.get(key)}" for key in differing)
    return f"{before}, now {now}"
