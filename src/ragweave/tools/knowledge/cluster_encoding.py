"""Encoding passages: a batch at a time here, or many batches at once on the nodes of a Ray cluster.

Whoever writes a knowledge base stores the vectors, in passage order, as if they had been made here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from langchain_core.embeddings import Embeddings

from ragweave.tools.cluster import Ask, Pool, Work, check_address, connected
from ragweave.tools.retrieval.embedding import named_embeddings

BATCH = 64
"""Texts that a model encodes at a time."""
_EACH = 4
"""Batches that a process on a node is given at a time."""


def texts_at_once(embeddings: Embeddings | None) -> int:
    """Return how many texts to hand over in a call, so that all that encode have work."""
    return embeddings.at_once if isinstance(embeddings, ClusterEmbeddings) else BATCH


@dataclass(frozen=True)
class _Encoder:
    """Makes an embedding model ready on a node."""

    name: str

    async def __call__(self) -> Work:
        embeddings = await asyncio.to_thread(named_embeddings, self.name)

        async def encode(texts: Sequence[str], _ask: Ask) -> list[list[float]]:
            return await asyncio.to_thread(embeddings.embed_documents, list(texts))

        return encode


class ClusterEmbeddings(Embeddings):
    """An embedding model whose copies on the nodes of a Ray cluster encode passages.

    A context manager. The cluster is connected to at the first passage; questions are encoded here.
    """

    def __init__(self, name: str, here: Embeddings, address: str, prefix: str = "") -> None:
        """Take the model.

        Args:
            name: Its name, by which each node loads it.
            here: The model of this process.
            address: The cluster's address (`connected`).
            prefix: What the model reads before each passage.

        Raises:
            MissingExtraError: Ray is not installed.
            UsageError: The address is none.
        """
        check_address(address)
        self._name, self._here, self._address = name, here, address
        self._prefix = prefix
        self._stack = ExitStack()
        self._pool: Pool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes on the nodes."""
        self._stack.close()
        self._pool = None

    @property
    def at_once(self) -> int:
        """How many texts keep all processes busy; as many as one takes while none is left."""
        return max(1, self._started().size) * _EACH * BATCH

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Have texts encoded by the nodes.

        Raises:
            UsageError: No cluster answers, or a node lacks the model.
            NoNodeError: All nodes were lost.
        """
        pool = self._started()
        texts = [f"{self._prefix}{text}" for text in texts]
        parts = [texts[first : first + BATCH] for first in range(0, len(texts), BATCH)]
        found = self._wait(_all(pool, parts))
        return [vector for part in found for vector in part]

    def embed_query(self, text: str) -> list[float]:
        """Encode a question here."""
        return self._here.embed_query(text)

    def _started(self) -> Pool:
        if self._pool is None:
            ray = self._stack.enter_context(connected(self._address))
            self._loop = asyncio.new_event_loop()
            thread = threading.Thread(target=self._loop.run_forever, name="ragweave-ray")
            thread.start()
            self._stack.callback(self._end, thread)
            pool = Pool(ray, _Encoder(self._name), jobs=2**16, whole_nodes=True)
            self._wait(pool.__aenter__())
            self._stack.callback(lambda: self._wait(pool.__aexit__()))
            self._pool = pool
        return self._pool

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        assert self._loop is not None  # noqa: S101 - `_started` made it
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self, thread: threading.Thread) -> None:
        assert self._loop is not None  # noqa: S101 - `_started` made it
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join()
        self._loop.close()
        self._loop = None


async def _all(pool: Pool, parts: Sequence[list[str]]) -> list[list[list[float]]]:
    """Return the vectors of several batches, in their order."""

    async def one(part: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = await pool.do(lambda _attempt: part)
        return vectors

    return await asyncio.gather(*map(one, parts))
