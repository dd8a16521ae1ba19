"""The conversation over the files of a folder, which is read again whenever they change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from ragweave import KnowledgeBase
from ragweave.errors import UsageError
from ragweave.tools.knowledge.loaders import FILE_TYPES

LOG = logging.getLogger("app")
SECONDS = 2.0
"""How often the folder is looked at."""
MAX_BYTES = 1_000_000_000
"""Of the folder, for uploads."""
TYPES = sorted({suffix for kind in FILE_TYPES.values() for suffix in kind.suffixes})
"""The suffixes of files that may be uploaded."""


class Library:
    """A folder of documents, its knowledge base in the folder `kb`, and the conversation that `build` makes over a retriever.

    One thread indexes; questions are answered from the state that is current.
    """

    def __init__(self, documents: Path, kb: Path, build: Callable[[Any], Any]) -> None:
        self.documents = documents
        self.chat: Any = None
        self.evidence: Callable[[Any], Any] = lambda _quote: ()
        """Finds where a quote stands in its file."""
        self.ready = threading.Event()
        """Set once there is a conversation over indexed files."""
        self.progress = "Reading the documents"
        """What is being done, for the page; empty if nothing is."""
        self.notices: list[str] = []
        """What could not be read, without paths of the server."""
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(kb, build), name="library", daemon=True)

    def start(self) -> None:
        """Begin to read, once."""
        if self._thread.ident is None:
            self._thread.start()

    def add(self, name: str, body: bytes) -> None:
        """Store an uploaded file.

        Raises:
            UsageError: Its name or type does not fit, a file of that name is there, or the folder is full.
        """
        if PurePath(name).name != name or name.startswith(".") or len(name) > 120 or not name.isprintable():
            raise UsageError("that cannot be the name of a file")
        if PurePath(name).suffix.lower() not in TYPES:
            raise UsageError(f"files of this type cannot be read: {', '.join(TYPES)}")
        if sum(size for size, _ in self._files().values()) + len(body) > MAX_BYTES:
            raise UsageError("the folder is full")
        try:
            with (self.documents / name).open("xb") as file:
                file.write(body)
        except FileExistsError as error:
            raise UsageError(f"there is a file {name} already") from error
        self.progress = "Reading the documents"
        self._changed.set()

    def _files(self) -> dict[Path, tuple[int, int]]:
        """Return size and time of each file."""
        states = {path: path.stat() for path in self.documents.rglob("*") if path.is_file()}
        return {path: (state.st_size, state.st_mtime_ns) for path, state in states.items()}

    def _watch(self, folder: Path, build: Callable[[Any], Any]) -> None:
        kb: KnowledgeBase | None = None
        indexed = None
        while True:
            try:
                kb = kb or KnowledgeBase.open_or_create(folder)
                self.chat = self.chat or build(kb.as_retriever())
                self.evidence = kb.evidence
                if (files := self._files()) != indexed:
                    report = kb.index_paths([self.documents], self._show)
                    self.notices = [f"{PurePath(notice.path).name}: {notice.reason}" for notice in report.notices]
                    indexed, self.progress = files, ""
                    self.ready.set()
            except (
                Exception
            ):  # such as a file that has just gone, or another process that writes: the next look tries again
                LOG.exception("the documents could not be read")
                if self.chat and kb:
                    self.ready.set()
            self._changed.wait(SECONDS)
            self._changed.clear()

    def _show(self, stage: str, done: int, total: int) -> None:
        self.progress = f"Reading the documents: {stage} {done} of {total}"
