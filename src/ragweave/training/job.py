"""What a kind of part must offer to be trained: the contract between `train_part` and the kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ragweave.tools.parts import PartRole
from ragweave.training.settings import Settings
from ragweave.training.splits import Split

CHECKPOINTS = "checkpoints"
"""Folder of checkpoints inside a part's folder while it is being trained."""


class Watch:
    """Looks on while a part is trained; this one says nothing. The command line's shows a bar."""

    def __init__(self) -> None:
        """Begin; nobody wants to stop yet."""
        self.stop_wanted = False
        """True: save a checkpoint after this step, then raise `KeyboardInterrupt`."""

    def step(self, done: int, total: int, loss: float | None) -> None:
        """Tell that `done` of `total` steps are done, and the last step's loss."""

    def say(self, line: str) -> None:
        """Tell something worth a line, such as an epoch's measures."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training."""

    role: PartRole
    kind: str
    rows: Split
    settings: Settings
    folder: Path
    """Where weights and tokenizer go; checkpoints under `CHECKPOINTS`."""
    resume: bool = False
    """Whether to go on from the newest complete checkpoint."""
    watch: Watch = field(default_factory=Watch)


class Shown(NamedTuple):
    """A row exactly as the model will see it, marks of the tokenizer and all."""

    input: str
    target: str


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What a training came to."""

    threshold: float | None = None
    """The card's threshold; None where the part writes text."""
    threshold_from: str = ""
    """What the threshold was chosen on."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Measured on held-out rows, for the card."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Counts for the card, such as targets that were cut."""


class Recipe(Protocol):
    """How a kind of part is trained; each kind's module has one as `RECIPE`."""

    roles: tuple[PartRole, ...]
    """The roles that this kind can play."""
    extra: str
    """The extra of the package that training it needs."""
    modules: tuple[str, ...]
    """Modules that must be installed for it."""

    def defaults(self, role: PartRole) -> Settings:
        """Return the settings that this kind has for a role."""
        ...

    def check(self, job: Job) -> None:
        """Look whether the base can be had, before anything is written.

        Raises:
            UsageError: The base is no model of the right kind.
            ModelError: It is not on this machine.
        """
        ...

    def show(self, job: Job) -> Iterator[Shown]:
        """Yield the training rows as the model will see them, in order."""
        ...

    def fit(self, job: Job) -> Fitted:
        """Train, and write weights and tokenizer into `job.folder`.

        Raises:
            TrainingStoppedError: The loss is no number, or the disk is full; the last good
                checkpoint is kept and named.
            KeyboardInterrupt: `job.watch.stop_wanted` became true; a checkpoint was saved.
        """
        ...
