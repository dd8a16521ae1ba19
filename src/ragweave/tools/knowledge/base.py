"""The knowledge base: a folder of passages that can be searched while it is being written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self, get_args

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.tools import BaseTool

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.names import RetrieverName
from ragweave.state.passages import as_document, encodable
from ragweave.tools.knowledge.chunking import chunker_of, simple_tokens
from ragweave.tools.knowledge.ingest import COUNTED, Ingest, passages_of
from ragweave.tools.knowledge.loaders.text import own_fields
from ragweave.tools.knowledge.passages import Loaded, passage_of
from ragweave.tools.knowledge.search import Mode, Search
from ragweave.tools.knowledge.settings import IndexReport, Notice, Progress, Settings
from ragweave.tools.knowledge.store import FILE, Source, Store
from ragweave.tools.knowledge.web import fetched
from ragweave.tools.knowledge.writer import Writer
from ragweave.tools.retrieval.base import PassageRetriever, check_k, listed
from ragweave.tools.retrieval.embedding import OBJECT, is_model, name_of, named_embeddings
from ragweave.tools.retrieval.reranking import Reranker, RerankRetriever
from ragweave.tools.retrieval.retrievers import Bm25Retriever, SearchRetriever


class KnowledgeBase:
    """Passages in a folder, with BM25 and, optionally, embeddings.

    A write is all or nothing, and there is one writer at a time. Each query reads a snapshot: the
    newest committed state. Safe to use from threads and after a fork.

    Examples:
        >>> with KnowledgeBase.open_or_create("kb") as kb:  # doctest: +SKIP
        ...     kb.index_paths(["docs"])
        ...     kb.as_retriever(k=5).invoke("Who wrote it?")
    """

    def __init__(self, path: str | Path, embeddings: Embeddings | None = None) -> None:
        """Open a knowledge base; see `open`."""
        self.path = _folder(path)
        """The folder."""
        self._store = Store(self.path)
        self.settings = self._store.settings
        """How it chunks, analyses and embeds."""
        self._embeddings = embeddings_of(self.path, self.settings.embedding, embeddings)
        spans = getattr(self._embeddings, "token_spans", None)
        self._tokens = spans if callable(spans) else simple_tokens
        self._search = Search(self._store, self._embeddings)

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        settings: Settings | None = None,
        embeddings: Embeddings | None = None,
    ) -> Self:
        """Create an empty knowledge base in a new or empty folder.

        Args:
            path: The folder.
            settings: How to chunk, analyse and embed; they cannot be changed later.
            embeddings: A LangChain embeddings object instead of `settings.embedding`; `open` then
                needs it too.

        Raises:
            KnowledgeBaseError: The folder is not empty, or cannot be written; or there is no such
                embedding model.
            UsageError: The chunker is unknown.
            MissingExtraError: What runs the embedding model is not installed.
        """
        made = checked((settings or Settings()).resolved(embeddings), embeddings)
        Store.create(_folder(path), made).close()
        return cls(path, embeddings)

    @classmethod
    def open(cls, path: str | Path, *, embeddings: Embeddings | None = None) -> Self:
        """Open a knowledge base.

        Args:
            path: The folder.
            embeddings: The object that it was created with, or one that runs the model it names.

        Raises:
            KnowledgeBaseError: It is missing, damaged, or was made with another embedding model.
        """
        return cls(path, embeddings)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder is a knowledge base."""
        return (Path(path) / FILE).exists()

    @classmethod
    def open_or_create(
        cls,
        path: str | Path,
        *,
        settings: Settings | None = None,
        embeddings: Embeddings | None = None,
    ) -> Self:
        """Open a knowledge base, or create it if there is none.

        An empty one takes the given settings and embeddings instead of its own.

        Raises:
            KnowledgeBaseError: As `open` and `create`; or `settings` differ from its own.
        """
        if not cls.exists(path):
            return cls.create(path, settings=settings, embeddings=embeddings)
        store = Store(Path(path))
        own = store.settings
        given = (settings or own).resolved(embeddings)
        try:
            with store.snapshot() as now:
                empty = now.count() == 0
            if empty and given != own:
                with store.writing() as db:
                    Writer(store.folder, db).set_settings(checked(given, embeddings))
            elif settings is not None and (different := settings.conflict(own, embeddings)):
                raise KnowledgeBaseError(f"{path} was made with other settings: {different}")
        finally:
            store.close()
        return cls(path, embeddings)

    def __len__(self) -> int:
        """Return the number of passages."""
        with self._store.snapshot() as now:
            return now.count()

    def __bool__(self) -> bool:
        """Return True: an empty knowledge base is still one."""
        return True

    @property
    def state(self) -> str:
        """The name of the current state: each write that changes passages gives it a new one."""
        with self._store.snapshot() as now:
            return now.index

    @property
    def indexed_folder(self) -> str:
        """The deepest folder that contains all indexed files; "" if there is none."""
        with self._store.snapshot() as now:
            folders = [str(Path(key).parent) for key in now.sources("file")]
        return os.path.commonpath(folders) if folders else ""

    def sources(self) -> list[Source]:
        """Return what was indexed: files, pages and names of added documents."""
        with self._store.snapshot() as now:
            return list(now.sources().values())

    def passages(self) -> list[Document]:
        """Return every passage, in the order in which they were indexed."""
        with self._store.snapshot() as now:
            stored = now.passages(now.rows()).values()
        return [Document(id=name, page_content=text, metadata=metadata) for name, text, metadata in stored]

    def values(self, name: str) -> list[Any]:
        """Return the values that passages have under a name of their metadata, which a filter may ask for."""
        with self._store.snapshot() as now:
            return now.values(name)

    def index_paths(self, paths: str | Path | Iterable[str | Path], progress: Progress | None = None) -> IndexReport:
        """Bring the index up to date with files and folders.

        New and changed files are read, files that are gone from `paths` leave the index, moved ones
        are recognised by their bytes and name. A file that cannot be read is a line in the report.

        Args:
            paths: Files, or folders, which are read recursively without hidden files (`.name`).
            progress: Called with stage, done and total.

        Raises:
            UsageError: No path is given, or an empty one.
            KnowledgeBaseError: A path does not exist, another writer is active, the disk cannot be
                written, or the embedding model fails.
        """
        given = listed(paths)
        if not given or any(not str(one).strip() for one in given):
            raise UsageError("give at least one file or folder to index (. is this folder)")
        own = self.path.resolve()
        return self._ingest(lambda one: one.paths(map(Path, given), own), progress)

    def index_pages(self, urls: str | Iterable[str], progress: Progress | None = None) -> IndexReport:
        """Fetch web pages and index those that are new or changed; links are not followed.

        Args:
            urls: One address or several.
            progress: Called with stage, done and total.

        Raises:
            UsageError: One is not a web address.
            KnowledgeBaseError: As `index_paths`.
        """
        notices: list[Notice] = []
        pages = fetched(listed(urls), notices)

        def take(ingest: Ingest) -> None:
            ingest.notices += notices
            known = ingest.writer.now.sources("page")
            for url, name, data in pages:
                ingest.page(url, name, data, known.get(url))

        return self._ingest(take, progress)

    def index_documents(
        self, documents: Iterable[Document], source: str, progress: Progress | None = None
    ) -> IndexReport:
        """Bring one source up to date with documents, such as a LangChain loader gives.

        They replace all documents of the source. Indexing the same documents again changes nothing.

        Args:
            documents: The documents; those without text are skipped.
            source: How passages cite them.
            progress: Called with stage, done and total.

        Raises:
            KnowledgeBaseError: As `index_paths`.
        """
        loaded = [loaded_of(doc) for doc in map(as_document, documents) if doc.page_content.strip()]
        key = encodable(source)
        digest = hashlib.sha256(repr(loaded).encode()).hexdigest()

        def take(ingest: Ingest) -> None:
            before = ingest.writer.now.sources("added").get(key)
            ingest.documents(Source(key, key, "added", digest), loaded, before)

        return self._ingest(take, progress)

    def _ingest(self, take: Callable[[Ingest], None], progress: Progress | None) -> IndexReport:
        report = progress or _silent
        with self._writing() as writer:
            ingest = Ingest(writer, self.settings, self._tokens, report)
            take(ingest)
            embedded = self._commit(writer, report)
        counts = {name: ingest.counts[name] for name in COUNTED}
        return IndexReport(**counts, notices=tuple(ingest.notices), passages=len(self), embedded=embedded)

    def add(
        self,
        documents: Document | Iterable[Document],
        source: str | None = None,
        *,
        split: bool = True,
    ) -> list[str]:
        """Add documents; return the ids of their passages, in order.

        A document with an id replaces the one with that id in the same source; adding a document
        again changes nothing.

        Args:
            documents: One document or several; `metadata` may hold `title` and `source`.
            source: How passages cite them, instead of their `metadata["source"]`.
            split: Cut them as the settings say; False takes each as one passage.

        Raises:
            UsageError: A document has no text.
            KnowledgeBaseError: As `index_paths`.
        """
        names: list[str] = []
        given = [as_document(doc) for doc in listed(documents)]
        last = {(_key(doc, source), doc.id): at for at, doc in enumerate(given)}
        with self._writing() as writer:
            seen: set[tuple[str, str]] = set()
            for at, doc in enumerate(given):
                if not doc.page_content.strip():
                    raise UsageError(f"a document has no text (id {doc.id!r})")
                key, loaded = _key(doc, source), loaded_of(doc)
                if split:
                    found = list(passages_of(loaded, self.settings, self._tokens))
                else:
                    found = [passage_of(loaded, 0, len(loaded.text), "", 0, 1)]
                names += [one.name for one in found]
                if loaded.id is None:
                    found = [one for one in found if (key, one.name) not in seen]
                    found = [one for one in found if not writer.now.has_passage(key, one.name)]
                    seen.update((key, one.name) for one in found)
                    stored = False
                else:
                    stored = at < last[key, doc.id] or writer.now.has_document(key, found)
                if found and not stored:
                    instead = [loaded.id] if loaded.id else []
                    writer.extend(Source(key, key, "added"), found, instead)
            self._commit(writer)
        return names

    def delete(self, ids: str | Iterable[str] = (), *, source: str | None = None) -> int:
        """Delete passages by their ids or those of their documents, or all of a source.

        Args:
            ids: One id or several.
            source: A file's path, a page's address, or the name documents were added under.

        Returns:
            How many passages were deleted.

        Raises:
            KnowledgeBaseError: Another writer is active, or the disk cannot be written.
        """
        with self._writing() as writer:
            before = writer.now.count()
            writer.remove_passages(listed(ids))
            if source is not None:
                writer.remove_named(source)
            self._commit(writer)
            return before - writer.now.count()

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        with self._store.writing() as db:
            yield Writer(self.path, db)

    def _commit(self, writer: Writer, progress: Progress | None = None, *, anew: bool = False) -> int:
        """Embed what is new, then make the write the current state; return how many were embedded."""
        embedded = 0
        if self.settings.embedding is not None:
            embed = None if self._embeddings is None else self._search.embed
            try:
                embedded = writer.embed(embed, progress or _silent)
            except LookupError:
                raise self._needs_object() from None
        writer.commit(partial(self._search.build, anew=anew))
        if writer.changed and self._search.by_chroma(writer.now):
            self._search.chroma.sync(writer.now.vectors(), drop=True)
        return embedded

    def as_retriever(
        self,
        k: int = 5,
        mode: RetrieverName = "auto",
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - LangChain's word for it
        rerank: Reranker | None = None,
    ) -> PassageRetriever:
        """Return a retriever over the state that is current at each query.

        Args:
            k: Passages per query; a call may ask for another number.
            mode: `bm25`, `dense`, `hybrid` (both scores, fused), or `graph`, which `auto` is: hybrid, or
                bm25 without embeddings, and one hop over the names that passages share.
            filter: Values that the passages' metadata must have: `{"source": "a.md"}`; of a list
                any one.
            rerank: Hub name or local path of a cross-encoder, `bi-encoder:NAME`, an object with
                `predict`, or a LangChain document compressor.

        Raises:
            UsageError: `k` is below 1, or mode or reranker is unknown.
            KnowledgeBaseError: The mode needs embeddings, and there are none.
        """
        wanted = check_k(k)
        chosen = dict(filter or {})
        words = partial(self._search.search, mode="bm25", chosen=chosen)
        places = partial(self._search.around, chosen=chosen)
        lexical = Bm25Retriever(search=words, k=wanted, places=places)
        found: PassageRetriever = lexical
        if (checked_mode := self._mode(mode)) != "bm25":
            search = partial(self._search.search, mode=checked_mode, chosen=chosen)
            found = SearchRetriever(
                search=search,
                k=wanted,
                words=lexical,
                embeddings=self._embeddings,
                places=places,
            )
        return found if rerank is None else RerankRetriever.over(found, rerank, k=wanted)

    def as_tools(
        self,
        k: int = 5,
        mode: RetrieverName = "auto",
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - LangChain's word for it
        rerank: Reranker | None = None,
    ) -> list[BaseTool]:
        """Return `keyword_search`, `semantic_search` and `read`, for an agent such as `create_agent`'s.

        Searches give snippets, `read` gives whole passages and their neighbours, each once a conversation.
        The method `agentic` is the same as a graph.

        Args:
            k: Snippets a search.
            mode: How `semantic_search` searches, as in `as_retriever`.
            filter: As in `as_retriever`; `read` reads no other passages.
            rerank: As in `as_retriever`.

        Raises:
            UsageError: As `as_retriever`.
            KnowledgeBaseError: As `as_retriever`.
        """
        from ragweave.tools.retrieval.toolkit import search_tools

        return search_tools(self.as_retriever(k, mode, filter=filter, rerank=rerank), k)

    def _mode(self, name: RetrieverName) -> Mode:
        if name not in get_args(RetrieverName):
            raise UsageError(f"unknown mode {name!r}; choose one of: {', '.join(get_args(RetrieverName))}")
        if self.settings.embedding is None and name in ("dense", "hybrid"):
            raise KnowledgeBaseError(
                f"{self.path} has no embeddings: use mode 'bm25' or 'graph', or make another one with an embedding model"
            )
        if self.settings.embedding is not None and self._embeddings is None and name != "bm25":
            raise self._needs_object()
        return "graph" if name == "auto" else name

    def _needs_object(self) -> KnowledgeBaseError:
        name = str(self.settings.embedding).removeprefix(OBJECT)
        return KnowledgeBaseError(f"{self.path} was created with an embeddings object ({name}): pass one to open()")

    def check(self) -> list[str]:
        """Return what is wrong, one line per fault; missing files are not faults of the index.

        `rebuild` repairs all but damage to SQLite's own file.
        """
        with self._store.snapshot() as now:
            found = [f"SQLite: {row[0]}" for row in now.db.execute("PRAGMA integrity_check(10)")]
            found = [] if found == ["SQLite: ok"] else found
            count = now.count()
            try:
                index = self._search.open(now.index)
                if not len(index.rows) == len(index.bm25.lengths) == count:
                    found.append(f"the index has {len(index.rows)} of {count} passages")
            except OSError as error:
                found.append(f"the index cannot be opened ({error})")
            if self.settings.embedding is not None and (lost := now.without_vector()):
                found.append(f"{lost} passages have no vector")
        return found

    def missing_files(self) -> list[str]:
        """Return the indexed files that no longer exist; `delete(source=…)` removes one."""
        with self._store.snapshot() as now:
            return [key for key in now.sources("file") if not Path(key).exists()]

    def rebuild(self) -> None:
        """Make the index and the names anew from the passages, and embed what has no vector."""
        with self._writing() as writer:
            writer.renew()
            self._commit(writer, anew=True)

    def close(self) -> None:
        """Close files; a later query opens them again."""
        self._store.close()
        self._search.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close files."""
        self.close()


def _folder(path: str | Path) -> Path:
    if not str(path).strip():
        raise UsageError("a knowledge base needs a folder or an address")
    return Path(path)


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Report no progress."""


def checked(settings: Settings, embeddings: Embeddings | None) -> Settings:
    """Return settings whose chunker and embedding model exist.

    Raises:
        UsageError: There is no such chunker.
        KnowledgeBaseError: There is no such embedding model.
    """
    chunker_of(settings)
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


def _key(document: Document, source: str | None) -> str:
    """Return the source under which a document is added."""
    return encodable(source or str(document.metadata.get("source") or "") or "added")


def loaded_of(document: Document) -> Loaded:
    """Return a document as a loader gives it; its own page, line and headings stay."""
    meta = {k: v for k, v in document.metadata.items() if k not in ("title", "source")}
    place = {k: meta.pop(k) for k in ("page", "line", "heading_path") if k in meta}
    title = str(document.metadata.get("title") or "")
    return Loaded(document.page_content, title, document.id, own_fields(meta) | place)
