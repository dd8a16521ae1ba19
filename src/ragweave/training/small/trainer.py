"""sentence-transformers' trainer of cross-encoders, with weighted pairs and no model card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragweave.training.running.arguments import arguments, one_gpu
from ragweave.training.running.guard import guarded
from ragweave.training.small.pairs import Pair
from ragweave.training.small.settings import SmallSettings


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
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments
    from transformers import PrinterCallback

    rows = Dataset.from_dict(
        {
            "first": [pair.first for pair in pairs],
            "second": [pair.second for pair in pairs],
            "label": [[float(pair.label), pair.weight] for pair in pairs],
        }
    )
    values = arguments(settings, checkpoints)
    values.pop("gradient_checkpointing", None)
    if settings.gradient_checkpointing:
        model.model.gradient_checkpointing_enable()
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
            folder = str(output_dir or self.args.output_dir)
            self.model.save_pretrained(folder, create_model_card=False)

    return Trainer


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
