"""What a remote caller sees of where passages come from: no path of the server's disk."""

from __future__ import annotations

import re
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from urllib.parse import unquote

from langchain_core.documents import Document

from ragweave.tools.retrieval import PassageRetriever
from ragweave.tools.warm_up import warm_up

_FILE = re.compile(r"file:(?://[^/]*(?=/))?", re.IGNORECASE)
"""What a URL of a file begins with, up to the path."""


class PublicSources(PassageRetriever):
    """Gives another retriever's passages, their absolute paths made relative."""

    inner: PassageRetriever
    folder: str = ""
    """The folder that was indexed; of a file elsewhere the name alone is shown."""

    def lexical(self) -> PassageRetriever | None:
        """Return the same over what the retriever below searches by words alone."""
        words = self.inner.lexical()
        return None if words is None else self.model_copy(update={"inner": words})

    def _find(self, query: str, k: int) -> list[Document]:
        return [self._public(doc) for doc in self.inner.find(query, k)]

    def warm_up(self) -> None:
        """Warm up the retriever below."""
        warm_up([self.inner])

    def _public(self, doc: Document) -> Document:
        path = _absolute(str(doc.metadata.get("source") or ""))
        if path is None:
            return doc
        inside = bool(self.folder) and path.is_relative_to(self.folder) and ".." not in path.parts
        name = PureWindowsPath(path.name).name
        shown = path.relative_to(self.folder).as_posix() if inside else name
        return doc.model_copy(update={"metadata": {**doc.metadata, "source": shown}})


def _absolute(source: str) -> PurePath | None:
    """Return the absolute path that a source is, also one of another system, or as a `file:` URL."""
    if url := _FILE.match(source):
        source = unquote(source[url.end() :])
    paths = (PurePosixPath(source), PureWindowsPath(source))
    return next((path for path in paths if path.root), None)
