"""Vectors: unit rows for an exact search, and Chroma where there are too many for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError, MissingExtraError

EXACT = 200_000
"""Passages up to which every vector is compared: 10 ms for 100,000 of 384 dimensions."""
_PAGE = 5_000
_BATCH = 1_000


def unit(vectors: Sequence[Sequence[float]]) -> NDArray[np.float32]:
    """Return vectors as rows of length 1; zero stays zero."""
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def chroma_available() -> bool:
    """Return whether Chroma is installed; does not import it."""
    return find_spec("chromadb") is not None


class Chroma:
    """A Chroma collection of vectors by content hash, in a folder.

    It has at least the vectors of the current state: those that a writer adds come before its
    commit, those that it removes leave after it.
    """

    def __init__(self, folder: Path) -> None:
        """Take a folder; Chroma is opened at first use."""
        self._folder = folder
        self._client: Any = None
        self._collection: Any = None
        self._state = ""
        self._lock = threading.Lock()

    def sync(self, vectors: Iterator[tuple[int, str, bytes]], *, drop: bool) -> None:
        """Add the vectors that are missing; with `drop`, delete those that are not among them.

        Raises:
            KnowledgeBaseError: Chroma cannot be used.
        """
        with self._lock:
            self._open("")
            present = {
                one
                for first in range(0, self._collection.count(), _PAGE)
                for one in self._collection.get(limit=_PAGE, offset=first, include=[])["ids"]
            }
            wanted: set[str] = set()

            def missing() -> Iterator[tuple[str, NDArray[np.float32]]]:
                for _, content, vector in vectors:
                    if content not in wanted and content not in present:
                        yield content, np.frombuffer(vector, np.float32)
                    wanted.add(content)

            rest = missing()
            while batch := list(islice(rest, _BATCH)):
                ids, rows = zip(*batch, strict=True)
                self._collection.upsert(ids=[*ids], embeddings=[*rows])
            gone = sorted(present - wanted) if drop else []
            for first in range(0, len(gone), _BATCH):
                self._collection.delete(ids=gone[first : first + _BATCH])

    def nearest(self, vector: NDArray[np.float32], k: int, state: str) -> list[tuple[str, float]]:
        """Return up to k contents with their cosine, nearest first.

        Args:
            vector: The query's, of length 1.
            k: How many.
            state: Name of the store's state; Chroma sees what another process wrote only when it
                is opened again, so a new name does that.
        """
        with self._lock:
            if self._state != state:
                self._open(state)
            found = self._collection.query(
                query_embeddings=[vector], n_results=min(k, self._collection.count()), include=["distances"]
            )
        return [
            (content, 1 - distance) for content, distance in zip(found["ids"][0], found["distances"][0], strict=True)
        ]

    def _open(self, state: str) -> None:
        if not chroma_available():
            raise MissingExtraError("Search among many vectors", "chroma")
        import chromadb
        from chromadb.config import Settings

        self.close()
        try:
            self._client = chromadb.PersistentClient(str(self._folder), settings=Settings(anonymized_telemetry=False))
            self._collection = self._client.get_or_create_collection(
                "ragweave", embedding_function=None, configuration={"hnsw": {"space": "cosine", "ef_search": 200}}
            )
        except Exception as error:
            said = " ".join(str(error).split())
            raise KnowledgeBaseError(f"{self._folder}: Chroma cannot be used ({said})") from error
        self._state = state

    def close(self) -> None:
        """Close the client; the next use opens it again."""
        if self._client is not None:
            self._client.close()
        self._client, self._collection, self._state = None, None, ""
