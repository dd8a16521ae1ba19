"""Knowledge bases in Elasticsearch or OpenSearch: their own BM25, and their vectors by HNSW.

Passages are documents of the index `ragweave-COLLECTION`, records those of a second one. Words are
analysed here, as in a folder, and stored apart by blanks; the engine weighs them with the same
constants. Its scores differ a little: it rounds the lengths of passages, and counts those that
earlier generations left among the passages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.stores.address import Address
from ragweave.tools.stores.engines import Elasticsearch, Engine, OpenSearch
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

_PAGE = 2_000
_BULK = 500
_DEEPEST = 10_000
"""The most hits that a search gives."""
_KEY = ("key", "id", "content", "document", "source", "place", "added", "removed")
_SHOWN = ("id", "content", "source", "place", "text", "metadata")
_KEPT: dict[str, Any] = {"type": "keyword", "index": False, "doc_values": False}
_FIELDS: dict[str, dict[str, Any]] = {
    "key": {"type": "keyword"},
    "content": {"type": "keyword"},
    "id": _KEPT,
    "document": _KEPT,
    "source": {"type": "keyword", "index": False},
    "text": {"type": "text", "index": False},
    "metadata": {"type": "text", "index": False},
    "place": {"type": "long"},
    "added": {"type": "long"},
    "removed": {"type": "long"},
    "words": {"type": "text", "analyzer": "whitespace", "similarity": "ragweave"},
}


class SearchEngineStore(PassageStore):
    """A collection in two indices of a search engine."""

    def __init__(self, address: Address, make: Callable[[Address], Engine]) -> None:
        """Take the address of a server (`es:https://user@host:9200#collection`).

        Raises:
            MissingExtraError: The engine's client is not installed.
            UsageError: The address is no URL.
        """
        super().__init__(address)
        self._engine = make(address)
        self._rows = f"ragweave-{address.collection}"
        self._records = f"{self._rows}-records"
        self._unseen = False
        """Whether this store wrote rows that a search may not see yet."""

    def record(self, name: str) -> dict[str, Any] | None:
        """Return a record, or None."""
        status, found = self._send("GET", _document(self._records, name))
        return None if status == 404 else dict(found["_source"]["value"])

    def records(self, prefix: str) -> list[str]:
        """Return the names of the records that begin so, sorted."""
        self._send("POST", f"{self._records}/_refresh")
        pages = self._pages(self._records, "name", ("name",))
        return [name for (name, *_) in pages if name.startswith(prefix)]

    def put_record(self, name: str, values: Mapping[str, Any]) -> None:
        """Store or replace a record."""
        self._make_records()
        body = {"name": name, "value": dict(values)}
        self._send("PUT", _document(self._records, name), body, {"refresh": "true"})

    def drop_records(self, names: Sequence[str]) -> None:
        """Delete records, known or not."""
        for name in names:
            self._send("DELETE", _document(self._records, name), None, {"refresh": "true"})

    def switch(self, before: int, manifest: Mapping[str, Any]) -> bool:
        """Replace the manifest if it is still that of generation `before`, by its version."""
        path = _document(self._records, MANIFEST)
        status, held = self._send("GET", path)
        if status == 404 or held["_source"]["value"].get("generation") != before:
            return False
        version = {"if_seq_no": held["_seq_no"], "if_primary_term": held["_primary_term"]}
        body = {"name": MANIFEST, "value": dict(manifest)}
        status, _ = self._send("PUT", path, body, {**version, "refresh": "true"})
        return status != 409

    def _make_records(self) -> None:
        fields = {"name": {"type": "keyword"}, "value": {"type": "object", "enabled": False}}
        self._make(self._records, fields, {})

    def _make(self, index: str, fields: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        if self._send("GET", index)[0] != 404:
            return
        body = {"mappings": {"dynamic": "strict", "properties": fields}, "settings": settings}
        try:
            self._send("PUT", index, body)
        except KnowledgeBaseError:
            if self._send("GET", index)[0] == 404:  # not made by another writer meanwhile
                raise

    def prepare(self, dimension: int | None, average: float) -> None:
        """Make the index where there is none."""
        del average  # the engine knows its own
        vector = {} if dimension is None else {"vector": self._engine.vector_field(dimension)}
        settings = {"similarity": {"ragweave": {"type": "BM25", "k1": K1, "b": B}}}
        more = self._engine.index_settings if vector else {}
        self._make(self._rows, {**_FIELDS, **vector}, {**settings, **more})

    def keys(self) -> Iterator[Key]:
        """Return the keys of all rows."""
        self._refresh()
        for key, _ in self._each(_KEY):
            yield key

    def held(self) -> Iterator[Held]:
        """Return all rows as a check reads them."""
        self._refresh()
        for key, one in self._each((*_KEY, "text", "metadata", "words"), vectors=True):
            values = one["_source"]
            words = len(set(values["words"].split()))
            yield Held(key, values["text"], values["metadata"], words, len(_vector(one)))

    def _each(
        self, fields: Sequence[str], *, vectors: bool = False
    ) -> Iterator[tuple[Key, dict[str, Any]]]:
        for _, one in self._pages(self._rows, "key", fields, vectors=vectors):
            yield Key(*(one["_source"].get(name) for name in _KEY)), one

    def _pages(
        self,
        index: str,
        order: str,
        fields: Sequence[str],
        where: Mapping[str, Any] | None = None,
        *,
        vectors: bool = False,
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        body: dict[str, Any] = {"size": _PAGE, "sort": [{order: "asc"}], "_source": list(fields)}
        body["query"] = where or {"match_all": {}}
        if vectors:
            body |= _with_vectors(fields)
        while True:
            status, found = self._send("POST", f"{index}/_search", body)
            hits = [] if status == 404 else found["hits"]["hits"]
            for one in hits:
                yield one["sort"][0], one
            if len(hits) < _PAGE:
                return
            body["search_after"] = hits[-1]["sort"]

    def put(self, rows: Sequence[Row]) -> None:
        """Store rows."""
        lines: list[Mapping[str, Any]] = []
        for row in rows:
            body: dict[str, Any] = dict(zip(_KEY, row.key, strict=True))
            body |= {"text": row.text, "metadata": row.metadata, "words": " ".join(row.terms)}
            if row.vector is not None:
                body["vector"] = list(row.vector)
            lines += [{"index": {"_id": row.key.key}}, body]
        self._bulk(lines, 2)

    def retire(self, keys: Sequence[str], generation: int) -> None:
        """Set `removed` of rows."""
        change = {"doc": {"removed": generation}}
        self._bulk([line for key in keys for line in ({"update": {"_id": key}}, change)], 2)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete rows, known or not."""
        self._bulk([{"delete": {"_id": key}} for key in keys], 1)

    def _bulk(self, lines: Sequence[Mapping[str, Any]], each: int) -> None:
        """Send actions of `each` lines."""
        for first in range(0, len(lines), each * _BULK):
            part = list(lines[first : first + each * _BULK])
            _, answer = self._send("POST", f"{self._rows}/_bulk", part)
            self._unseen = True
            for item in answer.get("items", ()) if answer.get("errors") else ():
                (result,) = item.values()
                if result.get("error"):
                    reason = result["error"].get("reason", result["error"])
                    raise KnowledgeBaseError(f"{self.address} refused a passage: {reason}")

    def vectors(self, contents: Sequence[str]) -> dict[str, list[float]]:
        """Return the vectors of those contents that some row has one of."""
        if self._unseen:
            self._refresh()
        where = {"terms": {"content": list(contents)}}
        fields = ("content",)
        pages = self._pages(self._rows, "key", fields, where, vectors=True) if contents else ()
        found = {one["_source"]["content"]: _vector(one) for _, one in pages}
        return {content: vector for content, vector in found.items() if vector}

    def metadata(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the metadata of rows by their keys."""
        if self._unseen:
            self._refresh()
        where = {"terms": {"key": list(keys)}}
        pages = self._pages(self._rows, "key", ("key", "metadata"), where) if keys else ()
        return {one["_source"]["key"]: one["_source"]["metadata"] for _, one in pages}

    def nearest(self, vector: Sequence[float], n: int, generation: int) -> list[Hit]:
        """Return up to `n` visible rows by cosine similarity."""
        body = self._engine.nearest(list(vector), min(n, _DEEPEST), _seen(generation))
        return [hit._replace(score=2 * hit.score - 1) for hit in self._search(body, {})]

    def matching(self, terms: Counter[str], n: int, generation: int) -> list[Hit]:
        """Return up to `n` visible rows by the engine's BM25."""
        words = " ".join(terms.elements())
        if not words:
            return []
        asked = {"match": {"words": {"query": words, "analyzer": "whitespace"}}}
        body = {
            "size": min(n, _DEEPEST),
            "query": {"bool": {"must": [asked], "filter": [_seen(generation)]}},
            "sort": ["_score", {"source": "asc"}, {"place": "asc"}],
            "track_scores": True,
        }
        return self._search(body, {"search_type": "dfs_query_then_fetch"})

    def _search(self, body: dict[str, Any], params: Mapping[str, str]) -> list[Hit]:
        if self._unseen:
            self._refresh()
        body["_source"] = list(_SHOWN)
        status, found = self._send("POST", f"{self._rows}/_search", body, params)
        hits = [] if status == 404 else found["hits"]["hits"]
        values = [[*(one["_source"][name] for name in _SHOWN), one["_score"]] for one in hits]
        return [Hit(*one) for one in values]

    def finish(self) -> None:
        """Make all that was written visible to searches."""
        self._refresh()

    def _refresh(self) -> None:
        self._unseen = False
        self._send("POST", f"{self._rows}/_refresh")

    def drop(self) -> None:
        """Delete both indices."""
        for index in (self._rows, self._records):
            self._send("DELETE", index)

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()

    def _send(
        self, method: str, path: str, body: Any = None, params: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        return self._engine.send(method, path, body, params)


def _document(index: str, name: str) -> str:
    return f"{index}/_doc/{quote(name, safe='')}"


def _seen(generation: int) -> dict[str, Any]:
    newer = [{"range": {"added": {"lte": generation}}}, {"range": {"removed": {"gt": generation}}}]
    return {"bool": {"filter": newer}}


def _with_vectors(fields: Sequence[str]) -> dict[str, Any]:
    """Ask for vectors both ways: Elasticsearch 9.2 no longer keeps them in the source."""
    return {"_source": [*fields, "vector"], "fields": ["vector"]}


def _vector(hit: Mapping[str, Any]) -> list[float]:
    kept = hit["_source"].get("vector") or hit.get("fields", {}).get("vector") or []
    return list(kept)


ELASTICSEARCH = StoreKind(
    name="es",
    spec="es:https://USER@HOST:9200#COLLECTION",
    summary="Elasticsearch 8 or later",
    open=lambda address: SearchEngineStore(address, Elasticsearch),
)
OPENSEARCH = StoreKind(
    name="opensearch",
    spec="opensearch:https://USER@HOST:9200#COLLECTION",
    summary="OpenSearch 2.4 or later, with its k-NN plugin",
    open=lambda address: SearchEngineStore(address, OpenSearch),
)
