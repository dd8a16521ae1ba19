"""Writing a knowledge base: all or nothing, rows first, then vectors, BM25 index and manifest.

`Writer` makes a new generation. `prepare_folder`, `change_settings` and `check_settings` create a
knowledge base and guard its settings.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.files import sync_tree
from ragweave.tools.knowledge import exact
from ragweave.tools.knowledge.cluster_encoding import texts_at_once
from ragweave.tools.knowledge.draft import Distinct, Draft, contents_of, purge
from ragweave.tools.knowledge.embedding import check_dimension, embed_texts
from ragweave.tools.knowledge.manifest import (
    NAME,
    PREFIXES,
    Manifest,
    Progress,
    Settings,
    read_manifest,
    write_lock,
    write_manifest,
)
from ragweave.tools.knowledge.snapshot import BM25, ROWS
from ragweave.tools.knowledge.store import Store
from ragweave.tools.knowledge.vectors import COLLECTION, Vectors
from ragweave.tools.retrieval.bm25 import ANALYSIS
from ragweave.tools.retrieval.bm25_index import Bm25Index

_REPORT_EVERY = 1000
UNCHANGED = "its index is unchanged"
"""How an error of a write ends that left no trace."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Written:
    """The state after a write."""

    manifest: Manifest
    embedded: int


class Writer:
    """Writes new generations of one knowledge base."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        vectors: Vectors | None,
        embeddings: Embeddings | None,
        progress: Progress | None = None,
        collection: str | None = None,
    ) -> None:
        """Take the parts of an open knowledge base; vectors only where it has embeddings.

        `collection` is the manifest's at opening: a different one now means other settings.
        """
        self._folder = folder
        self._store = store
        self._vectors = vectors
        self._embeddings = embeddings
        self._collection = collection
        self._progress = progress or (lambda _stage, _done, _total: None)

    def write(
        self, change: Callable[[Draft], Result], *, rebuild: bool = False
    ) -> tuple[Result, Written]:
        """Apply `change` to a draft and make it the current generation.

        Until the manifest is replaced, readers see the old generation, also after a write that
        was killed or failed. If nothing changed, there is no new generation unless `rebuild` asks
        for one, but vectors that were lost are embedded again, and those of an aborted write are removed.

        Raises:
            KnowledgeBaseError: Another writer is active, or the disk cannot be written.
        """
        with write_errors(self._folder, UNCHANGED), write_lock(self._folder):
            manifest = read_manifest(self._folder)
            if self._collection not in (None, manifest.collection):
                raise KnowledgeBaseError(
                    f"{self._folder} was recreated since it was opened; open it again"
                )
            with self._store.writing() as database:
                draft = Draft(database, manifest.generation + 1)
                result = change(draft)
                draft.commit()
                if not (draft.changed or rebuild):
                    repaired = self._repair(draft, manifest)
                    if manifest.generation:
                        with write_errors(
                            self._folder, "its index is in place, old files may be left"
                        ):
                            self._tidy(database, manifest.generation)
                    return result, Written(manifest, repaired)
                manifest, embedded = self._embed(draft, manifest)
                manifest = self._index(database, draft, manifest)
                # Who may not write here reads the database without its log (see `Store`).
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                write_manifest(self._folder, manifest, alone=True)
                with write_errors(self._folder, "the new index is in place, old files may be left"):
                    self._tidy(database, manifest.generation)
        return result, Written(manifest, embedded)

    def _repair(self, draft: Draft, manifest: Manifest) -> int:
        """Embed passages that have lost their vectors; return how many."""
        if self._vectors is None or not manifest.passages:
            return 0
        self._vectors.reopen()
        if self._vectors.count() >= manifest.passages:
            return 0
        return self._embed(draft, manifest)[1]

    def _embed(self, draft: Draft, manifest: Manifest) -> tuple[Manifest, int]:
        """Embed the contents without a vector; vectors of an earlier, interrupted write count."""
        if self._vectors is None:
            return manifest, 0
        self._vectors.reopen()
        missing = self._vectors.missing(draft.contents())
        if missing and self._embeddings is None:
            raise KnowledgeBaseError(
                f"{self._folder} was created with an embeddings object ({manifest.embedding_name}); "
                "pass one when opening it to add documents"
            )
        size = texts_at_once(self._embeddings) if missing else 1
        for first in range(0, len(missing), size):
            batch = missing[first : first + size]
            vectors = embed_texts(self._embeddings, draft.texts(batch), manifest, UNCHANGED)
            manifest = replace(manifest, dimension=check_dimension(self._folder, manifest, vectors))
            self._vectors.put(batch, vectors)
            self._progress("embed", first + len(batch), len(missing))
        return manifest, len(missing)

    def _index(self, database: sqlite3.Connection, draft: Draft, manifest: Manifest) -> Manifest:
        """Save the BM25 index of the draft, and a copy of its vectors if it is small; return the manifest to commit."""
        folder = self._folder / BM25 / str(draft.generation)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        manifest = replace(manifest, analysis=ANALYSIS)
        terms = manifest.analyzer.terms
        passages = draft.distinct()
        texts = _reported(passages, lambda done, total: self._progress("index", done, total))
        Bm25Index.write(map(terms, texts), folder)
        rows = np.frombuffer(passages.rows, dtype=np.int64)
        np.save(folder / ROWS, rows, allow_pickle=False)
        vectors = self._vectors
        if vectors and vectors.embedded and exact.fits(len(rows), manifest.dimension):
            exact.save(folder, vectors.rows(contents_of(database, passages.rows)))
        sync_tree(folder)
        sources = sum(len(draft.sources(kind)) for kind in ("file", "page", "added"))
        return replace(manifest, generation=draft.generation, passages=len(rows), sources=sources)

    def _tidy(self, database: sqlite3.Connection, generation: int) -> None:
        """Delete what neither this generation nor the previous one needs."""
        gone = purge(database, generation)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        kept = {str(generation), str(generation - 1)}
        for folder in (self._folder / BM25).iterdir():
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)
        if self._vectors is None:
            return
        if gone:
            self._vectors.delete(gone)
        held = {row[0] for row in database.execute("SELECT DISTINCT content FROM passages")}
        if self._vectors.count() > len(held) or self._vectors.strays():
            self._vectors.collect(held)


def _reported(passages: Distinct, progress: Callable[[int, int], None]) -> Iterator[str]:
    """Give the text of each passage, and report now and then how many there have been."""
    total = len(passages)
    progress(0, total)
    for done, text in enumerate(passages.texts(), 1):
        yield text
        if not done % _REPORT_EVERY:
            progress(done, total)
    progress(total, total)


@contextmanager
def write_errors(folder: Path, outcome: str) -> Iterator[None]:
    """Turn errors of the disk into one line that ends in `outcome`, and damage into another."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) and _is_damage(error):
            raise KnowledgeBaseError(
                f"{folder} is damaged (its passages: {error}); delete the folder and index again"
            ) from error
        reason = getattr(error, "strerror", None) or str(error)
        raise KnowledgeBaseError(f"cannot write to {folder}: {reason}; {outcome}") from error


def _is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file is a damaged database, rather than the disk full or failing."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


_OURS = (
    *("passages.sqlite", f".{NAME}.", f"{NAME}.tmp"),
    *("write.lock", "vectors.lock", "bm25", "chroma"),
)
"""Prefixes of our files' names, including temporary ones of earlier versions."""


def prepare_folder(folder: Path, shown: Path) -> None:
    """Create the folder, or take an empty one or what an interrupted `create` left.

    Errors call it `shown`.

    Raises:
        KnowledgeBaseError: It is a file, already a knowledge base, or contains other files.
    """
    if folder.exists() and not folder.is_dir():
        raise KnowledgeBaseError(f"{shown} is a file; a knowledge base is a folder")
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / NAME).exists():
        raise KnowledgeBaseError(f"{shown} is already a knowledge base: open it")
    foreign = sorted(one.name for one in folder.iterdir() if not one.name.startswith(_OURS))
    if foreign:
        raise KnowledgeBaseError(
            f"{shown} is not a knowledge base and contains other files ({foreign[0]}); give a new "
            "or an empty folder"
        )


def new_collection() -> str:
    """Return a name for a Chroma collection that no other knowledge base has."""
    return f"{COLLECTION}{uuid.uuid4().hex}"


def change_settings(folder: Path, settings: Settings, embedding_name: str | None) -> None:
    """Change the settings of a knowledge base that was never written to.

    What an interrupted first write left is undone by the next one; its vectors stay behind in an
    unused collection.

    Raises:
        KnowledgeBaseError: A writer is active, or the disk cannot be written.
    """
    with write_errors(folder, "its settings are unchanged"), write_lock(folder):
        held = read_manifest(folder)
        if held.generation:
            return
        made = replace(held, settings=settings, collection=new_collection(), dimension=None)
        write_manifest(folder, replace(made, embedding_name=embedding_name), alone=True)


def check_settings(folder: object, held: Settings, given: Settings) -> None:
    """Check settings against those that the knowledge base was created with.

    Raises:
        KnowledgeBaseError: They differ; the text names the first difference.
    """
    before, now = asdict(held), asdict(given)
    for name, value in before.items():
        alike = name in PREFIXES and not (now[name] or value)  # "" and None are no prefix
        if now[name] != value and not alike:
            raise KnowledgeBaseError(
                f"{folder} was created with {name} = {value!r}, not {now[name]!r}; leave that "
                "setting out, or create a new knowledge base"
            )
