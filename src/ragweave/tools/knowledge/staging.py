"""A write: sources are staged in a temporary table, then embedded, then replaced in the store by one commit."""

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import inf
from typing import get_args

import numpy as np

from ragweave.names import RetrieverName
from ragweave.state.passages import indexed_text
from ragweave.tools.knowledge.candidates import CandidateView
from ragweave.tools.knowledge.chunking import Passage
from ragweave.tools.knowledge.search import Embedder
from ragweave.tools.knowledge.settings import IndexSettings, Progress
from ragweave.tools.knowledge.view import Scores, Source, SourceReader

BATCH = 256
"""Passages that are embedded, or written by a store, at once."""
COLUMNS = "name, document, content, text, metadata"
"""SQL: what `staged`, and a folder, have of a passage; metadata as JSON."""


@dataclass(frozen=True)
class Change:
    """What a write makes of a source: its record, and passages instead of all that it has, or of some."""

    db: sqlite3.Connection
    """Where its passages are staged."""
    key: str
    source: Source | None
    """Its record from now on; None: it is forgotten."""
    rows: range
    """The rows of its passages in the table `staged`."""
    part: str | None
    """The id of a document or passage, which alone is replaced; None: all."""
    stays: bool
    """Whether its passages stay as they are."""

    def passages(self) -> Iterator[tuple[Passage, Scores | None]]:
        """Yield its passages with their vectors."""
        return _staged(self.db, self.rows)


def _staged(db: sqlite3.Connection, rows: range) -> Iterator[tuple[Passage, Scores | None]]:
    stored = db.execute(
        f"SELECT {COLUMNS}, vector FROM staged LEFT JOIN vectors USING (content) "  # noqa: S608
        "WHERE staged.rowid >= ? AND staged.rowid < ? ORDER BY staged.rowid",
        (rows.start, rows.stop),
    )
    for name, document, content, text, metadata, vector in stored:
        passage = Passage(name, document, content, text, json.loads(metadata))
        yield passage, None if vector is None else np.frombuffer(vector, np.float32)


class Engine(ABC):
    """A store beyond a folder: it is read by views, and written by `replace`."""

    modes: Sequence[str] = get_args(RetrieverName)
    """How it can be searched."""

    @abstractmethod
    def settings(self) -> IndexSettings | None:
        """Return how it was made; None if there is none."""

    @abstractmethod
    def configure(self, settings: IndexSettings, size: int) -> None:
        """Make it for vectors of so many dimensions, or change its settings."""

    @abstractmethod
    def view(self) -> AbstractContextManager[CandidateView]:
        """Read the newest state, whatever writers commit meanwhile."""

    @abstractmethod
    def replace(self, changes: Sequence[Change], terms: Callable[[str], list[str]]) -> None:
        """Commit changes, all or nothing; `terms` is the analyzer. Other hosts may write at the same time."""

    @abstractmethod
    def drop(self) -> None:
        """Delete everything."""

    @abstractmethod
    def close(self) -> None:
        """Close connections."""

    def tend(self) -> None:  # noqa: B027
        """Make indexes that are made faster of all that was written than as it is written."""

    def check(self) -> list[str]:
        """Return what is wrong, one line per fault."""
        return []

    def repair(self) -> Collection[str]:
        """Make again what is derived from the passages; return the sources that are to be read again."""
        return ()


class Writer:
    """A write that is being prepared, finished by `commit`."""

    def __init__(
        self,
        db: sqlite3.Connection,
        view: Callable[[], AbstractContextManager[SourceReader]],
        replace: Callable[[Sequence[Change]], None],
        embedder: Embedder,
        max_staged: float = inf,
    ) -> None:
        """Begin an empty write.

        Args:
            db: A database with the table `vectors`, in which passages are staged.
            view: Reads the current state.
            replace: Commits changes, all or nothing.
            embedder: Embeds what has no vector yet.
            max_staged: Passages after which what is staged is committed: whole sources, so that readers see no source
                in part.
        """
        self._db, self._view, self._replace, self._embedder, self._max_staged = db, view, replace, embedder, max_staged
        self.enrich: Callable[[Sequence[Passage]], Iterable[Passage]] | None = None
        """Adds a model's names and facts to passages."""
        self.progress: Progress | None = None
        self._changes: list[Change] = []
        self._embedded = 0
        db.execute(f"CREATE TEMP TABLE staged ({COLUMNS})")

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key, as they are before the write."""
        with self._view() as view:
            return view.sources(kind)

    def put(self, source: Source, passages: Iterable[Passage]) -> int:
        """Write a source with its passages, instead of what it has now; return their number."""
        return self._stage(source.key, source, passages)

    def extend(self, source: Source, passages: Sequence[Passage]) -> None:
        """Write the passages of a document of a source, instead of those that it has now."""
        self._stage(source.key, source, passages, part=passages[0].document)

    def update(self, source: Source) -> None:
        """Give a source another hash, time or notices; its passages stay."""
        self._stage(source.key, source, stays=True)

    def remove(self, key: str) -> None:
        """Delete a source and its passages."""
        self._stage(key, None)

    def remove_passages(self, names: Sequence[str]) -> None:
        """Delete the passages with these ids, or of documents with them; their sources are read again."""
        with self._view() as view:
            parts = [(key, name) for name in names for key in view.holders(name)]
            sources = {key: view.source(key) for key in dict(parts)}
        for key, name in parts:
            source = sources[key]
            self._stage(key, source and replace(source, hash=""), part=name)

    def _stage(
        self,
        key: str,
        source: Source | None,
        passages: Iterable[Passage] = (),
        *,
        part: str | None = None,
        stays: bool = False,
    ) -> int:
        rows = ((*passage[:4], json.dumps(passage.metadata, default=str)) for passage in passages)
        self._db.execute("BEGIN")
        with self._db:
            count = max(self._db.executemany("INSERT INTO staged VALUES (?, ?, ?, ?, ?)", rows).rowcount, 0)
        first = self._changes[-1].rows.stop if self._changes else 1
        self._changes.append(Change(self._db, key, source, range(first, first + count), part, stays))
        if first + count > self._max_staged:
            self.commit()
        return count

    def commit(self) -> int:
        """Make what is staged the current state, all or nothing; return how many passages were embedded."""
        if self._changes:
            self._enrich()
            self._embed()
            changes, self._changes = self._changes, []
            self._replace(changes)
            self._db.execute("DELETE FROM staged")
        return self._embedded

    def _enrich(self) -> None:
        """Enrich what is staged: several sources at once, since a call takes seconds, and many files are short."""
        if self.enrich is None:
            return
        for first in range(1, self._changes[-1].rows.stop, BATCH):
            passages = [passage for passage, _ in _staged(self._db, range(first, first + BATCH))]
            enriched = enumerate(self.enrich(passages), first)
            rows = ((passage.content, json.dumps(passage.metadata, default=str), row) for row, passage in enriched)
            self._db.executemany("UPDATE staged SET content = ?, metadata = ? WHERE rowid = ?", rows)

    def _embed(self) -> None:
        """Embed what is staged and has no vector yet, each batch committed by itself."""
        if self._embedder.name is None:
            return
        db = self._db
        db.execute("DROP TABLE IF EXISTS temp.missing")
        db.execute(
            "CREATE TEMP TABLE missing AS SELECT content, text, metadata FROM staged "
            "WHERE content NOT IN (SELECT content FROM vectors) GROUP BY content"
        )
        total = db.execute("SELECT count(*) FROM missing").fetchone()[0]
        rows = db.execute("SELECT content, text, metadata FROM missing")
        done = 0
        while batch := rows.fetchmany(BATCH):
            with self._view() as view:
                vectors, size = dict(view.vectors([content for content, *_ in batch])), view.dimensions()
            texts = {own: indexed_text(text, json.loads(meta)) for own, text, meta in batch if own not in vectors}
            if texts:
                vectors |= zip(texts, self._embedder.documents([*texts.values()], size), strict=True)
            pairs = ((own, np.asarray(vector, np.float32).tobytes()) for own, vector in vectors.items())
            db.execute("BEGIN IMMEDIATE")
            with db:
                db.executemany("INSERT OR REPLACE INTO vectors (content, vector) VALUES (?, ?)", pairs)
            self._embedded += len(texts)
            done += len(batch)
            if self.progress:
                self.progress("embed", done, total)
