"""Embeddings for tests: a vector of word counts, the same on every machine."""

from __future__ import annotations

import zlib

from langchain_core.embeddings import Embeddings

from ragweave.tools.text.words import words


class HashEmbeddings(Embeddings):
    """Count words in 512 hashed buckets; `embedded` records how many texts were asked for."""

    def __init__(self) -> None:
        self.embedded = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.embedded += len(texts)
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * 512
        for word in words(text):
            vector[zlib.crc32(word.encode()) % 512] += 1.0
        return vector
