"""Knowledge bases in Qdrant: a server by its URL, or its local mode in a folder.

LangChain's QdrantVectorStore can neither change the payload of points that are there nor read
their vectors back, which incremental writes need; so this uses Qdrant's own client. Words are
sparse vectors: Qdrant weighs them by their rarity, and BM25's other factor is stored with each
passage, for the mean length that passages had when the collection was made.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragweave.errors import KnowledgeBaseError, MissingExtraError, UsageError
from ragweave.tools.stores.address import Address
from ragweave.tools.stores.passage_store import (
    K1,
    MANIFEST,
    B,
    Held,
    Hit,
    Key,
    PassageStore,
    Row,
    StoreKind,
)
from ragweave.tools.stores.qdrant_clients import API_KEY, Client, is_url, shared
from ragweave.tools.text.secrets import without_secrets

_PAGE = 1_000
_BATCH = 256
_DENSE, _WORDS = "dense", "words"
_KEY = ["id", "content", "document", "source", "place", "added", "removed"]
_NAMES = uuid.UUID("5f0f6a5e-7a3d-4a53-9f52-0a4b8f6f2d11")
_EARLIER = "_records"
"""What the names of the collections of records of earlier versions end with."""
_AVERAGE = "weights"
"""The record that holds the mean length."""


class QdrantStore(PassageStore):
    """A collection of Qdrant's, and a second one for the records."""

    def __init__(self, address: Address) -> None:
        """Take the address of a server (`qdrant:http://host:6333#collection`), or of a folder.

        Raises:
            MissingExtraError: qdrant-client is not installed.
            UsageError: The address holds a key or a setting, or is of another kind of server.
        """
        super().__init__(address)
        if find_spec("qdrant_client") is None:
            raise MissingExtraError("Qdrant", "qdrant")
        if "://" in address.place and not is_url(address.place):
            raise UsageError(f"{address}: must look like qdrant:http://HOST:PORT#COLLECTION")
        if address.sends_password:
            raise UsageError(f"{address}: give Qdrant's key by the environment ({API_KEY})")
        url = is_url(address.place)
        if url:
            address.settings()
        self._place = address.place if url else str(Path(address.place).expanduser().absolute())
        self._rows = f"ragweave_{address.collection}"
        self._records = ""
        """The collection of the records, once it is known to be the one of this version."""
        self._client: Client | None = None
        self._lock = threading.Lock()
        self._mean: float | None = None

    def record(self, name: str) -> dict[str, Any] | None:
        """Return a record, or None."""
        with self._use() as client:
            records = self._records_in(client)
            if not client.collection_exists(records):
                return None
            found = client.retrieve(records, [_point(name)], with_payload=True)
        return dict(found[0].payload["value"]) if found else None

    def records(self, prefix: str) -> list[str]:
        """Return the names of the records that begin so, sorted."""
        with self._use() as client:
            collection = self._records_in(client)
        names = [one.payload["name"] for one in self._scroll(collection, ["name"])]
        return sorted(name for name in names if name.startswith(prefix))

    def put_record(self, name: str, values: Mapping[str, Any]) -> None:
        """Store or replace a record."""
        from qdrant_client import models

        with self._use() as client:
            records = self._records_in(client)
            self._refuse_shared(client)
            if not client.collection_exists(records):
                client.create_collection(records, vectors_config={})
            payload = {"name": name, "value": dict(values)}
            point = models.PointStruct(id=_point(name), vector={}, payload=payload)
            strong = {} if not is_url(self._place) else {"ordering": models.WriteOrdering.STRONG}
            client.upsert(records, [point], wait=True, **strong)

    def drop_records(self, names: Sequence[str]) -> None:
        """Delete records, known or not."""
        with self._use() as client:
            records = self._records_in(client)
            if client.collection_exists(records):
                client.delete(records, [_point(name) for name in names], wait=True)

    def _records_in(self, client: Any) -> str:
        """Return the name of the collection of the records.

        No knowledge base can have a `-` in its name. Earlier versions kept the records of X where
        X_records has its rows: they are used where they are, until they are dropped.
        """
        if not self._records:
            earlier = f"{self._rows}{_EARLIER}"
            if _has_manifest(client, earlier):
                return earlier
            self._records = f"{self._rows}-records"
        return self._records

    def _refuse_shared(self, client: Any) -> None:
        """Make sure that no records of another knowledge base stand where the rows should be."""
        if self._rows.endswith(_EARLIER) and _has_manifest(client, self._rows):
            other = self.address.collection.removesuffix(_EARLIER)
            raise KnowledgeBaseError(
                f"{self.address} cannot be used: an earlier version keeps the manifest of #{other} "
                "there; choose another collection"
            )

    def prepare(self, dimension: int | None, average: float) -> None:
        """Make the collection where there is none."""
        from qdrant_client import models

        with self._use() as client:
            if not client.collection_exists(self._rows):
                dense = models.VectorParams(size=dimension or 1, distance=models.Distance.COSINE)
                client.create_collection(
                    self._rows,
                    vectors_config={} if dimension is None else {_DENSE: dense},
                    sparse_vectors_config={
                        _WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)
                    },
                )
                if is_url(self._place):
                    self._index_payload(client)
            if self.record(_AVERAGE) is None:
                self.put_record(_AVERAGE, {"mean": average})

    def _index_payload(self, client: Any) -> None:
        from qdrant_client.models import PayloadSchemaType as Kind

        for field in ("added", "removed"):
            client.create_payload_index(self._rows, field, field_schema=Kind.INTEGER, wait=True)
        client.create_payload_index(self._rows, "content", field_schema=Kind.KEYWORD, wait=True)

    def keys(self) -> Iterator[Key]:
        """Return the keys of all rows."""
        for one in self._scroll(self._rows, _KEY):
            yield Key(str(one.id), *(one.payload[name] for name in _KEY))

    def held(self) -> Iterator[Held]:
        """Return all rows as a check reads them."""
        for one in self._scroll(self._rows, True, vectors=True):
            key = Key(str(one.id), *(one.payload[name] for name in _KEY))
            vectors = one.vector or {}
            words = len(vectors[_WORDS].indices) if _WORDS in vectors else 0
            dimension = len(vectors.get(_DENSE) or ())
            yield Held(key, one.payload["text"], one.payload["metadata"], words, dimension)

    def _scroll(self, collection: str, payload: Any, *, vectors: bool = False) -> Iterator[Any]:
        offset = None
        while True:
            with self._use() as client:
                if not client.collection_exists(collection):
                    return
                found, offset = client.scroll(
                    collection,
                    limit=_PAGE,
                    offset=offset,
                    with_payload=payload,
                    with_vectors=vectors,
                )
            yield from found
            if offset is None:
                return

    def put(self, rows: Sequence[Row]) -> None:
        """Store rows."""
        for part in _parts(rows, _BATCH):
            points = [self._point_of(row) for row in part]
            with self._use() as client:
                client.upsert(self._rows, points, wait=True)

    def _point_of(self, row: Row) -> Any:
        from qdrant_client import models

        vector: dict[str, Any] = {_WORDS: models.SparseVector(**self._weights(row.terms))}
        if row.vector is not None:
            vector[_DENSE] = list(row.vector)
        payload = dict(zip(_KEY, row.key[1:], strict=True))
        payload |= {"text": row.text, "metadata": row.metadata}
        return models.PointStruct(id=row.key.key, vector=vector, payload=payload)

    def _weights(self, terms: Sequence[str]) -> dict[str, list[Any]]:
        """Return BM25's weight of each word within the passage; Qdrant adds that of rarity."""
        counts = Counter(map(_number, terms))
        relative = K1 * (1 - B + B * len(terms) / self._mean_length())
        weights = [count / (count + relative) for count in counts.values()]
        return {"indices": list(counts), "values": weights}

    def _mean_length(self) -> float:
        if self._mean is None:
            self._mean = float((self.record(_AVERAGE) or {}).get("mean") or 1.0)
        return self._mean

    def retire(self, keys: Sequence[str], generation: int) -> None:
        """Set `removed` of rows."""
        for part in _parts(keys, _PAGE):
            with self._use() as client:
                client.set_payload(
                    self._rows, {"removed": generation}, points=list(part), wait=True
                )

    def delete(self, keys: Sequence[str]) -> None:
        """Delete rows, known or not."""
        for part in _parts(keys, _PAGE):
            with self._use() as client:
                client.delete(self._rows, list(part), wait=True)

    def vectors(self, contents: Sequence[str]) -> dict[str, list[float]]:
        """Return the vectors of those contents that some row has one of."""
        from qdrant_client import models

        wanted = models.Filter(
            must=[models.FieldCondition(key="content", match=models.MatchAny(any=list(contents)))]
        )
        found: dict[str, list[float]] = {}
        offset = None
        with self._use() as client:
            while contents and client.collection_exists(self._rows):
                points, offset = client.scroll(
                    self._rows,
                    scroll_filter=wanted,
                    limit=_PAGE,
                    offset=offset,
                    with_payload=["content"],
                    with_vectors=[_DENSE],
                )
                for one in points:
                    if (one.vector or {}).get(_DENSE):
                        found[one.payload["content"]] = list(one.vector[_DENSE])
                if offset is None:
                    break
        return found

    def metadata(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the metadata of rows by their keys."""
        if not keys:
            return {}
        with self._use() as client:
            found = client.retrieve(self._rows, list(keys), with_payload=["metadata"])
        return {str(one.id): one.payload["metadata"] for one in found}

    def nearest(self, vector: Sequence[float], n: int, generation: int) -> list[Hit]:
        """Return up to `n` visible rows by cosine similarity."""
        return self._search(list(vector), _DENSE, n, generation)

    def matching(self, terms: Counter[str], n: int, generation: int) -> list[Hit]:
        """Return up to `n` visible rows by BM25, as far as sparse vectors tell it."""
        from qdrant_client import models

        counts: Counter[int] = Counter()
        for word, count in terms.items():
            counts[_number(word)] += count
        if not counts:
            return []
        values = [float(count) for count in counts.values()]
        query = models.SparseVector(indices=list(counts), values=values)
        return [hit for hit in self._search(query, _WORDS, n, generation) if hit.score > 0]

    def _search(self, query: Any, using: str, n: int, generation: int) -> list[Hit]:
        from qdrant_client import models

        seen = models.Filter(
            must=[
                models.FieldCondition(key="added", range=models.Range(lte=generation)),
                models.FieldCondition(key="removed", range=models.Range(gt=generation)),
            ]
        )
        with self._use() as client:
            if not client.collection_exists(self._rows):
                return []
            found = client.query_points(
                self._rows, query=query, using=using, query_filter=seen, limit=n, with_payload=True
            ).points
        fields = ("id", "content", "source", "place", "text", "metadata")
        values = [[*(one.payload[name] for name in fields), one.score] for one in found]
        return [Hit(*one) for one in values]

    def distinct(self, terms: Sequence[str]) -> int:
        """Return how many different numbers the words have."""
        return len({_number(term) for term in terms})

    def drop(self) -> None:
        """Delete both collections."""
        with self._use() as client:
            self._refuse_shared(client)
            for name in (self._rows, self._records_in(client)):
                if client.collection_exists(name):
                    client.delete_collection(name)

    def close(self) -> None:
        """Release the client."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.release()

    def _taken(self) -> Client:
        """Return the client for a call, which must release it: another thread may close the store."""
        with self._lock:
            if self._client is None:
                self._client = shared(self._place)
            return shared(self._place)

    @contextmanager
    def _use(self) -> Iterator[Any]:
        from qdrant_client.http.exceptions import ApiException

        taken = self._taken()
        try:
            with taken.lock:
                yield taken.get()
        except KnowledgeBaseError:
            raise
        except (ApiException, OSError) as error:
            verb = "cannot be reached" if not hasattr(error, "status_code") else "refused"
            raise KnowledgeBaseError(f"{self.address} {verb}: {_line(error)}") from error
        except (ValueError, RuntimeError, sqlite3.Error) as error:
            # The local mode's own: another process has the folder, its files are damaged, or a
            # shape does not fit.
            raise KnowledgeBaseError(f"{self.address} cannot be used: {_line(error)}") from error
        finally:
            taken.release()


def _has_manifest(client: Any, collection: str) -> bool:
    """Return whether a collection holds records; the keys of rows are others than theirs."""
    if not client.collection_exists(collection):
        return False
    return bool(client.retrieve(collection, [_point(MANIFEST)], with_payload=False))


def _point(name: str) -> str:
    return str(uuid.uuid5(_NAMES, name))


def _number(term: str) -> int:
    """Return the dimension of a word: 32 bits of its hash, few of which coincide."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "little")


def _parts(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for first in range(0, len(values), size):
        yield values[first : first + size]


def _line(error: BaseException) -> str:
    status = getattr(error, "status_code", None)
    text = f"{status} {getattr(error, 'reason_phrase', '')}" if status else str(error)
    if status in (401, 403):
        text += f"; give its key by the environment ({API_KEY})"
    return without_secrets(" ".join(text.split())[:300])


STORE = StoreKind(
    name="qdrant",
    spec="qdrant:http://HOST:6333#COLLECTION, or qdrant:FOLDER#COLLECTION",
    summary="Qdrant, a server or its local mode",
    open=QdrantStore,
)
