"""The packaged MiniLM with its vectors stored by content, so that a benchmark encodes a passage once."""

from __future__ import annotations

import hashlib
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings

from ragweave.tools.embeddings.minilm import OnnxEmbeddings

FILE = Path(tempfile.gettempdir()) / "ragweave-benchmarks" / "minilm.sqlite"


class StoredEmbeddings(Embeddings):
    """MiniLM; what it has once encoded it reads from a file."""

    model = "minilm"

    def __init__(self) -> None:
        """Open the file."""
        FILE.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(FILE, check_same_thread=False)
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE IF NOT EXISTS vectors (hash TEXT PRIMARY KEY, vector BLOB)")
        self._inner = OnnxEmbeddings()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        row = self._db.execute("SELECT vector FROM vectors WHERE hash = ?", (key,)).fetchone()
        if row is None:
            row = (np.array(self._inner.embed_query(text), np.float32).tobytes(),)
            with self._db:
                self._db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (key, *row))
        vector: list[float] = np.frombuffer(row[0], np.float32).tolist()
        return vector
