"""The contract between `train_part` and the kinds of parts: settings, job, recipe, result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self, get_type_hints

from ragweave.errors import RagweaveError, UsageError
from ragweave.nodes.options import typed
from ragweave.trained import PartRole
from ragweave.training.rows import Split


class TrainingStoppedError(RagweaveError):
    """A training had to stop (a loss that is not finite, a full disk); the text says what is kept."""


Precision = Literal["auto", "float32", "bfloat16"]

_COUNTS = (
    "batch",
    "micro_batch",
    "max_input",
    "max_output",
    "lora_rank",
    "lora_alpha",
    "save_every",
)
_SHARES = ("held_out", "warmup", "lora_dropout")
_RANGES: tuple[tuple[tuple[str, ...], Callable[[float], bool], str], ...] = (
    (_COUNTS, lambda value: value >= 1, "at least 1"),
    (("epochs", "learning_rate"), lambda value: value > 0, "above 0"),
    (_SHARES, lambda value: 0 <= value < 1, "0 or more and below 1"),
    (("weight_decay",), lambda value: value >= 0, "0 or more"),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a training; each kind has its own defaults for each role."""

    base: str
    """The model to begin from: `minilm` (packaged), a local path, or a hub name."""
    epochs: float = 3.0
    """Times that each row is seen (FILCO, section 4.1)."""
    learning_rate: float = 5e-5
    """Highest learning rate (FILCO, section 4.1)."""
    batch: int = 32
    """Rows a step, over all devices and whatever `micro_batch` (FILCO, section 4.1)."""
    micro_batch: int = 8
    """Rows computed at once; gradients of `batch / micro_batch` of them are accumulated."""
    max_input: int = 1024
    """Most tokens that the model reads (FILCO, section 4.1)."""
    max_output: int = 512
    """Most tokens of a target; longer ones are cut, and counted (FILCO, section 4.1)."""
    warmup: float = 0.0
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = 0.0
    """Decoupled weight decay of AdamW."""
    lora_rank: int = 16
    """Rank of the low-rank adapters (causal-lora)."""
    lora_alpha: int = 32
    """Scale of the adapters (causal-lora)."""
    lora_dropout: float = 0.05
    """Dropout before the adapters (causal-lora)."""
    gradient_checkpointing: bool = False
    """Whether activations are computed again instead of kept: less memory, more time."""
    precision: Precision = "auto"
    """Numbers while training; auto: bfloat16 where the hardware has it."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `cuda:1`."""
    save_every: int = 200
    """Steps between checkpoints; one is saved at each epoch's end too."""
    held_out: float = 0.1
    """Share of the questions held out to measure and to choose the threshold on."""
    seed: int = 0
    """Seed of splits, order and new weights."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is of the wrong type or out of its range.
        """
        for name, hint in get_type_hints(type(self)).items():
            object.__setattr__(self, name, typed(name, getattr(self, name), hint))
        for names, fits, wanted in _RANGES:
            for name in names:
                if not fits(getattr(self, name)):
                    raise UsageError(f"{name} must be {wanted}, not {getattr(self, name)}")

    def suited(self, given: Collection[str]) -> Self:  # noqa: ARG002
        """Return the settings with those that were not given suited to those that were."""
        return self


OF_COMPUTING = frozenset({"micro_batch", "gradient_checkpointing", "save_every", "device"})
"""Settings of how to compute, not of what: a training may be resumed with others. It comes to the
same but for rounding (on a GPU `auto` precision may be another) and the draws of dropout."""

OF_ADAPTERS = frozenset({"lora_rank", "lora_alpha", "lora_dropout"})
"""Settings that only a kind with adapters has a use for."""


def changed(defaults: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the defaults with `values` set.

    Raises:
        UsageError: There is no such setting, or a value is out of range.
    """
    known = [one.name for one in dataclasses.fields(defaults)]
    for name in values:
        if name not in known:
            raise UsageError(f"no setting {name!r}; settings: {', '.join(known)}")
    return dataclasses.replace(defaults, **values).suited(values.keys())


CHECKPOINTS = "checkpoints"
"""Folder of checkpoints inside a part's folder while it is being trained."""


class Watch:
    """Follows a training; this one shows nothing. The command line's shows a progress bar."""

    def __init__(self) -> None:
        """Begin; no stop is requested yet."""
        self.stop_wanted = False
        """True: save a checkpoint after this step, then raise `KeyboardInterrupt`."""

    def step(self, done: int, total: int, loss: float | None) -> None:
        """Report that `done` of `total` steps are done, and the last step's loss."""

    def say(self, line: str) -> None:
        """Report a message of one line, such as an epoch's measures."""


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
    """Whether to resume from the newest complete checkpoint."""
    watch: Watch = field(default_factory=Watch)


class InputPreview(NamedTuple):
    """A row exactly as the model will see it, special tokens and all."""

    input: str
    target: str


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """What a training came to."""

    threshold: float | None = None
    """The card's threshold; None where the part writes text."""
    threshold_from: str = ""
    """What the threshold was chosen on."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Measured on held-out rows, for the card."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Counts for the card, such as targets that were cut."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that held in place of the job's, for the card: what the base reads at most."""


class Recipe(Protocol):
    """How a kind of part is trained; each kind's module has one as `RECIPE`."""

    roles: tuple[PartRole, ...]
    """The roles that this kind can play."""
    extra: str
    """The extra of the package that training it needs."""
    modules: tuple[str, ...]
    """Modules that must be installed for it."""

    def unused(self, role: PartRole) -> Collection[str]:
        """Return the names of the settings that have no effect on this kind in a role."""
        ...

    def defaults(self, role: PartRole) -> Settings:
        """Return the settings that this kind has for a role."""
        ...

    def check(self, job: Job) -> None:
        """Check that the base model is available, before anything is written.

        Raises:
            UsageError: The base is not a model of the right kind.
            ModelError: It is not on this machine.
        """
        ...

    def preview(self, job: Job) -> Iterator[InputPreview]:
        """Yield the training rows as the model will see them, in order."""
        ...

    def fit(self, job: Job) -> TrainingResult:
        """Train, and write weights and tokenizer into `job.folder`.

        Raises:
            TrainingStoppedError: The loss is not finite, or the disk is full; the last good
                checkpoint is kept and named.
            KeyboardInterrupt: `job.watch.stop_wanted` became true; a checkpoint was saved.
        """
        ...
