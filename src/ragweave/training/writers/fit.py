"""The training of a large part, common to both kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ragweave.tools.scorers.huggingface import find_base_model, quiet
from ragweave.trained.card import PartRole
from ragweave.trained.weights import greedy, read_tokenizer
from ragweave.trained.writers import TextWriter
from ragweave.training.encoders.base import part_of_kind
from ragweave.training.job import CHECKPOINTS, InputPreview, Job, Settings, TrainingResult
from ragweave.training.trainer.arguments import TrainingCallbacks, arguments, history, is_main
from ragweave.training.trainer.checkpoints import (
    drop_broken,
    guarded,
    memory_needed,
    newest,
    room_needed,
)
from ragweave.training.writers.examples import Encoder, encoder, measure, shown


@dataclass(frozen=True)
class Learner:
    """What is to be trained."""

    model: Any
    tokenizer: Any
    encode: Encoder


@dataclass(frozen=True)
class LargeRecipe:
    """How a kind of large part is trained (`training.job.Recipe`)."""

    roles: tuple[PartRole, ...]
    extra: str
    modules: tuple[str, ...]
    idle: frozenset[str]
    """Settings that have no effect on this kind."""
    settings: Callable[[PartRole], Settings]
    prepare: Callable[[Any, PartRole], None]
    """Teaches the tokenizer what the role writes."""
    model: Callable[[Any, Settings], Any]
    """Loads the base for training: (tokenizer, settings)."""
    trainer: Callable[[Learner, dict[str, Any], Any, Job], Any]
    """Makes the trainer: (learner, arguments, guard, job)."""
    save: Callable[[Any, Job], None]
    """Writes the weights into the job's folder."""

    def defaults(self, role: PartRole) -> Settings:
        """Return the papers' settings for a role."""
        return self.settings(role)

    def unused(self, role: PartRole) -> frozenset[str]:  # noqa: ARG002 - the same for all
        """Return the settings that have no effect."""
        return self.idle

    def check(self, job: Job) -> None:
        """Check that the base is available, by its first row, and no part of another kind."""
        next(iter(self.preview(job)), None)

    def preview(self, job: Job) -> Iterator[InputPreview]:
        """Yield the training rows as the model will see them; only the tokenizer is loaded."""
        from transformers import AutoConfig

        base = find_base_model(job.settings.base)
        tokenizer = self._tokenizer(job)
        config = AutoConfig.from_pretrained(base, local_files_only=True, trust_remote_code=False)
        encode = encoder(tokenizer, config, job.role, job.settings)
        for given, target in shown(encode, job.rows.train):
            yield InputPreview(given, target)

    def fit(self, job: Job) -> TrainingResult:
        """Train, and write weights and tokenizer into `job.folder`."""
        with quiet():
            return self._fit(job)

    def _tokenizer(self, job: Job) -> Any:
        part_of_kind(job.settings.base, job.kind)
        tokenizer = read_tokenizer(find_base_model(job.settings.base))
        self.prepare(tokenizer, job.role)
        return tokenizer

    def _fit(self, job: Job) -> TrainingResult:
        from transformers import set_seed

        checkpoints = job.folder / CHECKPOINTS
        set_seed(job.settings.seed)
        tokenizer = self._tokenizer(job)
        model = greedy(self.model(tokenizer, job.settings), tokenizer)
        encode = encoder(tokenizer, model.config, job.role, job.settings)
        learner = Learner(model, tokenizer, encode)
        writer = TextWriter(
            model,
            tokenizer,
            job.role,
            max_input=job.settings.max_input,
            max_output=job.settings.max_output,
            batch=job.settings.micro_batch,
        )

        def measured() -> dict[str, Any] | None:
            return measure(writer, job.rows.held_out, lambda: job.watch.stop_wanted)

        values = arguments(job.settings, checkpoints)
        callbacks = TrainingCallbacks(job.watch, job.settings.save_every, measured)
        trainer = self.trainer(learner, values, lambda kind: guarded(kind, checkpoints), job)
        _fill(trainer, callbacks)
        if is_main():
            drop_broken(checkpoints)
        last = newest(checkpoints) if job.resume else None
        with memory_needed(checkpoints), room_needed(checkpoints):
            trainer.train(resume_from_checkpoint=str(last) if last else None)
            if callbacks.stopped:
                raise KeyboardInterrupt
            if is_main():
                self.save(model, job)
                tokenizer.save_pretrained(job.folder)
        epochs = history(trainer.state)
        final = dict(list(epochs.values())[-1]) if epochs else {}
        return TrainingResult(
            metrics={**final, "epochs": epochs} if len(epochs) > 1 else final,
            data={name: count for name, count in encode.counts.items() if count},
        )


def _fill(trainer: Any, callbacks: TrainingCallbacks) -> None:
    """Put our callback in the place of transformers' printer."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(callbacks.callback())
