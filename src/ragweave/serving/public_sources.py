"""What a remote caller sees of where passages come from: no path of the server's disk."""

from __future__ import annotations

from pathlib import PurePath

from langchain_core.documents import Document

from ragweave.tools.retrieval import PassageRetriever
from ragweave.tools.warm_up import warm_up


class PublicSources(PassageRetriever):
    """Gives another retriever's passages, their absolute paths made relative."""

    inner: PassageRetriever
    folder: str = ""
    """The folder that was indexed; of a file elsewhere the name alone is shown."""

    def _find(self, query: str, k: int) -> list[Document]:
        return [self._public(doc) for doc in self.inner.find(query, k)]

    def warm_up(self) -> None:
        """Warm up the retriever below."""
        warm_up([self.inner])

    def _public(self, doc: Document) -> Document:
        path = PurePath(str(doc.metadata.get("source") or ""))
        if not path.is_absolute():
            return doc
        inside = bool(self.folder) and path.is_relative_to(self.folder)
        shown = path.relative_to(self.folder).as_posix() if inside else path.name
        return doc.model_copy(update={"metadata": {**doc.metadata, "source": shown}})
