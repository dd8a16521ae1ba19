"""A knowledge base in Chroma, a server (`chroma:http://host:8000#papers`) or a folder: vectors alone.

Chroma has neither words nor names that could be ranked, nor transactions: while a source is replaced, readers may find
old and new passages. A second collection, `papers.sources`, has the sources and settings.
"""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.errors import NotFoundError
from langchain_core.documents import Document
from numpy.typing import NDArray

from ragweave.tools.knowledge.candidates import CandidateView, Stored
from ragweave.tools.knowledge.graph import NamePassages, Scores
from ragweave.tools.knowledge.settings import IndexSettings
from ragweave.tools.knowledge.sources import Source
from ragweave.tools.knowledge.staging import BATCH, Change
from ragweave.tools.knowledge.store import AnyOf

_SETTINGS = "settings"
_METADATA, _NAME, _CONTENT, _PLACE = "metadata_json", "passage_id", "content_hash", "place"
"""Metadata beside the passage's own, which a filter may ask for."""


def _joined(word: str, clauses: list[Any]) -> Any:
    return clauses[0] if len(clauses) == 1 else {word: clauses}  # which takes at least two


def _where(chosen: AnyOf) -> Any:
    """Return a filter as Chroma takes it."""
    return _joined("$and", [_joined("$or", [{name: value} for value in values]) for name, values in chosen.items()])


class ChromaView(CandidateView):
    """What the server has now."""

    def __init__(self, passages: Any, sources: Any) -> None:
        self._passages, self._sources = passages, sources

    def count(self) -> int:
        """Return the number of passages."""
        return int(self._passages.count())

    def dimensions(self) -> int:
        """Return the length of the vectors; 0 if there are none."""
        first = self._passages.peek(1)["embeddings"]
        return len(first[0]) if len(first) else 0

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key, in alphabetical order."""
        rows = self._sources.get(where={"kind": kind or {"$ne": _SETTINGS}}, include=["documents"])["documents"]
        sources = sorted((Source(**json.loads(text)) for text in rows), key=lambda source: source.key)
        return {source.key: source for source in sources}

    def words(self, terms: list[str], k: int, chosen: AnyOf, among: Any = None) -> Mapping[int, float]:  # noqa: ARG002
        """Return nothing: Chroma does not rank words."""
        return {}

    def near(self, vector: Scores, k: int, chosen: AnyOf) -> Collection[int]:
        """Return about the k nearest passages that pass the filter."""
        where = {"where": _where(chosen)} if chosen else {}
        ids = self._passages.query(query_embeddings=[vector], n_results=k, include=[], **where)["ids"][0]
        return [*map(int, ids)]

    def passages(self, rows: Collection[int]) -> Mapping[int, Stored]:
        """Return passages, in any order."""
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

    def named(self, names: Collection[str]) -> Mapping[str, NamePassages]:  # noqa: ARG002
        """Return nothing: Chroma does not have the names."""
        return {}

    def around(self, name: str, sides: int) -> Sequence[int]:
        """Return the passage with an id and up to `sides` neighbours on each side in its document, in order."""
        own = self._passages.get(where={_NAME: name}, include=["metadatas"])
        if not own["ids"]:
            return ()
        row, place = min(zip(map(int, own["ids"]), (meta[_PLACE] for meta in own["metadatas"]), strict=True))
        rows = range(row - sides, row + sides + 1)
        others = self._passages.get([*map(str, rows)], where={_PLACE: place}, include=[])["ids"]
        return sorted(map(int, others))

    def rows(self) -> NDArray[np.int64]:
        """Return all passages, in the order in which they were indexed."""
        return np.sort(np.array(self._passages.get(include=[])["ids"], np.int64))

    def values(self, name: str) -> list[Any]:
        """Return the values that passages have under a name of their metadata."""
        rows = self._passages.get(include=["metadatas"])["metadatas"]
        metadata = [{**json.loads(row[_METADATA]), "source": row["source"]} for row in rows]
        values = (value for row in metadata if (value := row.get(name)) is not None)
        items = (item for value in values for item in (value if isinstance(value, list) else [value]))
        return [*dict.fromkeys(items)]

    def holders(self, name: str) -> Collection[str]:
        """Return the sources of the passages with an id, or of a document with it."""
        return {meta["source"] for meta in self.having(name)["metadatas"]}

    def having(self, part: str | None, **own: str) -> Any:
        """Return ids and metadata of the passages of a source, or of those with an id, or of a document with it."""
        clauses: list[Any] = [{name: value} for name, value in own.items()]
        clauses += [{"$or": [{_NAME: part}, {"document": part}]}] if part is not None else []
        return self._passages.get(where=_joined("$and", clauses), include=["metadatas"])

    def vectors(self, contents: Collection[str]) -> Mapping[str, Scores]:
        """Return the vectors that are stored, by the hash of what they are of."""
        rows = self._passages.get(where={_CONTENT: {"$in": [*contents]}}, include=["metadatas", "embeddings"])
        pairs = zip(rows["metadatas"], rows["embeddings"], strict=True)
        return {meta[_CONTENT]: np.asarray(vector, np.float32) for meta, vector in pairs}


class ChromaStore:
    """Reads and writes two collections."""

    modes: Sequence[str] = ("auto", "dense")

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
        """Return how it was made; None if there is none."""
        self._open(create=False)
        try:
            rows = self._collections()[1].get([_SETTINGS])["documents"] if self._client else []
        except NotFoundError:
            return None
        return IndexSettings(**json.loads(rows[0])) if rows else None

    def configure(self, settings: IndexSettings, size: int) -> None:  # noqa: ARG002
        """Make it, or change its settings, after which its sources are to be read again."""
        self._open(create=True)
        space = {"hnsw": {"space": "cosine"}}
        for name in (self._name, f"{self._name}.sources"):
            self._client.get_or_create_collection(name, configuration=space, embedding_function=None)
        with self.view() as view:
            again = {key: replace(source, hash="") for key, source in view.sources().items()}
        self._record(again)
        row = {"documents": [json.dumps(asdict(settings))], "metadatas": [{"kind": _SETTINGS}]}
        self._collections()[1].upsert([_SETTINGS], embeddings=[[1.0]], **row)

    @contextmanager
    def view(self) -> Iterator[ChromaView]:
        """Yield the newest state."""
        yield ChromaView(*self._collections())

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
        view = ChromaView(passages, sources)
        records = {change.key: change.source for change in changes}
        for change in changes:
            gone = () if change.stays else view.having(change.part, source=change.key)["ids"]
            rest = enumerate(change.rows(), time.time_ns())
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

    def tend(self) -> None:
        """Do nothing: Chroma tends its own index."""

    def check(self) -> list[str]:
        """Return nothing: Chroma has no check of its own."""
        return []

    def repair(self) -> None:
        """Do nothing."""

    def drop(self) -> None:
        """Delete the collections."""
        for collection in self._collections():
            self._client.delete_collection(collection.name)

    def close(self) -> None:
        """Let the client go."""
        self._client = None


def _flat(passage: Any, key: str) -> dict[str, Any]:
    """Return metadata as Chroma stores it: texts, numbers and flags."""
    own = {name: value for name, value in passage.metadata.items() if isinstance(value, str | int | float | bool)}
    place = json.dumps([key, passage.document, passage.metadata.get("title")])
    document = {} if passage.document is None else {"document": passage.document}
    stored = {_METADATA: json.dumps(passage.metadata, default=str), _NAME: passage.name, _CONTENT: passage.content}
    return own | document | stored | {"source": key, _PLACE: place}
