"""Stores beyond a folder, and writes to them: sources are staged, then embedded, then replaced in the store by one commit."""

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain, islice
from tempfile import TemporaryFile
from typing import IO, Any, get_args

import numpy as np

from ragweave.names import RetrieverName
from ragweave.state.passages import indexed_text
from ragweave.tools.knowledge.candidates import CandidateView
from ragweave.tools.knowledge.chunking import Passage
from ragweave.tools.knowledge.graph import Scores
from ragweave.tools.knowledge.search import Embedder
from ragweave.tools.knowledge.settings import IndexSettings, Progress
from ragweave.tools.knowledge.sources import Source

BATCH = 256
"""Passages that are embedded, or read from a spool, at once."""
_COMMIT = 5_000
"""Passages after which what is staged is committed: whole sources, so that readers see no source in part."""


class Change:
    """What a write makes of a source: its record, and passages instead of all that it has, or of some."""

    vectors: Sequence[Scores | None]

    def __init__(
        self,
        spool: IO[bytes],
        key: str,
        source: Source | None,
        passages: Iterable[Passage] | None = (),
        part: str | None = None,
    ) -> None:
        """Stage a change.

        Args:
            spool: A file to which passages are written until they are committed.
            key: The source's key.
            source: Its record from now on; None: it is forgotten.
            passages: What it will have; None: its passages stay.
            part: The id of a document or passage, which alone is replaced; None: all.
        """
        self.key, self.source, self.part, self.stays = key, source, part, passages is None
        self.count = 0
        self._spool, self._start = spool, spool.seek(0, 2)
        rest = iter(passages or ())
        while batch := list(islice(rest, BATCH)):
            spool.seek(0, 2)
            pickle.dump([*map(tuple, batch)], spool)
            self.count += len(batch)

    def __iter__(self) -> Iterator[Passage]:
        place = self._start
        for _ in range(0, self.count, BATCH):
            self._spool.seek(place)
            batch = pickle.load(self._spool)  # noqa: S301 - our own
            place = self._spool.tell()
            yield from (Passage(*columns) for columns in batch)

    def rows(self) -> Iterator[tuple[Passage, Scores | None]]:
        """Yield its passages with their vectors."""
        return zip(self, self.vectors, strict=True)


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
        """Make or merge indexes, after a write."""

    def check(self) -> list[str]:
        """Return what is wrong, one line per fault."""
        return []

    def repair(self) -> Collection[str]:
        """Make again what is derived from the passages; return the sources that are to be read again."""
        return ()


@dataclass
class StagedWriter:
    """A write that is being prepared, finished by `commit`."""

    view: Callable[[], AbstractContextManager[CandidateView]]
    """Reads the current state."""
    replace: Callable[[Sequence[Change]], None]
    """Commits changes, all or nothing."""
    embedder: Embedder
    spool: IO[bytes]
    _embedded = 0

    def __post_init__(self) -> None:
        self._changes: list[Change] = []
        self._staged = 0

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key, as they are before the write."""
        with self.view() as view:
            return view.sources(kind)

    def put(self, source: Source, passages: Iterable[Passage]) -> int:
        """Stage a source with its passages, instead of what it has now; return their number."""
        change = Change(self.spool, source.key, source, passages)
        self._stage(change)
        return change.count

    def extend(self, source: Source, passages: Sequence[Passage]) -> None:
        """Stage the passages of a document of a source, instead of those that it has now."""
        self._stage(Change(self.spool, source.key, source, passages, passages[0].document))

    def update(self, source: Source) -> None:
        """Give a source another hash, time or notices; its passages stay."""
        self._stage(Change(self.spool, source.key, source, None))

    def remove(self, key: str) -> None:
        """Delete a source and its passages."""
        self._stage(Change(self.spool, key, None))

    def remove_passages(self, names: Sequence[str]) -> None:
        """Delete the passages with these ids, or of documents with them; their sources are read again."""
        with self.view() as view:
            for name in names:
                for key in view.holders(name):
                    source = view.source(key)
                    self._stage(Change(self.spool, key, source and replace(source, hash=""), (), name))

    def _stage(self, change: Change) -> None:
        self._changes.append(change)
        self._staged += change.count
        if self._staged >= _COMMIT:
            self.commit()

    def commit(self, progress: Progress | None = None) -> int:
        """Make what is staged the current state, all or nothing; return how many passages were embedded."""
        if self._changes:
            changes, self._changes, self._staged = self._changes, [], 0
            self._embed(changes, progress)
            self.replace(changes)
            self.spool.truncate(0)
        return self._embedded

    def _embed(self, changes: Sequence[Change], progress: Progress | None) -> None:
        """Give each passage its vector: the one that is stored for its content, or a new one."""
        total = sum(change.count for change in changes)
        vectors: Any = [None] * total
        if self.embedder.name is not None and total:
            passages = chain.from_iterable(changes)
            with TemporaryFile() as file:
                done = 0
                while batch := list(islice(passages, BATCH)):
                    file.write(self._vectors(batch).tobytes())
                    done += len(batch)
                    if progress:
                        progress("embed", done, total)
                file.flush()
                vectors = np.memmap(file, np.float32, "r").reshape(total, -1)
        for change in changes:
            change.vectors, vectors = vectors[: change.count], vectors[change.count :]

    def _vectors(self, batch: Sequence[Passage]) -> Scores:
        with self.view() as view:
            known, size = dict(view.vectors({passage.content for passage in batch})), view.dimensions()
        texts = {p.content: indexed_text(p.text, p.metadata) for p in batch if p.content not in known}
        if texts:
            new = self.embedder.documents([*texts.values()], size)
            known |= zip(texts, new, strict=True)
            self._embedded += len(texts)
        return np.array([known[passage.content] for passage in batch], np.float32)
