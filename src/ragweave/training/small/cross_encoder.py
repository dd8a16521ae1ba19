"""Kind `cross-encoder`: an encoder that reads two texts and says one probability.

Ours, in no paper: a judge reads (question, draft answer) in the place of SlimPLM's fine-tuned
judge, a filter reads (question, a sentence in its passage) in the place of FILCO's M_ctx.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ragweave.tools.parts import PartRole
from ragweave.tools.parts.encoder_files import ONNX
from ragweave.tools.parts.encoder_run import model_run
from ragweave.tools.parts.pairs import PairScorer, form_of
from ragweave.tools.scorers.local import quiet
from ragweave.training.calibration import Platt, calibrate
from ragweave.training.job import CHECKPOINTS, Fitted, Job, Shown
from ragweave.training.running.checkpoints import drop_broken, newest
from ragweave.training.running.guard import memory_needed, room_needed
from ragweave.training.running.looking import TrainingCallbacks, history
from ragweave.training.running.processes import is_main
from ragweave.training.settings import Settings
from ragweave.training.small.base import Base, encoder_base
from ragweave.training.small.head import has_head, write_calibration
from ragweave.training.small.measuring import Measured, chosen_on, measure
from ragweave.training.small.pairs import NAMES, Pair, balanced, pairs_of
from ragweave.training.small.settings import SmallSettings
from ragweave.training.small.trainer import make_trainer

_BETWEEN = 256
"""Held-out pairs scored between two looks at whether somebody wants to stop."""


class CrossEncoderRecipe:
    """How a cross-encoder is trained (`training.job.Recipe`)."""

    roles: tuple[PartRole, ...] = ("judge", "filter")
    extra = "train"
    modules = ("torch", "transformers", "sentence_transformers", "accelerate", "datasets")

    def defaults(self, role: PartRole) -> Settings:  # noqa: ARG002
        """Return the settings: the same for both roles."""
        return SmallSettings()

    def check(self, job: Job) -> None:
        """Look whether the base can be had: its first row shows."""
        next(iter(self.show(job)), None)

    def show(self, job: Job) -> Iterator[Shown]:
        """Yield the training pairs as the model will see them; only the tokenizer is loaded."""
        settings = _settings(job)
        base = encoder_base(settings.base, settings.max_input)
        for pair in pairs_of(job.role, job.rows.train, form_of(base.tokenizer), settings):
            encoded = base.tokenizer(
                [pair.first], [pair.second], truncation="longest_first", max_length=base.limit
            )
            read = base.tokenizer.decode(encoded["input_ids"][0])
            yield Shown(read, NAMES[job.role][int(pair.label)])

    def fit(self, job: Job) -> Fitted:
        """Train, calibrate, choose the threshold, and write the part into `job.folder`."""
        with quiet():
            return _fit(job, _settings(job))


RECIPE = CrossEncoderRecipe()


def _settings(job: Job) -> SmallSettings:
    """Return the job's settings; those that it lacks are the kind's own."""
    if isinstance(job.settings, SmallSettings):
        return job.settings
    return SmallSettings(**vars(job.settings))


def _fit(job: Job, settings: SmallSettings) -> Fitted:
    from transformers import set_seed

    checkpoints = job.folder / CHECKPOINTS
    base = encoder_base(settings.base, settings.max_input)
    form = form_of(base.tokenizer)
    pairs = list(pairs_of(job.role, job.rows.train, form, settings))
    weighed = balanced(job.role, pairs, balance=settings.balance)
    held_out = list(pairs_of(job.role, job.rows.held_out, form, settings))
    set_seed(settings.seed)
    model = _fresh(base)
    scorer = PairScorer(base.tokenizer, model_run(model.model))

    def measured() -> dict[str, Any] | None:
        logits = _logits(job, scorer, held_out)
        if not held_out or logits is None:
            return None
        found = measure(job.role, held_out, Platt().probabilities(logits), settings.recall)
        return {name: one["mean"] for name, one in found.metrics.items()}

    callbacks = TrainingCallbacks(job.watch, settings.save_every, measured)
    trainer = make_trainer(model, weighed, settings, checkpoints, callbacks.callback())
    if is_main():
        drop_broken(checkpoints)
    last = newest(checkpoints) if job.resume else None
    with memory_needed(checkpoints), room_needed(checkpoints):
        trainer.train(resume_from_checkpoint=str(last) if last else None)
        logits = None if callbacks.stopped else _logits(job, scorer, held_out)
        if logits is None:
            raise KeyboardInterrupt
        final = _finished(job, model, held_out, logits, settings)
    epochs = history(trainer.state)
    return Fitted(
        threshold=final.threshold,
        threshold_from=chosen_on(held_out),
        metrics={**final.metrics, "epochs": epochs} if len(epochs) > 1 else final.metrics,
        data={"pairs": _counts(job.role, pairs, held_out)},
    )


def _fresh(base: Base) -> Any:
    """Load the encoder under a new head of one label."""
    from sentence_transformers import CrossEncoder

    return CrossEncoder(
        str(base.path),
        num_labels=1,
        max_length=base.limit,
        trust_remote_code=False,
        local_files_only=True,
        model_kwargs={"use_safetensors": True, "dtype": "float32"},
    )


def _logits(job: Job, scorer: PairScorer, pairs: Sequence[Pair]) -> list[float] | None:
    """Score held-out pairs; None where somebody wants to stop."""
    found: list[float] = []
    for first in range(0, len(pairs), _BETWEEN):
        if job.watch.stop_wanted:
            return None
        some = pairs[first : first + _BETWEEN]
        found += scorer.logits([(pair.first, pair.second) for pair in some])
    return None if job.watch.stop_wanted else found


def _finished(
    job: Job, model: Any, held_out: Sequence[Pair], logits: list[float], settings: SmallSettings
) -> Measured:
    """Calibrate, measure, and write the part."""
    platt = Platt()
    if has_head(model.model):
        platt = calibrate(logits, [pair.label for pair in held_out])
        write_calibration(model.model, platt)
    if is_main():
        (job.folder / ONNX).unlink(missing_ok=True)
        model.save_pretrained(str(job.folder), create_model_card=False)
    return measure(job.role, held_out, platt.probabilities(logits), settings.recall)


def _counts(role: PartRole, train: Sequence[Pair], held_out: Sequence[Pair]) -> dict[str, int]:
    names = NAMES[role]
    ups = sum(pair.label for pair in train)
    return {names[1]: ups, names[0]: len(train) - ups, "held_out": len(held_out)}
