"""Trained cross-encoders: a pair of texts in, a probability out.

What the pairs are: a judge reads (question, draft answer), a filter reads (question, the sentence
in its passage), see `sentence_form`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import UsageError
from ragweave.tools.parts.encoder_files import ONNX, check_encoder
from ragweave.tools.parts.encoder_run import Run, load_tokenizer, onnx_run, torch_run
from ragweave.tools.parts.sentence_form import SentenceForm

_BATCH = 32
_UNLIMITED = 1_000_000
"""Tokenizers without a limit of their own say a number beyond this."""
_LIMIT = 512


class PairScorer:
    """Scores pairs of texts; calls from several threads take turns.

    Pairs of like length are computed together. A pair's score does not depend on the others
    beyond floating-point noise.
    """

    def __init__(self, tokenizer: Any, run: Run, *, batch: int = _BATCH) -> None:
        """Take a fast tokenizer, whose `model_max_length` is the limit, and what runs a batch."""
        self._tokenizer, self._run, self._batch = tokenizer, run, batch
        self._lock = threading.RLock()
        self.limit = token_limit(tokenizer)
        """Most tokens of a pair, special tokens counted; of a longer pair the longer text is cut."""
        self.form = form_of(tokenizer, self._lock)
        """The form in which a filter reads sentences, measured by this tokenizer."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return a probability for each pair, in [0, 1], in order."""
        return [float(one) for one in _sigmoid(np.asarray(self.logits(pairs), dtype=np.float64))]

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return what stands before the sigmoid, in order."""
        found = [0.0] * len(pairs)
        with self._lock:
            rows = self._encoded(pairs)
            order = sorted(range(len(rows)), key=lambda i: -len(rows[i]["input_ids"]))
            for batch in _batches(order, self._batch):
                logits = self._run(self._padded([rows[i] for i in batch]))
                for i, logit in zip(batch, logits, strict=True):
                    found[i] = float(logit)
        return found

    def count(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the tokens that are read of each pair, special ones counted."""
        with self._lock:
            return [len(row["input_ids"]) for row in self._encoded(pairs)]

    def _encoded(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
        if not pairs:
            return []
        firsts, seconds = (list(one) for one in zip(*pairs, strict=True))
        encoded = self._tokenizer(
            firsts, seconds, truncation="longest_first", max_length=self.limit, padding=False
        )
        return [
            {
                name: encoded[name][i]
                for name in self._tokenizer.model_input_names
                if name in encoded
            }
            for i in range(len(pairs))
        ]

    def _padded(self, rows: Sequence[dict[str, list[int]]]) -> dict[str, NDArray[np.int64]]:
        filler = {
            "input_ids": self._tokenizer.pad_token_id or 0,
            "token_type_ids": self._tokenizer.pad_token_type_id,
        }
        width = max(len(row["input_ids"]) for row in rows)
        made: dict[str, NDArray[np.int64]] = {}
        for name in rows[0]:
            made[name] = np.full((len(rows), width), filler.get(name, 0), dtype=np.int64)
            for i, row in enumerate(rows):
                made[name][i, : len(row[name])] = row[name]
        return made


def load_pair_scorer(folder: str | Path, device: str = "auto") -> PairScorer:
    """Load a trained cross-encoder; nothing in the folder is run.

    Where the folder holds an ONNX form and onnxruntime is installed, that is used on the CPU:
    its scores are those of the weights within 1e-3.

    Args:
        folder: The part's folder.
        device: `auto` (the ONNX form, or CUDA where there is one), `cpu`, `cuda`, `cuda:1`.

    Raises:
        UsageError: Something in the folder could run, or weights or device are missing.
        MissingExtraError: What it runs with is not installed.
        ModelError: Weights or tokenizer can't be read.
    """
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"{root}: there is no such folder")
    check_encoder(root)
    tokenizer = load_tokenizer(root)
    fast = device in ("auto", "cpu") and (root / ONNX).is_file() and _has_onnx()
    return PairScorer(tokenizer, onnx_run(root / ONNX) if fast else torch_run(root, device))


def form_of(tokenizer: Any, lock: threading.RLock | None = None) -> SentenceForm:
    """Return the form in which a filter with this fast tokenizer reads sentences."""
    held = lock or threading.RLock()

    def tokens(text: str) -> list[tuple[int, int]]:
        with held:
            encoded = tokenizer(
                text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                truncation=False,
                verbose=False,
            )
        return [(start, end) for start, end in encoded["offset_mapping"]]

    special = tokenizer.num_special_tokens_to_add(pair=True)
    return SentenceForm(tokens, max(1, token_limit(tokenizer) - special))


def token_limit(tokenizer: Any) -> int:
    """Return the most tokens that a tokenizer's model reads; 512 where it does not say."""
    limit = int(min(tokenizer.model_max_length, _UNLIMITED))
    return limit if limit < _UNLIMITED else _LIMIT


def _has_onnx() -> bool:
    return find_spec("onnxruntime") is not None


def _batches(order: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for first in range(0, len(order), size):
        yield order[first : first + size]


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    low = np.exp(-np.abs(values))
    return np.where(values >= 0, 1 / (1 + low), low / (1 + low))
