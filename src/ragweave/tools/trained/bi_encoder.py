"""Trained bi-encoders of sentence-transformers: question and sentences are encoded apart, and compared by cosine."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from ragweave.tools.models.huggingface import SAFELY
from ragweave.tools.trained.card import Card
from ragweave.tools.trained.forms import Passage

SCALE = 20.0
"""What cosines are multiplied by before a softmax, in training and in use."""


def load(folder: Path, card: Card) -> Any:
    """Load a trained bi-encoder as a function of a question and passages; see `shares`."""
    return partial(shares, read(folder, card.max_input))


def read(folder: Path, max_input: int) -> Any:
    """Read a bi-encoder from a folder with safetensors, or another encoder, whose vectors are the means of its states.

    Args:
        folder: The folder.
        max_input: Maximum number of tokens of a text, if the model can read so many.
    """
    weights = {"use_safetensors": True, "dtype": torch.float32}
    model: Any = SentenceTransformer(str(folder), model_kwargs=weights, **SAFELY)
    model.max_seq_length = min(model.max_seq_length, max_input)
    return model


def sentences_with_titles(passages: Iterable[Passage]) -> list[str]:
    """Return the sentences of all passages as the model reads them."""
    return [f"{title}: {text}" if title.strip() else text for title, sentences in passages for text in sentences]


def shares(model: Any, question: str, passages: Iterable[Passage]) -> list[float]:
    """Return the probability of each sentence, among all of the passages, divided by the best one's; in (0, 1]."""
    texts = [question, *sentences_with_titles(passages)]
    asked, *sentences = model.encode(texts, normalize_embeddings=True, show_progress_bar=False).astype(float)
    logits = SCALE * np.asarray(sentences) @ asked
    ratios: list[float] = np.exp(logits - logits.max()).tolist()
    return ratios
