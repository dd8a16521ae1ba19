"""What every knowledge base does, in a folder or on a server: index, add, delete."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.names import RetrieverName
from ragweave.state.passages import as_document, encodable
from ragweave.tools.knowledge.chunking import CHUNKERS, passages_of, simple_tokens
from ragweave.tools.knowledge.ingest import Ingest
from ragweave.tools.knowledge.loaders.text import own_fields
from ragweave.tools.knowledge.passages import Loaded, Passage, passage_of
from ragweave.tools.knowledge.settings import IndexReport, Progress, Settings, silent
from ragweave.tools.knowledge.store import Filter, Snapshot, Source
from ragweave.tools.knowledge.web import fetched
from ragweave.tools.retrieval.base import PassageRetriever, listed
from ragweave.tools.retrieval.embedding import OBJECT, is_model, name_of, named_embeddings
from ragweave.tools.retrieval.reranking import Reranker

if TYPE_CHECKING:
    from ragweave.tools.knowledge.ingest import AnyWriter
    from ragweave.tools.knowledge.records import Records


class AbstractKnowledgeBase(ABC):
    """Passages with the sources that they come from.

    Errors of all methods that write: `KnowledgeBaseError` if another writer is active, the disk or
    server cannot be written, or the embedding model fails.
    """

    path: Path | str
    """The folder or address."""
    settings: Settings
    """How it chunks, analyses and embeds."""
    _embeddings: Embeddings | None

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Snapshot | Records]:
        """Read the current state."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[AnyWriter]:
        """Begin a write."""

    @abstractmethod
    def as_retriever(
        self, k: int = 5, mode: RetrieverName = "auto", *, filter: Filter = None, rerank: Reranker | None = None
    ) -> PassageRetriever:
        """Return a retriever over the state that is current at each query."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""

    def __len__(self) -> int:
        """Return the number of passages."""
        with self._reading() as now:
            return now.count()

    @property
    def state(self) -> str:
        """The name of the current state: each write that changes passages gives it a new one."""
        with self._reading() as now:
            return now.index

    def sources(self) -> list[Source]:
        """Return what was indexed: files, pages and names of added documents."""
        with self._reading() as now:
            return [*now.sources().values()]

    def __bool__(self) -> bool:
        """Return True: an empty knowledge base is still one."""
        return True

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close files and connections."""
        self.close()

    def index_paths(self, paths: str | Path | Iterable[str | Path], progress: Progress | None = None) -> IndexReport:
        """Bring the index up to date with files and folders.

        New and changed files are read, files that are gone from `paths` leave the index, moved ones
        are recognised by their bytes and name. A file that cannot be read is a line in the report.

        Args:
            paths: Files, or folders, which are read recursively without hidden files (`.name`).
            progress: Called with stage, done and total.

        Raises:
            UsageError: No path is given, or an empty one.
            KnowledgeBaseError: A path does not exist, or the write fails.
        """
        given = listed(paths)
        if not given or any(not str(one).strip() for one in given):
            raise UsageError("give at least one file or folder to index (. is this folder)")
        return self._ingest(lambda one: one.paths(map(Path, given)), progress)

    def index_pages(self, urls: str | Iterable[str], progress: Progress | None = None) -> IndexReport:
        """Fetch web pages and index those that are new or changed; links are not followed.

        Args:
            urls: One address or several.
            progress: Called with stage, done and total.

        Raises:
            UsageError: One is not a web address.
        """
        pages, notices = fetched(listed(urls))
        return self._ingest(lambda one: one.pages(pages, notices), progress)

    def index_documents(
        self, documents: Iterable[Document], source: str, progress: Progress | None = None
    ) -> IndexReport:
        """Bring one source up to date with documents, such as a LangChain loader gives.

        They replace all documents of the source. Indexing the same documents again changes nothing.

        Args:
            documents: The documents; those without text are skipped.
            source: How passages cite them.
            progress: Called with stage, done and total.
        """
        loaded = [_loaded_of(doc) for doc in map(as_document, documents) if doc.page_content.strip()]
        return self._ingest(lambda one: one.documents(encodable(source), loaded), progress)

    def _ingest(self, take: Callable[[Ingest], None], progress: Progress | None) -> IndexReport:
        report = progress or silent
        with self._writing() as writer:
            ingest = Ingest(writer, self.settings, self._tokens, report)
            take(ingest)
            embedded = writer.commit(report)
        return IndexReport(**ingest.counts, notices=tuple(ingest.notices), passages=len(self), embedded=embedded)

    def add(
        self, documents: Document | Iterable[Document], source: str | None = None, *, split: bool = True
    ) -> list[str]:
        """Add documents; return the ids of their passages, in order.

        A document replaces the one with its id in the same source; adding it again changes nothing.

        Args:
            documents: One document or several; `metadata` may hold `title` and `source`. Those
                without an id get a hash of their content.
            source: How passages cite them, instead of their `metadata["source"]`.
            split: Cut them as the settings say; False takes each as one passage.

        Raises:
            UsageError: A document has no text.
        """
        names: list[str] = []
        found: dict[tuple[str, str | None], list[Passage]] = {}
        for doc in map(as_document, listed(documents)):
            if not doc.page_content.strip():
                raise UsageError(f"a document has no text (id {doc.id!r})")
            loaded = _loaded_of(doc.model_copy(update={"id": doc.id or _digest(doc)}))
            whole = [passage_of(loaded, 0, len(loaded.text))]
            made = passages_of(loaded, self.settings, self._tokens) if split else whole
            names += [one.name for one in made]
            key = encodable(source or str(doc.metadata.get("source") or "") or "added")
            found[key, loaded.id] = made
        with self._writing() as writer:
            for (key, _), made in found.items():
                writer.extend(Source(key, "added"), made)
            writer.commit()
        return names

    def delete(self, ids: str | Iterable[str] = (), *, source: str | None = None) -> int:
        """Delete passages by their ids or those of their documents, or all of a source.

        Args:
            ids: One id or several.
            source: A file's path, a page's address, or the name documents were added under.

        Returns:
            How many passages were deleted.
        """
        with self._writing() as writer:
            before = len(self)
            writer.remove_passages(listed(ids))
            if source is not None and source in {one.key for one in self.sources()}:
                writer.remove(source)
            writer.commit()
            return before - len(self)

    @property
    def _tokens(self) -> Callable[[str], list[tuple[int, int]]]:
        """The offsets of a text's tokens, by the embedding model where it gives them."""
        return getattr(self._embeddings, "token_spans", simple_tokens)


def checked(settings: Settings, embeddings: Embeddings | None) -> Settings:
    """Return settings whose chunker and embedding model exist; `UsageError` or `KnowledgeBaseError` if not."""
    CHUNKERS.named(settings.chunker)
    if settings.embedding is not None and embeddings is None:
        named_embeddings(settings.embedding).warm_up()
    return settings


def embeddings_of(path: str | Path, name: str | None, given: Embeddings | None) -> Embeddings | None:
    """Return the embeddings to use: the caller's object, the named model, or None."""
    if given is None:
        return None if name is None or name.startswith(OBJECT) else named_embeddings(name)
    if name is None:
        raise KnowledgeBaseError(f"{path} was created without embeddings; create a new one")
    if not is_model(name, given):
        raise KnowledgeBaseError(
            f"{path} was made with {name.removeprefix(OBJECT)}, whose vectors cannot be compared "
            f"with those of {name_of(given).removeprefix(OBJECT)}"
        )
    return given


def _digest(document: Document) -> str:
    said = repr((document.page_content, document.metadata))
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16]


def _loaded_of(document: Document) -> Loaded:
    """Return a document as a loader gives it; its own page, line and headings stay."""
    meta = {k: v for k, v in document.metadata.items() if k not in ("title", "source")}
    place = {k: meta.pop(k) for k in ("page", "line", "heading_path") if k in meta}
    title = str(document.metadata.get("title") or "")
    return Loaded(document.page_content, title, document.id, own_fields(meta) | place)
