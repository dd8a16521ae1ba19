"""Chroma clients: one a folder or server and process, opened again for a newer generation."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragweave.errors import KnowledgeBaseError


class Client:
    """A Chroma client, opened when needed; hold `lock` while you use it."""

    def __init__(self, key: str, make: Any) -> None:
        self.key = key
        self.lock = threading.RLock()
        self.users = 0
        self._make = make
        self._open: Any = None
        self._collections: dict[str, Any] = {}
        self._generation: int | None = None

    def collection(self, name: str, generation: int | None = None, *, make: bool) -> Any:
        """Return a collection as `generation` or a later one has it.

        Args:
            name: The collection.
            generation: What the knowledge base stands at; None takes what is open.
            make: Make it where there is none; else Chroma's NotFoundError says so.
        """
        if generation is not None and generation != self._generation:
            # Embedded Chroma never looks again at files that another process changed.
            self.forget()
            self._generation = generation
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
        """Close; the next use opens anew."""
        with self.lock:
            self._collections.clear()
            if self._open is not None:
                self._open.close()
            self._open = None
            self._generation = None

    def release(self) -> None:
        """End one user's use; the last one's end closes."""
        with _clients_lock:
            self.users -= 1
            if not self.users:
                _clients.pop(self.key, None)
                self.forget()


_clients: dict[str, Client] = {}
_clients_lock = threading.Lock()


def _shared(key: str, make: Any) -> Client:
    # Chroma itself keeps one client a folder and process; so must we, or none could be reopened.
    with _clients_lock:
        client = _clients.setdefault(key, Client(key, make))
        client.users += 1
        return client


def local_client(folder: Path) -> Client:
    """Return the client of an embedded Chroma under `folder`."""

    def make() -> Any:
        import chromadb
        from chromadb.config import Settings

        return chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))

    return _shared(str(folder.resolve()), make)


def server_client(url: str) -> Client:
    """Return the client of a server (KnowledgeBaseError at first use if none answers)."""

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
                f"No Chroma server answers at {url}: {one_line(error)}"
            ) from error

    return _shared(url, make)


def one_line(error: BaseException) -> str:
    """Return the text of an error on one line."""
    return " ".join(str(error).split())[:200]
