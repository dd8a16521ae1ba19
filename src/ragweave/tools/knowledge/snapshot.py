"""One generation as a reader sees it, and how it comes to see the next one."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge.manifest import NAME, Manifest, read_manifest
from ragweave.tools.retrieval.bm25_index import Bm25Index

BM25 = "bm25"
"""Folder of the BM25 indexes, one a generation."""
ROWS = "rows.npy"
"""Passage number in the BM25 index to row in the passage database."""
ATTEMPTS = 3
"""How often a query starts again when writers overtake it."""


@dataclass(frozen=True)
class Snapshot:
    """A generation, opened memory-mapped."""

    manifest: Manifest
    index: Bm25Index
    rows: NDArray[np.int64]


class Snapshots:
    """Gives the current generation; looks at the manifest's time stamp for each query."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of a knowledge base; nothing is opened yet."""
        self._folder = folder
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._snapshot: Snapshot | None = None

    def current(self) -> Snapshot:
        """Return the current generation.

        Raises:
            KnowledgeBaseError: The folder is missing, foreign, damaged or of a newer format.
        """
        with self._lock:
            stamp = self._look()
            if stamp is None:
                self._snapshot = self._stamp = None
                self._missing()
            if self._snapshot is None or stamp != self._stamp:
                self._snapshot = self._newest(stamp, ATTEMPTS)
                self._stamp = stamp
            return self._snapshot

    def _newest(self, stamp: tuple[int, int, int] | None, attempts: int) -> Snapshot:
        try:
            return self._open()
        except KnowledgeBaseError:
            # The generation may have been replaced twice since its manifest was read.
            now = self._look()
            if now is None:
                self._missing()
            if now == stamp or attempts == 1:
                raise
        return self._newest(now, attempts - 1)

    def close(self) -> None:
        """Let go of the mapped files."""
        with self._lock:
            self._snapshot = self._stamp = None

    def _missing(self) -> None:
        """Say what is wrong where there is no manifest to look at."""
        read_manifest(self._folder)

    def _look(self) -> tuple[int, int, int] | None:
        try:
            stat = (self._folder / NAME).stat()
        except OSError:
            return None  # read_manifest says what is wrong
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _open(self) -> Snapshot:
        manifest = read_manifest(self._folder)
        if not manifest.generation:
            empty = Bm25Index.build([])
            return Snapshot(manifest, empty, np.zeros(0, dtype=np.int64))
        folder = self._folder / BM25 / str(manifest.generation)
        index = Bm25Index.open(folder)
        try:
            rows = np.asarray(np.load(folder / ROWS, mmap_mode="r", allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise KnowledgeBaseError(
                f"The index {folder} is damaged ({error}); delete the knowledge base and index "
                "again"
            ) from error
        if len(rows) != manifest.passages or index.passages not in (None, len(rows)):
            raise KnowledgeBaseError(
                f"The index {folder} does not fit its manifest; delete the knowledge base and "
                "index again"
            )
        return Snapshot(manifest, index, rows)
