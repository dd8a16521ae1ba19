"""Where a knowledge base is: `Home` is what it needs of its place, `Folder` a folder on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypeVar

from langchain_core.embeddings import Embeddings

from ragweave.errors import MissingExtraError
from ragweave.tools.knowledge.draft import Draft
from ragweave.tools.knowledge.manifest import NAME, Manifest, Progress, Settings, write_manifest
from ragweave.tools.knowledge.snapshot import Rankings, Search, Searches, Snapshots
from ragweave.tools.knowledge.store import Store
from ragweave.tools.knowledge.vectors import Vectors
from ragweave.tools.knowledge.writing import (
    Writer,
    Written,
    change_settings,
    new_collection,
    prepare_folder,
    write_errors,
)
from ragweave.tools.stores import Place

Result = TypeVar("Result")


class Home(Protocol):
    """The place of one knowledge base: makes, reads, writes and searches it.

    Whatever the place, a write makes a new generation, all or nothing, one writer is admitted at a
    time, and each query sees one whole generation.
    """

    @property
    def place(self) -> Place:
        """The folder or the address."""
        ...

    @property
    def manifest(self) -> Manifest:
        """The manifest of the current generation (KnowledgeBaseError: there is none)."""
        ...

    @property
    def own_folder(self) -> Path | None:
        """The folder that indexing must leave out, as the knowledge base's own."""
        ...

    @property
    def indexed_folder(self) -> str:
        """The deepest folder that holds all indexed files, absolute; "" where that is not known."""
        ...

    def exists(self) -> bool:
        """Return whether there is a knowledge base, be it damaged."""
        ...

    def check_extras(self, embedding_name: str | None) -> None:
        """Raise MissingExtraError where what an embedding model needs is not installed."""
        ...

    def create(self, settings: Settings, embedding_name: str | None) -> None:
        """Make an empty knowledge base; KnowledgeBaseError: there is one, or it cannot be made."""
        ...

    def change_settings(self, settings: Settings, embedding_name: str | None) -> None:
        """Change the settings of a knowledge base that was never written to."""
        ...

    def write(
        self,
        change: Callable[[Draft], Result],
        embeddings: Embeddings | None,
        progress: Progress | None,
        collection: str,
    ) -> tuple[Result, Written]:
        """Apply a change to a draft and make it the current generation.

        Raises:
            KnowledgeBaseError: Another writer is active, it cannot be written, or it was made anew
                since it had `collection` in its manifest.
        """
        ...

    def by_words(self) -> Search:
        """Return a search by BM25."""
        ...

    def by_vectors(self, embeddings: Embeddings) -> Search:
        """Return a search by cosine similarity."""
        ...

    def by_both(self, embeddings: Embeddings) -> Rankings:
        """Return a search by BM25 and by cosine similarity, over one generation."""
        ...

    def close(self) -> None:
        """Close files or connections; a later query opens them again."""
        ...


class Folder:
    """A knowledge base on disk: passages in SQLite, BM25 in files, vectors in Chroma.

    A relative path means the same folder when the working directory has changed.
    """

    def __init__(self, place: Path) -> None:
        """Take the folder; nothing is opened yet."""
        self.place = place
        """The folder as given."""
        self._folder = place.absolute()
        self._snapshots = Snapshots(self._folder, place)
        self._store = Store(self._folder)
        self._lock = threading.Lock()
        self._vectors: Vectors | None = None
        self._searches = Searches(place, self._snapshots, self._store, self._vectors_of)

    @property
    def manifest(self) -> Manifest:
        """The manifest of the current generation."""
        return self._snapshots.current().manifest

    @property
    def own_folder(self) -> Path | None:
        """The folder itself."""
        return self._folder

    @property
    def indexed_folder(self) -> str:
        """The deepest folder that holds all indexed files."""
        return self._store.indexed_folder(self.manifest.generation)

    def exists(self) -> bool:
        """Return whether the folder has a manifest."""
        return (self._folder / NAME).exists()

    def check_extras(self, embedding_name: str | None) -> None:
        """Raise MissingExtraError where vectors are wanted and Chroma is not installed."""
        if embedding_name is not None and find_spec("chromadb") is None:
            raise MissingExtraError("Dense retrieval", "chroma")

    def create(self, settings: Settings, embedding_name: str | None) -> None:
        """Make an empty knowledge base in a new or empty folder."""
        with write_errors(self.place, "no knowledge base was created"):
            prepare_folder(self._folder, self.place)
            Store(self._folder).make()
            made = Manifest(settings, new_collection(), embedding_name=embedding_name)
            write_manifest(self._folder, made)

    def change_settings(self, settings: Settings, embedding_name: str | None) -> None:
        """Change the settings of a knowledge base that was never written to."""
        change_settings(self._folder, settings, embedding_name)

    def write(
        self,
        change: Callable[[Draft], Result],
        embeddings: Embeddings | None,
        progress: Progress | None,
        collection: str,
    ) -> tuple[Result, Written]:
        """Apply a change to a draft and make it the current generation."""
        vectors = None if self.manifest.embedding_name is None else self.vectors
        writer = Writer(self._folder, self._store, vectors, embeddings, progress, collection)
        return writer.write(change)

    def by_words(self) -> Search:
        """Return a search of the BM25 index."""
        return self._searches.by_words()

    def by_vectors(self, embeddings: Embeddings) -> Search:
        """Return a search of the vectors, by cosine similarity."""
        self.check_extras(self.manifest.embedding_name)
        return self._searches.by_vectors(embeddings)

    def by_both(self, embeddings: Embeddings) -> Rankings:
        """Return a search of the BM25 index and of the vectors, over one generation."""
        self.check_extras(self.manifest.embedding_name)
        return self._searches.by_both(embeddings)

    @property
    def vectors(self) -> Vectors:
        """The vectors, in Chroma."""
        return self._vectors_of(self.manifest)

    def _vectors_of(self, manifest: Manifest) -> Vectors:
        """Return the vectors of a manifest's collection: a folder that is made anew has another."""
        with self._lock:
            if self._vectors is None or self._vectors.collection != manifest.collection:
                self._release()
                url = manifest.settings.chroma_url
                self._vectors = Vectors(self._folder, manifest.collection, url)
            return self._vectors

    def _release(self) -> None:
        if self._vectors is not None:
            self._vectors.close()
            self._vectors = None

    def close(self) -> None:
        """Close the files; a later query opens them again."""
        self._snapshots.close()
        self._store.close()
        with self._lock:
            self._release()
