"""Kind `cross-encoder`: an encoder that reads two texts and says one probability.

Ours, in no paper: a judge reads (question, draft answer) in the place of SlimPLM's fine-tuned
judge, a filter reads (question, a sentence in its passage) in the place of FILCO's M_ctx.

It is trained by sentence-transformers' trainer of cross-encoders, with weighted pairs and no model
card. The calibration is written into the encoder's head, so that its own probabilities are
calibrated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ragweave.tools.scorers.huggingface import quiet
from ragweave.trained import PartRole
from ragweave.trained.encoders import ONNX, model_run, read_encoder
from ragweave.trained.pairs import PairScorer, form_of
from ragweave.training.encoders.base import (
    Base,
    Measured,
    chosen_on,
    encoder_base,
    measure,
    part_of_kind,
)
from ragweave.training.encoders.pairs import NAMES, Pair, SmallSettings, balanced, pairs_of
from ragweave.training.job import (
    CHECKPOINTS,
    OF_ADAPTERS,
    InputPreview,
    Job,
    Settings,
    TrainingResult,
)
from ragweave.training.measures import Platt, calibrate
from ragweave.training.trainer.arguments import (
    TrainingCallbacks,
    arguments,
    history,
    is_main,
    one_gpu,
    recompute,
    recomputing,
)
from ragweave.training.trainer.checkpoints import (
    drop_broken,
    guarded,
    memory_needed,
    newest,
    room_needed,
)


def make_trainer(
    model: Any, pairs: Sequence[Pair], settings: SmallSettings, checkpoints: Path, callback: Any
) -> Any:
    """Return a trainer that is ready to begin.

    Args:
        model: A `CrossEncoder` of one label.
        pairs: What is learnt, with weights.
        settings: How.
        checkpoints: Where checkpoints go.
        callback: Who follows the steps.
    """
    from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments
    from transformers import PrinterCallback

    from datasets import Dataset

    rows = Dataset.from_dict(
        {
            "first": [pair.first for pair in pairs],
            "second": [pair.second for pair in pairs],
            "label": [[float(pair.label), pair.weight] for pair in pairs],
        }
    )
    values = arguments(settings, checkpoints)
    if values.pop(recomputing()):
        recompute(model.model)
    trainer = guarded(_trainer(), checkpoints)(
        model=model,
        args=one_gpu(CrossEncoderTrainingArguments(**values)),
        train_dataset=rows,
        loss=_weighted_loss(model),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(callback)
    return trainer


def _trainer() -> Any:
    """Return a trainer whose checkpoints hold the model alone: no card, no pickled settings."""
    from sentence_transformers.cross_encoder import CrossEncoderTrainer

    class Trainer(CrossEncoderTrainer):
        def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
            """Add none: the part's own card says more."""

        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ARG002
            _write(self.model, str(output_dir or self.args.output_dir))

    return Trainer


def _write(model: Any, folder: str) -> None:
    """Write a model, its tokenizer without the truncation and padding of the last batch.

    So a training that was resumed gives the same files as one that was not.
    """
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()
    model.save_pretrained(folder, create_model_card=False)


def _weighted_loss(model: Any) -> Any:
    """Return binary cross-entropy over pairs, each with its own weight (their mean is 1)."""
    import torch

    class WeightedLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, inputs: Any, labels: Any, **more: Any) -> Any:
            """Return the loss of a batch; a label is (class, weight)."""
            features = self.model.preprocess(list(zip(*inputs, strict=True)), **more)
            place = self.model.device
            placed = {
                name: one.to(place) if torch.is_tensor(one) else one
                for name, one in features.items()
            }
            logits = self.model(placed)["scores"].view(-1).float()
            values = torch.stack(list(labels)).to(logits)
            losses = torch.nn.functional.binary_cross_entropy_with_logits(
                logits, values[:, 0], reduction="none"
            )
            return (losses * values[:, 1]).mean()

    return WeightedLoss()


def has_head(model: Any) -> bool:
    """Tell whether a torch model ends in a linear layer with one output and a bias."""
    return _head(model) is not None


def write_calibration(model: Any, platt: Platt) -> None:
    """Change the last linear layer so that a logit z becomes `scale · z + shift`.

    Raises:
        ValueError: The model has no such layer (`has_head`).
    """
    import torch

    layer = _head(model)
    if layer is None:
        raise ValueError("no linear layer with one output and a bias")
    with torch.no_grad():
        layer.weight.mul_(platt.scale)
        layer.bias.mul_(platt.scale).add_(platt.shift)


def _head(model: Any) -> Any:
    import torch

    found = None
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear) and layer.out_features == 1:
            found = layer
    return found if found is not None and found.bias is not None else None


KIND = "cross-encoder"

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

    def unused(self, role: PartRole) -> frozenset[str]:
        """Return the settings that have no effect: a judge has neither negatives nor a recall."""
        alone = {"hard_negatives", "recall"} if role == "judge" else set()
        return OF_ADAPTERS | {"max_output"} | alone

    def check(self, job: Job) -> None:
        """Check that the base is available, by its first row, and that its weights are whole."""
        next(iter(self.preview(job)), None)
        read_encoder(_base(_settings(job)).path, "AutoModel", new="pooler")

    def preview(self, job: Job) -> Iterator[InputPreview]:
        """Yield the training pairs as the model will see them; only the tokenizer is loaded."""
        settings = _settings(job)
        base = _base(settings)
        for pair in pairs_of(job.role, job.rows.train, form_of(base.tokenizer), settings):
            encoded = base.tokenizer(
                [pair.first], [pair.second], truncation="longest_first", max_length=base.limit
            )
            read = base.tokenizer.decode(encoded["input_ids"][0])
            yield InputPreview(read, NAMES[job.role][int(pair.label)])

    def fit(self, job: Job) -> TrainingResult:
        """Train, calibrate, choose the threshold, and write the part into `job.folder`."""
        with quiet():
            return _fit(job, _settings(job))


RECIPE = CrossEncoderRecipe()


def _settings(job: Job) -> SmallSettings:
    """Return the job's settings; those that it lacks are the kind's own."""
    if isinstance(job.settings, SmallSettings):
        return job.settings
    return SmallSettings(**vars(job.settings))


def _base(settings: SmallSettings) -> Base:
    part_of_kind(settings.base, KIND)
    return encoder_base(settings)


def _fit(job: Job, settings: SmallSettings) -> TrainingResult:
    from transformers import set_seed

    checkpoints = job.folder / CHECKPOINTS
    base = _base(settings)
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
    return TrainingResult(
        threshold=final.threshold,
        threshold_from=chosen_on(held_out),
        metrics={**final.metrics, "epochs": epochs} if len(epochs) > 1 else final.metrics,
        data={"pairs": _counts(job.role, pairs, held_out)},
        settings={"max_input": base.limit},
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
        _write(model, str(job.folder))
    return measure(job.role, held_out, platt.probabilities(logits), settings.recall)


def _counts(role: PartRole, train: Sequence[Pair], held_out: Sequence[Pair]) -> dict[str, int]:
    names = NAMES[role]
    ups = sum(pair.label for pair in train)
    return {names[1]: ups, names[0]: len(train) - ups, "held_out": len(held_out)}
