"""A knowledge base behind an address: its rows, vectors and manifest in a store that others reach.

The manifest is a record of the store. A query asks for the rows that the current generation sees,
and looks at the manifest again before it answers: had a writer replaced the generation meanwhile,
it asks once more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.tools.knowledge.analysis import query_terms
from ragweave.tools.knowledge.draft import Draft
from ragweave.tools.knowledge.embedding import check_dimension
from ragweave.tools.knowledge.manifest import FORMAT, Manifest, Progress, Settings, manifest_of
from ragweave.tools.knowledge.served_writing import ServedWriter
from ragweave.tools.knowledge.snapshot import ATTEMPTS, Rankings, Search
from ragweave.tools.knowledge.writing import Written, new_collection
from ragweave.tools.retrieval.bm25 import with_score
from ragweave.tools.stores import Address, Hit, PassageStore, open_store
from ragweave.tools.stores.lease import writing_to
from ragweave.tools.stores.passage_store import MANIFEST

_MARGIN = 16
"""How many extra rows to request: a passage of several sources has one in each."""

Result = TypeVar("Result")


class Served:
    """A knowledge base in one collection of a store."""

    def __init__(self, place: Address, store: PassageStore | None = None) -> None:
        """Take the address; the store is asked at first use."""
        self.place = place
        self.store = store or open_store(place)
        self._seen: Manifest | None = None

    @property
    def manifest(self) -> Manifest:
        """The manifest of the current generation."""
        self._seen = read_served(self.store)
        return self._seen

    @property
    def own_folder(self) -> Path | None:
        """The folder of a store that runs embedded, which indexing must leave out."""
        return None if "://" in self.place.place else Path(self.place.place).expanduser()

    @property
    def indexed_folder(self) -> str:
        """Not known: several machines may have indexed their files here."""
        return ""

    def exists(self) -> bool:
        """Return whether the collection has a manifest."""
        return self.store.record(MANIFEST) is not None

    def check_extras(self, embedding_name: str | None) -> None:
        """Do nothing: the store was opened with its client."""

    def create(self, settings: Settings, embedding_name: str | None) -> None:
        """Make an empty knowledge base in a new collection.

        Raises:
            KnowledgeBaseError: There is one.
            UsageError: The vectors should be in Chroma.
        """
        _refuse_chroma(settings)
        with writing_to(self.store):
            if self.exists():
                raise KnowledgeBaseError(f"{self.place} is already a knowledge base: open it")
            made = Manifest(settings, new_collection(), embedding_name=embedding_name)
            self.store.put_record(MANIFEST, made.to_json())

    def change_settings(self, settings: Settings, embedding_name: str | None) -> None:
        """Change the settings of a knowledge base that was never written to."""
        _refuse_chroma(settings)
        with writing_to(self.store) as lease:
            if not self.manifest.generation:
                self.store.drop()  # rows of an interrupted first write have the old settings' shape
                lease.begin()  # its record went with the others
                made = Manifest(settings, new_collection(), embedding_name=embedding_name)
                self.store.put_record(MANIFEST, made.to_json())

    def write(
        self,
        change: Callable[[Draft], Result],
        embeddings: Embeddings | None,
        progress: Progress | None,
        collection: str,
    ) -> tuple[Result, Written]:
        """Apply a change to a draft and make it the current generation."""
        return ServedWriter(self.store, embeddings, progress, collection).write(change)

    def by_words(self) -> Search:
        """Return a search by BM25, which the store carries out."""

        def search(query: str, k: int) -> list[Document]:
            return self._whole(lambda manifest: self._matching(query, manifest, k))

        return search

    def by_vectors(self, embeddings: Embeddings) -> Search:
        """Return a search by cosine similarity, which the store carries out."""

        def search(query: str, k: int) -> list[Document]:
            vector = embeddings.embed_query(query)
            return self._whole(lambda manifest: self._nearest(vector, manifest, k))

        return search

    def by_both(self, embeddings: Embeddings) -> Rankings:
        """Return a search by BM25 and by cosine similarity, over one generation."""

        def search(query: str, k: int) -> list[list[Document]]:
            vector = embeddings.embed_query(query)
            return self._whole(
                lambda manifest: [
                    self._matching(query, manifest, k),
                    self._nearest(vector, manifest, k),
                ]
            )

        return search

    def _matching(self, query: str, manifest: Manifest, k: int) -> list[Document]:
        terms = Counter(query_terms(manifest, query, self.place))

        def find(n: int) -> list[Hit]:
            return self.store.matching(terms, n, manifest.generation)

        return _distinct_of(find, manifest, k)

    def _nearest(self, vector: list[float], manifest: Manifest, k: int) -> list[Document]:
        def find(n: int) -> list[Hit]:
            check_dimension(self.place, manifest, [vector])
            return self.store.nearest(vector, n, manifest.generation)

        return _distinct_of(find, manifest, k)

    def _whole(self, read: Callable[[Manifest], Result]) -> Result:
        """Return what `read` finds in a generation that is still the newest afterwards."""
        manifest = self._seen or self.manifest
        for _ in range(ATTEMPTS + 1):
            found = read(manifest)
            before, manifest = manifest, self.manifest
            if _same(before, manifest):
                return found
        raise KnowledgeBaseError(f"{self.place} is written too often to be read; try again")

    def close(self) -> None:
        """Close the connections; a later query opens them again."""
        self.store.close()


def read_served(store: PassageStore) -> Manifest:
    """Return the manifest of a collection.

    Raises:
        KnowledgeBaseError: There is none, or it is damaged or of a newer format.
    """
    values = store.record(MANIFEST)
    if values is None:
        raise KnowledgeBaseError(
            f"no knowledge base at {store.address}: index some documents into it first"
        )
    if values.get("format") != FORMAT:
        raise KnowledgeBaseError(f"{store.address} is not a ragweave knowledge base")
    return manifest_of(values, store.address, _damaged)


def _damaged(where: object, error: Exception) -> str:
    return (
        f"the manifest of {where} is damaged ({error}); delete it with ragweave kb drop, and index "
        "again"
    )


def _refuse_chroma(settings: Settings) -> None:
    if settings.chroma_url is not None:
        raise UsageError("--chroma-url is for knowledge bases in a folder: leave it out")


def _same(one: Manifest, other: Manifest) -> bool:
    """Return whether both name the same rows; a repair replaces their terms in place."""
    return (one.collection, one.generation, one.analysis) == (
        other.collection,
        other.generation,
        other.analysis,
    )


def _distinct_of(find: Callable[[int], list[Hit]], manifest: Manifest, k: int) -> list[Document]:
    """Return the best `k` passages; requests more rows while there are repeats among them."""
    if not manifest.passages:
        return []
    requested, seen = k + _MARGIN, -1
    while True:
        hits = find(requested)
        found = _documents(hits)
        if len(found) >= k or len(hits) < requested or len(hits) <= seen:
            return found[:k]
        requested, seen = requested * 2, len(hits)


def _documents(hits: Iterable[Hit]) -> list[Document]:
    """Return one document a passage, best first, ties in passage order."""
    found: dict[str, Document] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.source, hit.place)):
        meta = {"position": hit.place, **json.loads(hit.metadata)}
        doc = Document(id=hit.id, page_content=hit.text, metadata=meta)
        found.setdefault(hit.id, with_score(doc, hit.score))
    return list(found.values())
