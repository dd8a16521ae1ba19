"""A knowledge base in Chroma, a server (`chroma:http://host:8000#papers`) or a folder: vectors alone.

Chroma has neither words nor names that could be ranked, nor transactions: while a source is replaced, readers may find
old and new passages. A second collection, `papers.sources`, has the sources and settings.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.errors import NotFoundError
from langchain_core.documents import Document
from numpy.typing import NDArray

from ragweave.tools.knowledge.candidates import CandidateView, Stored
from ragweave.tools.knowledge.filters import Condition, Every, Not, Some, stored_values
from ragweave.tools.knowledge.settings import IndexSettings
from ragweave.tools.knowledge.staging import BATCH, Change, Engine
from ragweave.tools.knowledge.view import NamePassages, Scores, Source

_SETTINGS = "settings"
_METADATA, _NAME, _CONTENT, _PLACE = "metadata_json", "passage_id", "content_hash", "place"
"""Metadata beside what filters test."""
_FIELD = "field"
"""How the names of metadata begin that filters test."""


def _flags(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a passage as Chroma can filter by them: it has neither lists nor a test for absence.

    There is a flag for each field, each kind and each value, and the least and the greatest of its numbers.
    """
    flat: dict[str, Any] = {}
    for name, kinds in stored_values(metadata).items():
        flat[f"{_FIELD}:{name}?"] = True
        for kind, values in kinds.items():
            flat |= {f"{_FIELD}:{name}={kind}:{value}": True for value in values}
            flat[f"{_FIELD}:{name}?{kind}"] = True
            if kind != "text":
                flat |= {f"{_FIELD}:{name}<{kind}": min(values), f"{_FIELD}:{name}>{kind}": max(values)}
    return flat


def _where(chosen: Condition, *, negated: bool = False) -> dict[str, Any] | None:
    """Return a filter of Chroma; None: every passage passes. A negation moves inwards, as Chroma has none."""
    if isinstance(chosen, Not):
        return _where(chosen.of, negated=not negated)
    if isinstance(chosen, Every | Some):
        joins_all = isinstance(chosen, Every) != negated
        return _joined(joins_all, [_where(part, negated=negated) for part in chosen.of])
    own = f"{_FIELD}:{chosen.name}"
    flag: dict[str, Any] = {"$ne": True} if negated else {"$eq": True}
    if chosen.op == "?":
        return _joined(negated, [{f"{own}?{kind}": flag} for kind, _ in chosen.keys or (("", 0),)])
    if chosen.op == "=":
        return _joined(negated, [{f"{own}={kind}:{value}": flag} for kind, value in chosen.keys])
    ((kind, limit),) = chosen.keys
    name = f"{own}{chosen.op[0]}{kind}"
    op = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}[chosen.op]
    if not negated:
        return {name: {op: limit}}
    opposite = {"$gt": "$lte", "$gte": "$lt", "$lt": "$gte", "$lte": "$gt"}[op]
    return {"$or": [{f"{own}?{kind}": {"$ne": True}}, {name: {opposite: limit}}]}


_NOTHING = {f"{_FIELD}: nothing": {"$eq": True}}


def _joined(joins_all: bool, parts: Iterable[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [part for part in parts if part is not None] if joins_all else [*parts]
    if not joins_all and None in known:
        return None
    if not known:
        return None if joins_all else _NOTHING
    return known[0] if len(known) == 1 else {"$and" if joins_all else "$or": known}  # which takes at least two


class _View(CandidateView):
    """What the server has now."""

    def __init__(self, passages: Any, sources: Any) -> None:
        self._passages, self._sources = passages, sources

    def count(self) -> int:
        return int(self._passages.count())

    def dimensions(self) -> int:
        first = self._passages.peek(1)["embeddings"]
        return len(first[0]) if len(first) else 0

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        rows = self._sources.get(where={"kind": kind or {"$ne": _SETTINGS}}, include=["documents"])["documents"]
        sources = sorted((Source(**json.loads(text)) for text in rows), key=lambda source: source.key)
        return {source.key: source for source in sources}

    def source(self, key: str) -> Source | None:
        texts = self._sources.get([f"source:{key}"], include=["documents"])["documents"]
        return Source(**json.loads(texts[0])) if texts else None

    def words(self, terms: list[str], k: int, chosen: Condition, among: Any = None) -> Mapping[int, float]:  # noqa: ARG002
        return {}

    def near(self, vector: Scores, k: int, chosen: Condition) -> Collection[int]:
        found = self._passages.query(query_embeddings=[vector], n_results=k, include=[], where=_where(chosen))
        ids = found["ids"][0]
        return [*map(int, ids)]

    def passages(self, rows: Collection[int]) -> Mapping[int, Stored]:
        parts = self._passages.get([*map(str, rows)], include=["documents", "metadatas", "embeddings"])
        columns = zip(parts["ids"], parts["documents"], parts["metadatas"], parts["embeddings"], strict=True)
        return {
            int(row): Stored(
                Document(
                    text,
                    id=own[_NAME],
                    metadata={"position": int(row), **json.loads(own[_METADATA]), "source": own["source"]},
                ),
                np.asarray(vector, np.float32),
            )
            for row, text, own, vector in columns
        }

    def named(self, names: Collection[str], most: int) -> Mapping[str, NamePassages]:  # noqa: ARG002
        return {}

    def copies(self, name: str) -> Sequence[int]:
        return sorted(map(int, self._passages.get(where={_NAME: name}, include=[])["ids"]))

    def neighbours(self, row: int, sides: int) -> Sequence[int]:
        place = self._passages.get([str(row)], include=["metadatas"])["metadatas"][0][_PLACE]
        rows = range(row - sides, row + sides + 1)
        return sorted(map(int, self._passages.get([*map(str, rows)], where={_PLACE: place}, include=[])["ids"]))

    def rows(self, chosen: Condition, limit: int | None = None) -> NDArray[np.int64]:
        ids = self._passages.get(where=_where(chosen), limit=limit, include=[])["ids"]
        return np.sort(np.array(ids, np.int64))

    def holders(self, name: str) -> Collection[str]:
        return {meta["source"] for meta in self.having(name)["metadatas"]}

    def having(self, part: str | None, **own: str) -> Any:
        """Return ids and metadata of the passages of a source, or of those with an id, or of a document with it."""
        clauses: list[Any] = [{name: value} for name, value in own.items()]
        clauses += [{"$or": [{_NAME: part}, {"document": part}]}] if part is not None else []
        return self._passages.get(where=_joined(True, clauses), include=["metadatas"])

    def vectors(self, contents: Collection[str]) -> Mapping[str, Scores]:
        rows = self._passages.get(where={_CONTENT: {"$in": [*contents]}}, include=["metadatas", "embeddings"])
        pairs = zip(rows["metadatas"], rows["embeddings"], strict=True)
        return {meta[_CONTENT]: np.asarray(vector, np.float32) for meta, vector in pairs}


class ChromaStore(Engine):
    """Reads and writes two collections."""

    modes = ("auto", "dense")

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name
        self._client: Any = None

    def _open(self, create: bool) -> None:
        if self._client is None:
            if "://" in self._url:
                host, _, port = self._url.partition("://")[2].rstrip("/").rpartition(":")
                self._client = chromadb.HttpClient(host, int(port), ssl=self._url.startswith("https"))
            elif create or Path(self._url).is_dir():
                self._client = chromadb.PersistentClient(str(Path(self._url).resolve()))

    def _collections(self) -> tuple[Any, Any]:
        return self._client.get_collection(self._name), self._client.get_collection(f"{self._name}.sources")

    def settings(self) -> IndexSettings | None:
        self._open(create=False)
        try:
            rows = self._collections()[1].get([_SETTINGS])["documents"] if self._client else []
        except NotFoundError:
            return None
        return IndexSettings(**json.loads(rows[0])) if rows else None

    def configure(self, settings: IndexSettings, size: int) -> None:  # noqa: ARG002
        self._open(create=True)
        space = {"hnsw": {"space": "cosine"}}
        for name in (self._name, f"{self._name}.sources"):
            self._client.get_or_create_collection(name, configuration=space, embedding_function=None)
        row = {"documents": [json.dumps(asdict(settings))], "metadatas": [{"kind": _SETTINGS}]}
        self._collections()[1].upsert([_SETTINGS], embeddings=[[1.0]], **row)

    @contextmanager
    def view(self) -> Iterator[_View]:
        yield _View(*self._collections())

    def _record(self, sources: Mapping[str, Source]) -> None:
        rest = iter(sources.items())
        while batch := dict(islice(rest, BATCH)):
            self._collections()[1].upsert(
                [f"source:{key}" for key in batch],
                embeddings=[[1.0]] * len(batch),
                documents=[json.dumps(asdict(source)) for source in batch.values()],
                metadatas=[{"kind": source.kind} for source in batch.values()],
            )

    def replace(self, changes: Sequence[Change], terms: Callable[[str], list[str]]) -> None:  # noqa: ARG002
        """Write new passages, delete old ones, then write the records: what a kill leaves is replaced the next time."""
        passages, sources = self._collections()
        view = _View(passages, sources)
        records = {change.key: change.source for change in changes}
        for change in changes:
            gone = () if change.stays else view.having(change.part, source=change.key)["ids"]
            rest = enumerate(change.passages(), time.time_ns())
            while batch := [*islice(rest, BATCH)]:
                passages.upsert(
                    [str(row) for row, _ in batch],
                    embeddings=[vector for _, (_, vector) in batch],
                    documents=[passage.text for _, (passage, _) in batch],
                    metadatas=[_flat(passage, change.key) for _, (passage, _) in batch],
                )
            for first in range(0, len(gone), BATCH):
                passages.delete(gone[first : first + BATCH])
            source = records[change.key]
            if source and source.kind == "added" and not passages.get(where={"source": change.key}, limit=1)["ids"]:
                records[change.key] = None
        self._record({key: source for key, source in records.items() if source})
        forgotten = [f"source:{key}" for key, source in records.items() if source is None]
        for first in range(0, len(forgotten), BATCH):
            sources.delete(forgotten[first : first + BATCH])

    def drop(self) -> None:
        for collection in self._collections():
            self._client.delete_collection(collection.name)

    def close(self) -> None:
        """Release the client: a folder that is open shows nothing of what other processes write."""
        if self._client is not None and "://" not in self._url:
            self._client.close()
        self._client = None


def _flat(passage: Any, key: str) -> dict[str, Any]:
    """Return metadata as Chroma stores it."""
    own = _flags({**passage.metadata, "source": key})
    place = json.dumps([key, passage.document, passage.metadata.get("title")])
    document = {} if passage.document is None else {"document": passage.document}
    stored = {_METADATA: json.dumps(passage.metadata, default=str), _NAME: passage.name, _CONTENT: passage.content}
    return own | document | stored | {"source": key, _PLACE: place}
