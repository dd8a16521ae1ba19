"""Embeddings in Chroma, embedded under the knowledge base or on a server.

Vectors are kept by content, whatever generation they belong to: a search that asks for more and
drops what its generation does not see stays right while another process writes.
"""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragweave.errors import KnowledgeBaseError, MissingExtraError
from ragweave.tools.knowledge.chroma import local_client, one_line, server_client
from ragweave.tools.knowledge.lock import vector_lock

FOLDER = "chroma"
COLLECTION = "ragweave-"
"""What the names of our collections begin with."""
_DATABASE = "chroma.sqlite3"
_PAGE = 5_000


class Vectors:
    """The Chroma collection of a knowledge base; safe under threads and between processes."""

    def __init__(self, folder: Path, collection: str, url: str | None = None) -> None:
        """Say where the vectors are; Chroma is opened at first use.

        Raises:
            MissingExtraError: chromadb is not installed.
        """
        if find_spec("chromadb") is None:
            raise MissingExtraError("Dense retrieval", "chroma")
        self._folder = folder
        self._name = collection
        self._client = server_client(url) if url else local_client(folder / FOLDER)
        self._embedded = url is None

    def missing(self, contents: Sequence[str]) -> list[str]:
        """Return those of `contents` that have no vector yet, in order."""
        with self._use(write=True) as collection:
            held = {
                one
                for first in range(0, len(contents), _PAGE)
                for one in collection.get(ids=list(contents[first : first + _PAGE]), include=[])[
                    "ids"
                ]
            }
        return [one for one in contents if one not in held]

    def put(self, contents: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
        """Keep a vector a content."""
        with self._use(write=True) as collection:
            size = self._client.batch_size()
            for first in range(0, len(contents), size):
                part = slice(first, first + size)
                collection.upsert(ids=list(contents[part]), embeddings=list(vectors[part]))

    def delete(self, contents: Sequence[str]) -> None:
        """Forget contents, known or not."""
        with self._use(write=True) as collection:
            size = self._client.batch_size()
            for first in range(0, len(contents), size):
                collection.delete(ids=list(contents[first : first + size]))

    def contents(self, generation: int | None = None) -> list[str]:
        """Return every content that has a vector; of a `generation`, without making anything."""
        with self._use(write=generation is None, generation=generation) as collection:
            return [
                one
                for first in range(0, collection.count(), _PAGE)
                for one in collection.get(limit=_PAGE, offset=first, include=[])["ids"]
            ]

    def count(self) -> int:
        """Return the number of vectors."""
        with self._use(write=True) as collection:
            return int(collection.count())

    def strays(self) -> list[str]:
        """Return our other collections in an embedded Chroma, which no manifest names."""
        if not self._embedded or not (self._folder / FOLDER / _DATABASE).exists():
            return []
        with self._use(write=True):
            names = self._client.names()
        return [name for name in names if name.startswith(COLLECTION) and name != self._name]

    def collect(self, known: Container[str]) -> int:
        """Forget every content that is not in `known`, and stray collections.

        Returns:
            How many vectors of this collection went.
        """
        orphans = [one for one in self.contents() if one not in known]
        if orphans:
            self.delete(orphans)
        for name in self.strays():
            with self._use(write=True):
                self._client.drop(name)
        return len(orphans)

    def discard(self) -> None:
        """Throw an embedded Chroma away that cannot be used; the next write makes a new one."""
        self._client.forget()
        if self._embedded:
            with vector_lock(self._folder, write=True):
                shutil.rmtree(self._folder / FOLDER, ignore_errors=True)

    def nearest(self, vector: Sequence[float], n: int, generation: int) -> list[tuple[str, float]]:
        """Return up to `n` (content, cosine similarity), nearest first.

        Args:
            vector: The query's embedding.
            n: How many.
            generation: What the knowledge base stands at; a newer one has files to open again.

        Raises:
            KnowledgeBaseError: There is no vector at all, though the caller knows of passages.
        """
        with self._use(write=False, generation=generation) as collection:
            wanted = min(n, collection.count())
            if not wanted:
                raise self._lost()
            found = collection.query(
                query_embeddings=[list(vector)], n_results=wanted, include=["distances"]
            )
        return [
            (content, 1 - distance)
            for content, distance in zip(found["ids"][0], found["distances"][0], strict=True)
        ]

    def reopen(self) -> None:
        """See what other processes wrote."""
        self._client.forget()

    def close(self) -> None:
        """Give the client back."""
        self._client.release()

    def _lost(self) -> KnowledgeBaseError:
        self._client.forget()  # so that the next query sees what `index` mends
        return KnowledgeBaseError(
            f"{self._folder} is damaged: its vectors are missing; run ragweave index again on any "
            "of its files to embed its passages anew"
        )

    @contextmanager
    def _use(self, *, write: bool, generation: int | None = None) -> Iterator[Any]:
        from chromadb.errors import ChromaError, NotFoundError

        try:
            with self._client.lock:
                if not self._embedded:
                    yield self._client.collection(self._name, make=write)
                    return
                with vector_lock(self._folder, write=write):
                    if not write and not (self._folder / FOLDER / _DATABASE).exists():
                        raise self._lost()  # to open it would make an empty one
                    yield self._client.collection(self._name, generation, make=write)
        except NotFoundError:
            raise self._lost() from None
        except ChromaError as error:
            raise KnowledgeBaseError(
                f"The vectors of {self._folder} cannot be used ({one_line(error)}); if this stays, "
                "delete the knowledge base and index again"
            ) from error
