"""The vectors of a knowledge base: in Chroma, embedded under its folder or on a server.

Vectors are stored by content, whatever generation they belong to: a search requests a few more and
drops those that its generation does not see, and so stays correct while another process writes.
There is one Chroma client per process and folder (or server), reopened for a newer generation.
"""

from __future__ import annotations

import heapq
import shutil
import threading
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError, MissingExtraError
from ragweave.tools.knowledge.exact import unit_rows
from ragweave.tools.knowledge.manifest import vector_lock


class Client:
    """A Chroma client, opened when needed; hold `lock` while you use it."""

    def __init__(self, key: str, make: Any) -> None:
        self.key = key
        self.lock = threading.RLock()
        self.users = 0
        self._make = make
        self._open: Any = None
        self._collections: dict[str, Any] = {}
        self._opened_for: tuple[str, int] | None = None
        """The collection and its generation."""

    def collection(self, name: str, generation: int | None = None, *, make: bool) -> Any:
        """Return a collection as `generation` or a later one has it.

        Args:
            name: The collection.
            generation: The knowledge base's current generation; None takes what is open.
            make: Create it where there is none; otherwise Chroma raises NotFoundError.
        """
        if generation is not None and (name, generation) != self._opened_for:
            # Embedded Chroma never looks again at files that another process changed.
            self.forget()
            self._opened_for = (name, generation)
        if self._open is None:
            self._open = self._make()
        if name not in self._collections:
            self._collections[name] = (
                self._open.get_or_create_collection(
                    name,
                    embedding_function=None,
                    configuration={"hnsw": {"space": "cosine", "ef_search": 200}},
                )
                if make
                else self._open.get_collection(name, embedding_function=None)
            )
        return self._collections[name]

    def batch_size(self) -> int:
        """Return the most records that one call takes; a collection has been used before."""
        return int(self._open.get_max_batch_size())

    def names(self) -> list[str]:
        """Return the names of all collections; one has been used before."""
        return [one.name for one in self._open.list_collections()]

    def drop(self, name: str) -> None:
        """Delete a collection; one has been used before."""
        self._collections.pop(name, None)
        self._open.delete_collection(name)

    def forget(self) -> None:
        """Close; the next use opens it again."""
        with self.lock:
            self._collections.clear()
            if self._open is not None:
                self._open.close()
            self._open = None
            self._opened_for = None

    def release(self) -> None:
        """Release one user; closes after the last one."""
        with _clients_lock:
            self.users -= 1
            if not self.users:
                _clients.pop(self.key, None)
                self.forget()


_clients: dict[str, Client] = {}
_clients_lock = threading.Lock()


def _shared(key: str, make: Any) -> Client:
    # Chroma itself keeps one client per folder and process; so must we, to reopen it.
    with _clients_lock:
        client = _clients.setdefault(key, Client(key, make))
        client.users += 1
        return client


def local_client(folder: Path) -> Client:
    """Return the client of an embedded Chroma under `folder`."""

    def make() -> Any:
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False)
        try:
            return chromadb.PersistentClient(str(folder), settings=settings)
        except BaseException as error:
            # Chroma's own: an error while it clears up after a file that it can't read, or a panic
            if not isinstance(error, AttributeError) and not _is_panic(error):
                raise
            why = one_line(error.__context__ or error)
            raise KnowledgeBaseError(
                f"the vectors in {folder} cannot be opened ({why}); delete that folder and index "
                "again: the vectors are made anew"
            ) from error

    return _shared(str(folder.resolve()), make)


def server_client(url: str) -> Client:
    """Return the client of a server (first use raises KnowledgeBaseError if it does not answer)."""

    def make() -> Any:
        import chromadb
        import httpx
        from chromadb.config import Settings

        parts = urlsplit(url)
        try:
            return chromadb.HttpClient(
                host=parts.hostname or "localhost",
                port=parts.port or (443 if parts.scheme == "https" else 8000),
                ssl=parts.scheme == "https",
                settings=Settings(anonymized_telemetry=False),
            )
        except (ValueError, OSError, httpx.HTTPError) as error:
            raise KnowledgeBaseError(
                f"no Chroma server answers at {url}: {one_line(error)}"
            ) from error

    return _shared(url, make)


def _is_panic(error: BaseException) -> bool:
    """Tell a panic of Chroma's Rust code, which is no `Exception` and has no public class."""
    return type(error).__name__ == "PanicException"


def one_line(error: BaseException) -> str:
    """Return the text of an error on one line."""
    return " ".join(str(error).split())[:200]


class Near(NamedTuple):
    """What a search of the vectors found."""

    similarity: dict[str, float]
    """Cosine similarity by content, nearest first."""
    missed: bool
    """Whether there are fewer than were asked for, though there are more vectors."""


FOLDER = "chroma"
COLLECTION = "ragweave-"
"""Prefix of our collections' names."""
_DATABASE = "chroma.sqlite3"
_PAGE = 5_000


class Vectors:
    """The Chroma collection of a knowledge base; safe under threads and between processes."""

    def __init__(self, folder: Path, collection: str, url: str | None = None) -> None:
        """Set where the vectors are; Chroma is opened at first use.

        Raises:
            MissingExtraError: chromadb is not installed.
        """
        if find_spec("chromadb") is None:
            raise MissingExtraError("Dense retrieval", "chroma")
        self._folder = folder
        self.collection = collection
        self._client = server_client(url) if url else local_client(folder / FOLDER)
        self.embedded = url is None
        """Whether they are in the knowledge base's folder, not on a server."""

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
        """Store one vector per content."""
        with self._use(write=True) as collection:
            size = self._client.batch_size()
            for first in range(0, len(contents), size):
                part = slice(first, first + size)
                collection.upsert(ids=list(contents[part]), embeddings=list(vectors[part]))

    def delete(self, contents: Sequence[str]) -> None:
        """Delete the vectors of contents, known or not."""
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
        """Return our unused collections in an embedded Chroma, which no manifest names."""
        if not self.embedded or not (self._folder / FOLDER / _DATABASE).exists():
            return []
        with self._use(write=True):
            names = self._client.names()
        return [name for name in names if name.startswith(COLLECTION) and name != self.collection]

    def collect(self, known: Container[str]) -> int:
        """Delete every content that is not in `known`, and unused collections.

        Returns:
            How many vectors of this collection were deleted.
        """
        orphans = [one for one in self.contents() if one not in known]
        if orphans:
            self.delete(orphans)
        for name in self.strays():
            with self._use(write=True):
                self._client.drop(name)
        return len(orphans)

    def discard(self) -> None:
        """Delete an embedded Chroma that cannot be used; the next write makes a new one."""
        self._client.forget()
        if self.embedded:
            with vector_lock(self._folder, write=True):
                shutil.rmtree(self._folder / FOLDER, ignore_errors=True)

    def nearest(self, vector: Sequence[float], n: int, generation: int) -> Near:
        """Return up to `n` contents with their cosine similarity, nearest first.

        Args:
            vector: The query's embedding.
            n: How many.
            generation: The knowledge base's current generation; a newer one is reopened.

        Raises:
            KnowledgeBaseError: There are no vectors at all, though there are passages.
        """
        with self._use(write=False, generation=generation) as collection:
            count = min(n, collection.count())
            if not count:
                raise self._lost()
            found = collection.query(
                query_embeddings=[list(vector)], n_results=count, include=["distances"]
            )
        pairs = zip(found["ids"][0], found["distances"][0], strict=True)
        near = {content: 1 - distance for content, distance in pairs}
        return Near(near, missed=len(near) < count)

    def nearest_of(
        self, contents: Sequence[str], vector: Sequence[float], n: int, generation: int
    ) -> dict[str, float]:
        """Return the `n` nearest of some contents, as `nearest` does, by comparing with each.

        The index's own search is approximate: among many equal or nearly equal vectors it misses
        what its graph does not reach from the query.

        Args:
            contents: Contents; those without a vector are left out.
            vector: The query's embedding.
            n: How many.
            generation: The knowledge base's current generation; a newer one is reopened.
        """
        wanted = unit_rows([vector])[0]
        best: list[tuple[float, str]] = []
        for names, rows in self._stored(contents, generation):
            best = heapq.nlargest(n, [*best, *zip((rows @ wanted).tolist(), names, strict=True)])
        return {content: score for score, content in best}

    def rows(self, contents: Sequence[str], generation: int | None = None) -> NDArray[np.float32]:
        """Return the vectors of `contents` in their order, as rows of length 1.

        Raises:
            KnowledgeBaseError: One has no vector.
        """
        places = {content: place for place, content in enumerate(contents)}
        made: NDArray[np.float32] | None = None
        taken = 0
        for names, rows in self._stored(list(places), generation):
            if made is None:
                made = np.empty((len(contents), rows.shape[1]), np.float32)
            made[[places[name] for name in names]] = rows
            taken += len(names)
        if made is None or taken < len(places):
            raise self._lost()
        for place, content in enumerate(contents):
            made[place] = made[places[content]]
        return made

    def _stored(
        self, contents: Sequence[str], generation: int | None
    ) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
        """Give those of `contents` that have vectors, page by page, with these at length 1."""
        for first in range(0, len(contents), _PAGE):
            part = list(contents[first : first + _PAGE])
            with self._use(write=False, generation=generation) as collection:
                held = collection.get(ids=part, include=["embeddings"])
            if held["ids"]:
                yield list(held["ids"]), unit_rows(held["embeddings"])

    def reopen(self) -> None:
        """Reopen the files at the next use, to see what other processes wrote."""
        self._client.forget()

    def close(self) -> None:
        """Release the client."""
        self._client.release()

    def _lost(self) -> KnowledgeBaseError:
        self._client.forget()  # so that the next query sees what `index` repairs
        return KnowledgeBaseError(
            f"{self._folder} is damaged: its vectors are missing; run ragweave index again on any "
            "of its files to embed its passages again"
        )

    @contextmanager
    def _use(self, *, write: bool, generation: int | None = None) -> Iterator[Any]:
        from chromadb.errors import ChromaError, NotFoundError

        try:
            with self._client.lock:
                if not self.embedded:
                    yield self._client.collection(self.collection, make=write)
                    return
                with vector_lock(self._folder, write=write):
                    if not write and not (self._folder / FOLDER / _DATABASE).exists():
                        raise self._lost()  # to open it would make an empty one
                    yield self._client.collection(self.collection, generation, make=write)
        except NotFoundError:
            raise self._lost() from None
        except BaseException as error:
            if not isinstance(error, ChromaError) and not _is_panic(error):
                raise
            raise KnowledgeBaseError(
                f"the vectors of {self._folder} cannot be used ({one_line(error)}); if this "
                "persists, delete the knowledge base and index again"
            ) from error
