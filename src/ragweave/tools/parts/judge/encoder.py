"""The embedding model that a linear judge reads with, as it is on this machine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ragweave.errors import KnowledgeBaseError, MissingExtraError, ModelError, UsageError
from ragweave.tools.parts.judge.reference import Array
from ragweave.tools.retrieval.embedding import PACKAGED, load_sentence_transformer

_LONG = 300
"""Characters from which a text is computed apart: it would pad the short ones to its length."""
_REMEMBERED = 50_000
"""Words whose pieces are kept."""


class Encoder:
    """Vectors and word pieces of an embedding model; calls from several threads take turns."""

    def __init__(self, model: Any) -> None:
        """Take a `SentenceTransformer`."""
        self._model, self._lock = model, threading.RLock()
        self._pieces: dict[str, tuple[int, ...]] = {}

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model.get_embedding_dimension())

    def vectors(self, texts: Sequence[str]) -> dict[str, Array]:
        """Return the unit vector of each text; a text that comes twice is computed once."""
        found: dict[str, Array] = {}
        apart = dict.fromkeys(texts)
        for long in (False, True):
            group = [text for text in apart if (len(text) > _LONG) == long]
            if group:
                with self._lock:
                    made = self._model.encode(
                        group, normalize_embeddings=True, show_progress_bar=False
                    )
                found.update(zip(group, np.asarray(made, dtype=np.float64), strict=True))
        return found

    def pieces(self, word: str) -> tuple[int, ...]:
        """Return the ids of a word's pieces, without special tokens."""
        with self._lock:
            if word not in self._pieces:
                if len(self._pieces) >= _REMEMBERED:
                    self._pieces.clear()
                ids = self._model.tokenizer(word, add_special_tokens=False, verbose=False)
                self._pieces[word] = tuple(ids["input_ids"])
            return self._pieces[word]

    def count(self, texts: Sequence[str]) -> int:
        """Return the tokens that are read of texts, special ones counted."""
        if not texts:
            return 0
        limit = self._model.max_seq_length
        with self._lock:
            encoded = self._model.tokenizer(list(texts), truncation=False, verbose=False)
        return sum(min(len(ids), limit or len(ids)) for ids in encoded["input_ids"])


def load_encoder(name: str, near: Path | None = None, device: str = "auto") -> Encoder:
    """Load an embedding model; nothing is downloaded, and no code that came with it is run.

    Args:
        name: `minilm` (packaged), a folder's path, or a hub name that the hub's cache holds.
        near: A folder that a relative path may start from too.
        device: `auto` (a GPU where there is one), `cpu`, `cuda`, `cuda:1`.

    Raises:
        MissingExtraError: sentence-transformers or the packaged MiniLM is not installed.
        ModelError: It is not here (the text says what to download), or can't be read.
        UsageError: Something in its folder could run, or there is no such device.
    """
    if find_spec("sentence_transformers") is None or find_spec("safetensors") is None:
        raise MissingExtraError("A linear judge", "offline")
    try:
        model = load_sentence_transformer(_place(name, near))
    except KnowledgeBaseError as error:
        raise ModelError(f"the base model {name} can't be read: {error}") from error
    if device != "auto":
        try:
            model.to(device)
        except (RuntimeError, AssertionError) as error:
            message = " ".join(str(error).split())[:200]
            raise UsageError(f"device {device!r} is not to be had ({message})") from error
    return Encoder(model)


def _place(name: str, near: Path | None) -> str:
    if name == PACKAGED:
        return name
    from ragweave.tools.parts.encoder_files import WEIGHTS, check_configurations
    from ragweave.tools.scorers.local import find_base_model

    folder = find_base_model(name, near)
    check_configurations(folder)
    if not (folder / WEIGHTS).is_file():
        raise UsageError(f"{folder}: no {WEIGHTS} in it, and pickled weights are not read")
    return str(folder)
