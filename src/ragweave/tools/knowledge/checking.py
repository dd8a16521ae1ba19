"""Verifying a knowledge base: its passages, their hashes, and both indexes against each other."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.state.passages import content_id, heading_of
from ragweave.tools.knowledge.analysis import outdated
from ragweave.tools.knowledge.draft import Distinct, Draft, Source, contents_of
from ragweave.tools.knowledge.embedding import embeddings_of, tokenizer_of
from ragweave.tools.knowledge.intake import Intake, gone_files
from ragweave.tools.knowledge.manifest import (
    Finding,
    Manifest,
    Progress,
    counted,
    read_manifest,
    write_lock,
)
from ragweave.tools.knowledge.served_checking import check_served, repair_served
from ragweave.tools.knowledge.snapshot import BM25, Snapshots
from ragweave.tools.knowledge.store import Store
from ragweave.tools.knowledge.vectors import Vectors
from ragweave.tools.knowledge.writing import Writer
from ragweave.tools.retrieval.bm25_index import Bm25Index
from ragweave.tools.stores import Address, place_of

_SEEN = "added <= ? AND removed > ?"


def check(path: str | Path | Address) -> list[Finding]:
    """Verify the counts, hashes and both indexes of a knowledge base; return the problems.

    Raises:
        KnowledgeBaseError: Another writer is active; or it is missing or foreign, or its passages
            cannot be read, so that there is nothing to repair it from.
    """
    folder = place_of(path)
    if isinstance(folder, Address):
        return check_served(folder)
    manifest = read_manifest(folder)
    store, vectors = Store(folder), _vectors(folder, manifest)
    try:
        with write_lock(folder) if os.access(folder, os.W_OK) else nullcontext():
            return _Check(folder, store, vectors).findings(read_manifest(folder))
    finally:
        store.close()
        if vectors is not None:
            vectors.close()


def missing_files(path: str | Path | Address) -> list[str]:
    """Return the cited names of indexed files that no longer exist; no problem of the index itself.

    Behind an address files may be another machine's: none is named.

    Raises:
        KnowledgeBaseError: It is missing or foreign, or its passages cannot be read.
    """
    folder = place_of(path)
    if isinstance(folder, Address):
        return []
    manifest, store = read_manifest(folder), Store(folder)
    query = f"SELECT key, name FROM sources WHERE kind = 'file' AND {_SEEN} ORDER BY name"  # noqa: S608
    try:
        with store.reading() as database:
            held = database.execute(query, _generation(manifest)).fetchall()
    finally:
        store.close()
    return [one.name for one in gone_files(Source(key, name, "file") for key, name in held)]


def repair(
    path: str | Path | Address,
    findings: Sequence[Finding],
    *,
    embeddings: Embeddings | None = None,
    progress: Progress | None = None,
) -> int:
    """Repair what `check` found: a new generation, with both indexes rebuilt from its passages.

    Files whose passages do not match their hashes are read again where they still exist.

    Args:
        path: The folder, or the address.
        findings: The result of `check`.
        embeddings: As for `KnowledgeBase.open`.
        progress: Called with stage, done and total.

    Returns:
        How many passages were embedded.

    Raises:
        KnowledgeBaseError: Another writer is active, the disk cannot be written, or the embedding
            model is not available.
    """
    folder = place_of(path)
    if isinstance(folder, Address):
        return repair_served(folder, findings, embeddings, progress)
    manifest = read_manifest(folder)
    vectors, model = _vectors(folder, manifest), embeddings_of(folder, manifest, embeddings)
    files = [Path(key) for one in findings for key in one.sources if Path(key).is_file()]
    report = progress or (lambda _stage, _done, _total: None)
    intake = Intake(folder, manifest.settings, tokenizer_of(manifest, model), report)

    def change(draft: Draft) -> None:
        for file in files:
            draft.mark_stale(str(file))
        if files:
            intake.take_paths(draft, files)

    try:
        if vectors is not None and any(one.unusable for one in findings):
            vectors.discard()
        writer = Writer(folder, Store(folder), vectors, model, progress, manifest.collection)
        return writer.write(change, rebuild=True)[1].embedded
    finally:
        if vectors is not None:
            vectors.close()


def _vectors(folder: Path, manifest: Manifest) -> Vectors | None:
    if manifest.embedding_name is None:
        return None
    return Vectors(folder, manifest.collection, manifest.settings.chroma_url)


class _Check:
    """Examines one generation of a knowledge base, which must not be written meanwhile."""

    def __init__(self, folder: Path, store: Store, vectors: Vectors | None) -> None:
        """Take the parts of an open knowledge base; vectors only where it has embeddings."""
        self._folder = folder
        self._store = store
        self._vectors = vectors

    def findings(self, manifest: Manifest) -> list[Finding]:
        """Return the problems found.

        Raises:
            KnowledgeBaseError: The passages themselves cannot be read.
        """
        with self._store.reading() as database:
            state = database.execute("PRAGMA quick_check").fetchone()[0]
            if state != "ok":
                raise KnowledgeBaseError(
                    f"{self._folder} is damaged (its passages: {state}); delete the folder and "
                    "index again"
                )
            return [
                *self._counts(database, manifest),
                *self._hashes(database, manifest),
                *self._bm25(database, manifest),
                *self._embeddings(database, manifest),
            ]

    def _counts(self, database: sqlite3.Connection, manifest: Manifest) -> Iterator[Finding]:
        held = {"passages": manifest.passages, "sources": manifest.sources}
        for table, column in (("passages", "id"), ("sources", "key")):
            found = _one(database, f"COUNT(DISTINCT {column}) FROM {table} WHERE {_SEEN}", manifest)
            if found != held[table]:
                yield Finding(f"the manifest counts {held[table]} {table}, the database {found}")
            dead = database.execute(
                f"SELECT COUNT(*) FROM {table} WHERE added > ?",  # noqa: S608 - our own names
                (manifest.generation,),
            ).fetchone()[0]
            if dead:
                yield Finding(f"{counted(dead, 'row')} of {table} left by an interrupted write")
        folder = self._folder / BM25
        old = {str(manifest.generation), str(manifest.generation - 1)}
        left = (
            [one.name for one in folder.iterdir() if one.name not in old] if folder.exists() else []
        )
        if left:
            yield Finding(f"index files of an old generation are left ({', '.join(sorted(left))})")

    def _hashes(self, database: sqlite3.Connection, manifest: Manifest) -> Iterator[Finding]:
        wrong, sources = 0, set()
        query = f"SELECT content, text, metadata, source FROM passages WHERE {_SEEN}"  # noqa: S608
        for content, text, metadata, source in database.execute(query, _generation(manifest)):
            if content_id(text, heading_of(json.loads(metadata))) != content:
                wrong += 1
                sources.add(source)
        if wrong:
            verb = "does not match its hash" if wrong == 1 else "do not match their hashes"
            yield Finding(f"{counted(wrong, 'passage')} {verb}", tuple(sorted(sources)))

    def _bm25(self, database: sqlite3.Connection, manifest: Manifest) -> Iterator[Finding]:
        """Compare the index with a newly built one, file by file."""
        if not manifest.generation:
            return
        try:
            snapshot = Snapshots(self._folder).current()
        except KnowledgeBaseError as error:
            yield Finding(str(error).partition(";")[0])
            return
        passages = Distinct(database, manifest.generation)
        differs = _differences(snapshot.index, passages, manifest)
        if not np.array_equal(snapshot.rows, np.frombuffer(passages.rows, dtype=np.int64)):
            yield Finding("the BM25 index does not match the passages or their order")
        elif differs:
            yield Finding(f"the BM25 index differs from a newly built one ({', '.join(differs)})")
        elif any(outdated(manifest, text) for text in passages.texts()):
            yield Finding(
                "the BM25 index has terms as earlier versions made them, of marks and ligatures"
            )

    def _embeddings(self, database: sqlite3.Connection, manifest: Manifest) -> Iterator[Finding]:
        if self._vectors is None or not manifest.generation:
            return
        try:
            self._vectors.reopen()
            held = set(self._vectors.contents(manifest.generation))
            strays = self._vectors.strays()
        except KnowledgeBaseError as error:
            yield Finding(str(error).partition(";")[0], unusable=True)
            return
        query = "SELECT DISTINCT content FROM passages"
        known = {row[0] for row in database.execute(query)}
        seen = {row[0] for row in database.execute(f"{query} WHERE {_SEEN}", _generation(manifest))}
        if seen - held:
            number = len(seen - held)
            yield Finding(
                f"{counted(number, 'passage')} {'has' if number == 1 else 'have'} no vector"
            )
        if held - known:
            number = len(held - known)
            yield Finding(
                f"{counted(number, 'vector')} {'belongs' if number == 1 else 'belong'} to no passage"
            )
        if strays:
            yield Finding(f"{counted(len(strays), 'unused collection')} of vectors")
        if not seen - held:
            yield from self._copy(database, manifest)

    def _copy(self, database: sqlite3.Connection, manifest: Manifest) -> Iterator[Finding]:
        """Compare the copy of the vectors beside the BM25 index, where there is one, with them."""
        assert self._vectors is not None  # noqa: S101 - the caller has checked it
        try:
            snapshot = Snapshots(self._folder).current()
        except KnowledgeBaseError:
            return  # `_bm25` has told it
        if snapshot.vectors is None:
            return
        contents = contents_of(database, snapshot.rows.tolist())
        if len(contents) < len(snapshot.rows):
            return  # the same
        vectors = self._vectors.rows(contents, manifest.generation)
        if not np.allclose(snapshot.vectors, vectors, atol=1e-6):
            yield Finding("the copy of the vectors differs from them")


def _differences(index: Bm25Index, passages: Distinct, manifest: Manifest) -> list[str]:
    with TemporaryDirectory() as folder:
        Bm25Index.write(map(manifest.analyzer.terms, passages.texts()), Path(folder))
        return index.differences(Bm25Index.open(Path(folder)))


def _generation(manifest: Manifest) -> tuple[int, int]:
    return manifest.generation, manifest.generation


def _one(database: sqlite3.Connection, query: str, manifest: Manifest) -> int:
    return int(database.execute(f"SELECT {query}", _generation(manifest)).fetchone()[0])
