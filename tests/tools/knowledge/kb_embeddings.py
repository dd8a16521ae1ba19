"""Embeddings for tests: hashed bags of words, deterministic and quick; they count their work."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

from langchain_core.embeddings import Embeddings


class BagEmbeddings(Embeddings):
    """One dimension a word hash; notes what it embeds, and may be slow."""

    def __init__(self, size: int = 64, log: Path | None = None, pause: float = 0.0) -> None:
        self.size = size
        self.embedded: list[str] = []
        self._log = log
        self._pause = pause

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.embedded.extend(texts)
        if self._log is not None:
            with self._log.open("a") as file:
                file.write("batch\n")
        time.sleep(self._pause)
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = [0.01] * self.size
        for word in text.lower().split():
            vector[zlib.crc32(word.encode()) % self.size] += 1.0
        return vector
