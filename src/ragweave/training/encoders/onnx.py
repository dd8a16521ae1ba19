"""The ONNX form of a small part: the same scores, faster on a CPU, and no torch to load."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ragweave.errors import MissingExtraError, ModelError
from ragweave.tools.files import replacing
from ragweave.tools.scorers.huggingface import quiet
from ragweave.trained.encoders import (
    ONNX,
    check_encoder,
    load_tokenizer,
    load_torch_model,
    model_run,
    onnx_run,
)
from ragweave.trained.pairs import PairScorer
from ragweave.training.trainer.checkpoints import room_needed

TOLERANCE = 1e-3
"""Most that a probability may differ from the torch weights'."""

_PROBES = (
    ("Who wrote it?", "Nobody knows."),
    ("Where?", "In a town by the sea, where it had stood for longer than anyone could say. " * 8),
    ("", "An answer without a question"),
)


def export_onnx(folder: str | Path) -> Path:
    """Write `model.onnx` beside a cross-encoder's weights; it is used from then on.

    Any number of pairs of any length goes through it. It is checked against the weights before it
    takes its place, and is written whole or not at all.

    Args:
        folder: The part's folder.

    Returns:
        The file.

    Raises:
        UsageError: The folder is unsafe.
        MissingExtraError: onnx, onnxscript or onnxruntime is not installed.
        ModelError: The weights can't be read, or the ONNX form gives different scores.
        TrainingStoppedError: The disk is full.
    """
    root = Path(folder)
    if any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime", "torch")):
        raise MissingExtraError("The ONNX form of a part", "train")
    check_encoder(root)
    tokenizer, model = load_tokenizer(root), load_torch_model(root)
    with room_needed(root, None), replacing(root / ONNX) as draft:
        _write(model, tokenizer, draft)
        _check(tokenizer, model, draft)
    return root / ONNX


def _write(model: Any, tokenizer: Any, path: Path) -> None:
    import torch

    encoded = tokenizer(
        [first for first, _ in _PROBES[:2]],
        [second for _, second in _PROBES[:2]],
        truncation="longest_first",
        padding=True,
        return_tensors="pt",
    )
    names = [name for name in tokenizer.model_input_names if name in encoded]
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with _hushed(), quiet():
        try:
            program = torch.onnx.export(
                model,
                kwargs={name: encoded[name] for name in names},
                dynamo=True,
                input_names=names,
                output_names=["logits"],
                dynamic_shapes=dict.fromkeys(names, free),
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            message = " ".join(str(error.__cause__ or error).split())[:200]
            raise ModelError(
                f"{path.parent}: torch cannot export this encoder ({message})"
            ) from error
        if program is None:
            raise ModelError(f"{path.parent}: torch exported nothing")
        program.save(str(path), external_data=False)


def _check(tokenizer: Any, model: Any, path: Path) -> None:
    pairs = list(_PROBES)
    wanted = PairScorer(tokenizer, model_run(model)).score(pairs)
    found = PairScorer(tokenizer, onnx_run(path)).score(pairs)
    gap = float(np.abs(np.subtract(wanted, found)).max())
    if not gap < TOLERANCE:
        raise ModelError(
            f"{path.parent}: its ONNX form gives different scores (by {gap:.2g}), so it was not kept"
        )


@contextmanager
def _hushed() -> Iterator[None]:
    """Keep the exporter's notes about its own parts off the screen."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
            yield
    finally:
        logger.setLevel(level)
