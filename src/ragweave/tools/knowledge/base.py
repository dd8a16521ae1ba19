"""The knowledge base: passages that can be searched while they are written, in a folder or on a server."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, get_args

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.tools import BaseTool

from ragweave.errors import KnowledgeBaseError, UsageError, did_you_mean
from ragweave.names import Preference, RetrieverName
from ragweave.state import Citation, Quote
from ragweave.state.passages import as_document, encodable, without_hidden
from ragweave.tools.embeddings.minilm import onnx_available
from ragweave.tools.embeddings.named import OBJECT, PACKAGED, name_of, named_embeddings
from ragweave.tools.knowledge.chunking import CHUNKERS, Loaded, Passage, passage_of, passages_of
from ragweave.tools.knowledge.evidence import Evidence
from ragweave.tools.knowledge.filters import (
    ALL,
    PLACES,
    Condition,
    Every,
    Field,
    Filter,
    Has,
    Not,
    fields_in,
    folders,
    parse,
    shown,
    tests_of,
)
from ragweave.tools.knowledge.index import FolderIndex, damaged_files
from ragweave.tools.knowledge.ingest import Ingest, roots_of
from ragweave.tools.knowledge.loaders.text import dated, day_in, own_fields
from ragweave.tools.knowledge.loaders.worker import Worker
from ragweave.tools.knowledge.search import Embedder, search
from ragweave.tools.knowledge.settings import FILE_LIMITS, FileLimits, IndexReport, IndexSettings, Progress
from ragweave.tools.knowledge.staging import Writer
from ragweave.tools.knowledge.store import FILE, Snapshot, Store
from ragweave.tools.knowledge.tables import Tables
from ragweave.tools.knowledge.view import Query, Source, SourceReader, View
from ragweave.tools.knowledge.writer import FolderWriter
from ragweave.tools.retrieval.analyzer import analyzer_for
from ragweave.tools.retrieval.base import PassageRetriever, check_k, listed
from ragweave.tools.retrieval.newest import arranged
from ragweave.tools.retrieval.reranking import Reranker
from ragweave.tools.retrieval.retrievers import Bm25Retriever, SearchRetriever

if TYPE_CHECKING:
    from ragweave.tools.knowledge.enrich import Enricher
    from ragweave.tools.models import ChatModel

_LOGGER = logging.getLogger("ragweave")
_BATCH = 1_000
"""Passages of documents that are read at once."""
_AROUND = 2
"""Rows of a table on each side of a quote's that are shown with it."""
_MAX_DERIVED = 16
"""What is derived from states and filters, and kept."""
T = TypeVar("T")
SomeSettings: TypeAlias = IndexSettings | Mapping[str, Any] | None
"""All settings, or some of them by name; the others are the knowledge base's own, or the defaults of a new one."""
_WRITTEN = {"time": "2024-01-31", "version": "v1.10"}
"""How operands of a kind are written, where a number might be meant."""


class AbstractKnowledgeBase(ABC):
    """Passages with the sources that they come from, in a folder or on a server.

    It may have a condition: passages that do not pass it are not there.

    Errors of all methods that write: `KnowledgeBaseError` if another writer is still active after `wait`, the disk or
    server cannot be written, or the embedding model fails.
    """

    path: Path | str
    """The folder or address."""
    wait: float = 60
    """Seconds that a write to a folder waits for another writer."""
    settings: IndexSettings
    """How it chunks, analyses and embeds."""
    _embedder: Embedder
    _condition: Condition = ALL
    """Which passages it shows: every method that leads to passages asks the store with it."""

    modes: Sequence[str] = get_args(RetrieverName)
    """How it can be searched."""

    @abstractmethod
    def _view(self) -> AbstractContextManager[View]:
        """Read the current state."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Writer]:
        """Begin a write."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return what is wrong, one line per fault; missing files are not faults of the index."""

    @abstractmethod
    def rebuild(self) -> None:
        """Make again what is derived from the passages."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""

    def __len__(self) -> int:
        """Return the number of passages."""
        if self._condition == ALL:
            with self._reading() as now:
                return now.count()
        with self._view() as view:
            return len(view.rows(self._condition))

    def sources(self) -> list[Source]:
        """Return what was indexed: files, pages and names of added documents."""
        if self._condition == ALL:
            with self._reading() as now:
                return [*now.sources().values()]
        with self._view() as view:
            return view.sources_of(self._condition)

    def passages(self) -> list[Document]:
        """Return every passage, in the order in which they were indexed."""
        with self._view() as view:
            return without_hidden(view.documents(view.rows(self._condition).tolist()).values())

    def documents(self) -> Iterator[list[Document]]:
        """Yield every document as its passages in order; a row of a table is a document.

        They are of one state, which is read as long as the iterator is not at its end or closed.
        """
        document: list[Document] = []
        with self._view() as view:
            rows = view.rows(self._condition).tolist()
            for start in range(0, len(rows), _BATCH):
                for passage in without_hidden(view.documents(rows[start : start + _BATCH]).values()):
                    if document and not _continues(document[-1].metadata, passage.metadata):
                        yield document
                        document = []
                    document.append(passage)
        if document:
            yield document

    def tables(self) -> Tables:
        """Return the rows and documents as typed tables, which queries read; they are kept until the next write."""
        return self.derived(_tables_of)

    def derived(self, make: Callable[[AbstractKnowledgeBase], T]) -> T:
        """Return what a function makes of this knowledge base; it is kept until the next write."""
        # In each process by itself: SQLite's connections must not cross a fork.
        value: T = self._derived(make, self._condition, self.state, os.getpid())
        return value

    @property
    def state(self) -> str:
        """The name of the current state: every write changes it."""
        with self._view() as view:
            return str(view.state())

    @cached_property
    def _derived(self) -> Callable[..., Any]:
        return lru_cache(maxsize=_MAX_DERIVED)(lambda make, chosen, _state, _process: make(self.view(chosen)))

    def fields(self) -> list[Field]:
        """Return the fields of the passages' metadata, by which a filter can choose."""
        with self._view() as view:
            return fields_in(view.counted(self._condition))

    def values(self, name: str) -> list[Any]:
        """Return the values that passages have in a field of their metadata, which a filter may ask for."""
        if name in PLACES:
            keys = [source.key for source in self.sources()]
            return keys if name == "source" else sorted({folder for key in keys for folder in folders(key)})
        with self._view() as view:
            counts = view.counted(self._condition, name)
            stored = {(kind, value) for field, kind, value, _ in counts if field == name and value is not None}
        return [shown(key) for key in sorted(stored)]

    def view(self, filter: Filter) -> KnowledgeView:
        """Return a knowledge base that holds only the passages that pass a filter, to be searched and read.

        Raises:
            UsageError: It is not a filter.
        """
        return KnowledgeView(self, parse(filter))

    def _check_operands(self, chosen: Condition) -> None:
        """Raise `UsageError` if no passage has a field that a filter tests, or a value in it of the operand's kind."""
        for test in tests_of(chosen):
            if not test.keys or test.name in PLACES:
                continue
            with self._view() as view:
                known = view.kinds(test.name, self._condition)
            if not known:
                names = sorted({field.name for field in self.fields()})
                hint = f": {did_you_mean(test.name, names)}" if names else ""
                raise UsageError(f"no passage has a field {test.name!r}{hint}")
            fitting = known.keys() & {kind for kind, _ in test.keys}
            if fitting == {"number"} and "version" in known:  # 1.10 is either: is every version a number, too?
                only = Every((Has(test.name, "?", (("version", 0.0),)), Not(Has(test.name, "?", (("number", 0.0),)))))
                fitting = set() if len(self.view(only)) else fitting
            if not fitting:
                kind = "version" if "version" in known else next(iter(known))
                written = f": write it like {_WRITTEN[kind]}" if kind in _WRITTEN else ""
                raise UsageError(
                    f"{test.name}: {shown(test.keys[0])!r} is a {test.keys[0][0]}, but the field holds {kind}s such as "
                    f"{known[kind]!r}{written}"
                )

    def missing_files(self) -> list[str]:
        """Return the indexed files that no longer exist; `delete(source=…)` removes one."""
        return [source.key for source in self.sources() if source.kind == "file" and not Path(source.key).exists()]

    def _reading(self) -> AbstractContextManager[SourceReader]:
        """Read the sources of the current state."""
        return self._view()

    def __bool__(self) -> bool:
        return True  # if empty, too

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def as_retriever(
        self,
        k: int = 5,
        mode: RetrieverName = "auto",
        *,
        filter: Filter = None,
        rerank: Reranker | None = None,
        prefer: Preference | None = None,
    ) -> PassageRetriever:
        """Return a retriever over the state that is current at each query.

        Args:
            k: Passages per query; a call may ask for another number.
            mode: `bm25`, `dense`, `hybrid` (both scores, fused), or `graph`, which `auto` is: hybrid, or
                bm25 without embeddings, and one hop over the names that passages share. Chroma has
                `dense` alone, which is its `auto`.
            filter: Which passages it finds, by their metadata: `{"year": {"$gte": 2020}, "dept": ["hr", "it"]}`.
                Its language is that of `tools.knowledge.filters`.
            rerank: Hub name, local path or `fastembed:NAME` of a cross-encoder, `bi-encoder:NAME`, an object with
                `predict`, or a LangChain document compressor.
            prefer: `newest`: of several versions of a passage the newest comes first, or that of the time that the
                question names (`tools.retrieval.newest`).

        Raises:
            UsageError: `k` is below 1; mode, reranker, preference or an operator of the filter is unknown; or there are passages,
                but none has a field that the filter tests, or a value in it of the operand's kind.
            KnowledgeBaseError: The mode needs embeddings, and there are none.
        """
        chosen = parse(filter)
        if chosen != ALL and len(self):
            self._check_operands(chosen)
        base = self if chosen == ALL else self.view(chosen)
        return arranged(base._retriever(check_k(k), mode), k, rerank, prefer)

    def _retriever(self, k: int, mode: RetrieverName) -> PassageRetriever:
        if mode not in self.modes:
            raise UsageError(f"unknown mode {mode!r}; choose one of: {', '.join(self.modes)}")
        if mode == "auto" and "graph" not in self.modes:
            mode = "dense"
        if self.settings.embedding is None and mode in ("dense", "hybrid"):
            raise KnowledgeBaseError(
                f"{self.path} has no embeddings: use mode 'bm25' or 'graph', or make another one with an embedding model"
            )
        if self.settings.embedding is not None and mode != "bm25":
            self._embedder.loaded()
        words = Bm25Retriever(search=partial(self._search, mode="bm25"), k=k) if "bm25" in self.modes else None
        return SearchRetriever(
            search=partial(self._search, mode=mode),
            k=k,
            words=words,
            embeddings=None if mode == "bm25" else self._embedder.model,
            places=self._around,
            evidence=self.evidence,
            collection=self,
        )

    def _search(self, question: str, k: int, mode: RetrieverName) -> list[Document]:
        vector = None if mode == "bm25" or self._embedder.model is None else self._embedder.query(question)
        terms = analyzer_for(self.settings.language).terms
        query = Query(None if mode == "dense" else terms(question), vector, self._condition)
        with self._view() as view:
            if vector is not None:
                self._embedder.check(vector, view.dimensions())
            return search(view, question, query, k, mode, terms)

    def _around(self, name: str, sides: int) -> list[Document]:
        with self._view() as view:
            return without_hidden(view.around(name, sides, self._condition))

    def evidence(self, citation: Citation | Quote) -> Evidence:
        """Return where the quotes of a citation, or one quote, stand in their files, which are read again.

        A list of places, a page each; boxes are left, top, right, bottom in points from the top left corner of the
        page as it is shown. A notebook shows the pictures of the pages. A quote of a passage that this knowledge
        base does not hold has no place.
        """
        evidence, quotes = Evidence(), citation.get("quotes", [citation])
        with self._view() as view:
            cited = [
                (passage, quote["start"], quote["end"], view.source(passage.metadata["source"]), around)
                for quote in (quotes if isinstance(quotes, list) else ())
                for around in [view.around(quote["passage"], _AROUND, self._of_file(quote.get("file")))]
                for passage in around
                if passage.id == quote["passage"] and 0 <= quote["start"] < quote["end"] <= len(passage.page_content)
            ]
        for quoted in cited:
            evidence.add(*quoted)
        return evidence

    def _of_file(self, file: str | None) -> Condition:
        """Return what a passage of a file, if one is named, passes: passages of several files may have one id."""
        return Every((self._condition, Has("source", "=", (("text", file),)))) if file else self._condition

    def as_tools(
        self,
        k: int = 5,
        mode: RetrieverName = "auto",
        *,
        filter: Filter = None,
        rerank: Reranker | None = None,
        prefer: Preference | None = None,
    ) -> list[BaseTool]:
        """Return `keyword_search`, `semantic_search` and `read`, for an agent such as `create_agent`'s.

        Searches give `k` snippets, `read` gives whole passages with their neighbours, each once a conversation.
        The method `agentic` is the same as a graph. Arguments are those of `as_retriever`.
        """
        from ragweave.tools.retrieval.toolkit import search_tools

        return search_tools(self.as_retriever(k, mode, filter=filter, rerank=rerank, prefer=prefer), k)

    def index_paths(
        self,
        paths: str | Path | Iterable[str | Path],
        progress: Progress | None = None,
        limits: FileLimits | None = FILE_LIMITS,
        *,
        enrich: str | ChatModel | None = None,
    ) -> IndexReport:
        """Bring the index up to date with files and folders.

        New and changed files are read, and files that are gone from `paths`, or were moved there, leave the index.
        A file that cannot be read, or not within the limits, is a line in the report. Folders are read recursively, without hidden files (`.name`).

        Files are read in another process, except small ones of light formats; with `limits=None`,
        all are read in this one.

        With `enrich`, a chat model or its spec, the model is asked once about each passage of these files for names
        and facts, which a search reads too (`tools.knowledge.enrich`). Files indexed without it are read again.

        Raises:
            UsageError: No path is given, or an empty one.
            KnowledgeBaseError: A path does not exist, or the write fails.
            ModelError: The model fails; its replies are kept, and the next call goes on from there.
        """
        roots = roots_of(paths)
        return self._ingest(lambda ingest: ingest.paths(roots), progress, limits, enrich)

    def index_pages(
        self,
        urls: str | Iterable[str],
        progress: Progress | None = None,
        limits: FileLimits | None = FILE_LIMITS,
        *,
        enrich: str | ChatModel | None = None,
    ) -> IndexReport:
        """Fetch web pages and index those that are new or changed; links are not followed.

        They are read as files are, within limits, and enriched as by `index_paths`.

        Raises:
            UsageError: One is not a web address.
        """
        return self._ingest(lambda ingest: ingest.pages(listed(urls)), progress, limits, enrich)

    def index_documents(
        self,
        documents: Iterable[Document],
        source: str,
        progress: Progress | None = None,
        *,
        enrich: str | ChatModel | None = None,
    ) -> IndexReport:
        """Bring one source up to date with documents, such as a LangChain loader gives.

        They replace all documents of the source, and are cited by its name. Those without text are
        skipped. Indexing the same documents again changes nothing. They are enriched as by `index_paths`.
        """
        loaded = [_loaded_of(doc) for doc in map(as_document, documents) if doc.page_content.strip()]
        return self._ingest(lambda ingest: ingest.documents(encodable(source), loaded), progress, None, enrich)

    def _ingest(
        self,
        take: Callable[[Ingest], None],
        progress: Progress | None,
        limits: FileLimits | None,
        enrich: str | ChatModel | None,
    ) -> IndexReport:
        with (
            self._writing() as writer,
            closing(Worker(limits)) as worker,
            self._enricher(enrich, progress) as enricher,
        ):
            writer.enrich, writer.progress = enricher, progress
            ingest = Ingest(writer, self.settings, self._embedder.model, worker)
            take(ingest)
            embedded = writer.commit()
            cost = enricher.cost() if enricher else ""
        counts = {"passages": len(self), "embedded": embedded, **ingest.counts}
        return IndexReport(**counts, notices=tuple(ingest.notices), dates=ingest.dates, enriched=cost)

    def _enricher(
        self, model: str | ChatModel | None, progress: Progress | None
    ) -> AbstractContextManager[Enricher | None]:
        """Return what enriches passages; its replies are kept in the folder, or for an address in the user's cache."""
        if model is None:
            return nullcontext()
        from ragweave.tools.knowledge.enrich import Enricher

        folder = self.path if isinstance(self.path, Path) else Path.home() / ".cache" / "ragweave"
        folder.mkdir(parents=True, exist_ok=True)
        return closing(Enricher(model, folder / "enriched.sqlite", progress))

    def add(
        self, documents: Document | Iterable[Document], source: str | None = None, *, split: bool = True
    ) -> list[str]:
        """Add documents; return the ids of their passages, in order.

        A document replaces the one with its id in the same source; adding it again changes nothing.

        Args:
            documents: `metadata` may hold `title` and `source`. Those without an id get a hash of
                their content.
            source: How passages cite them, instead of their `metadata["source"]`.
            split: Cut them as the settings say; False takes each as one passage.

        Raises:
            UsageError: A document has no text.
        """
        names: list[str] = []
        passages: dict[tuple[str, str | None], list[Passage]] = {}
        for doc in map(as_document, listed(documents)):
            content = repr((doc.page_content, doc.metadata)).encode("utf-8", "replace")
            loaded = _loaded_of(doc.model_copy(update={"id": doc.id or hashlib.sha256(content).hexdigest()[:16]}))
            cut = (
                passages_of(loaded, self.settings, self._embedder.model)
                if split
                else [passage_of(loaded, 0, len(loaded.text))]
            )
            if not any(passage.text.strip() for passage in cut):  # nor has one without a token of the model
                raise UsageError(f"a document has no text (id {doc.id!r})")
            names += [passage.name for passage in cut]
            key = encodable(source or str(doc.metadata.get("source") or "") or "added")
            passages[key, loaded.id] = cut
        with self._writing() as writer:
            with self._reading() as now:
                sources = {key: now.source(key) or Source(key, "added") for key in {key for key, _ in passages}}
            for (key, _), cut in passages.items():
                writer.extend(sources[key], cut)
            writer.commit()
        return names

    def delete(self, ids: str | Iterable[str] = (), *, source: str | None = None) -> int:
        """Delete passages by their ids or those of their documents, or all of a source.

        Args:
            ids: One id or several.
            source: A file's path, a page's address, or the name documents were added under. A file whose
                passages are deleted by ids alone is read again at the next indexing.

        Returns:
            How many passages were deleted.
        """
        with self._writing() as writer:
            before = len(self)
            writer.remove_passages(listed(ids))
            if source is not None:
                with self._reading() as now:
                    known = now.source(source)
                writer.remove(source if known else os.path.abspath(source))  # noqa: PTH100 - as indexed
            writer.commit()
            return before - len(self)


class KnowledgeBase(AbstractKnowledgeBase):
    """Passages in a folder, with BM25 and, optionally, embeddings.

    A write is all or nothing, and there is one writer at a time. Each query reads a snapshot: the
    newest committed state. Safe to use from threads and after a fork.

    Examples:
        >>> with KnowledgeBase.open_or_create("kb") as kb:  # doctest: +SKIP
        ...     kb.index_paths(["docs"])
        ...     kb.as_retriever(k=5).invoke("Who wrote it?")
    """

    path: Path

    def __init__(self, path: str | Path, embeddings: Embeddings | None = None) -> None:
        self.path = Path(path)
        self._store = Store(self.path)
        self.settings = self._store.settings
        self._embedder = embedder_of(self.path, self.settings.embedding, embeddings)
        self._index = FolderIndex(self._store)

    @classmethod
    def open(cls, path: str | Path, *, embeddings: Embeddings | None = None) -> Self:
        """Open a knowledge base, with the embeddings object that it was created with, if any.

        Raises:
            KnowledgeBaseError: It is missing, damaged, or was made with another embedding model.
        """
        return cls(path, embeddings)

    @classmethod
    def create(cls, path: str | Path, *, settings: SomeSettings = None, embeddings: Embeddings | None = None) -> Self:
        """Create an empty knowledge base in a new or empty folder.

        Args:
            path: The folder.
            settings: How to chunk, analyse and embed, or some of that by name.
            embeddings: A LangChain embeddings object instead of `settings.embedding`; `open` then
                needs it too.

        Raises:
            KnowledgeBaseError: The folder is not empty, or cannot be written; or there is no such
                embedding model.
            UsageError: The chunker is unknown, or the path is a server's address.
            MissingExtraError: What runs the embedding model is not installed.
        """
        if "://" in str(path):
            raise UsageError("an address is not a folder: open it with open_knowledge_base")
        Store.create(Path(path), agreed(path, None, settings, embeddings), cls.wait)
        return cls(path, embeddings)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder is a knowledge base."""
        return (Path(path) / FILE).exists()

    @classmethod
    def open_or_create(
        cls, path: str | Path, *, settings: SomeSettings = None, embeddings: Embeddings | None = None
    ) -> Self:
        """Open a knowledge base, or create it if there is none.

        It takes over the given fields of rows, or all settings and embeddings if it is empty. Its sources are
        then read again by the next indexing.

        Raises:
            KnowledgeBaseError: As `open` and `create`; or `settings` differ from its own.
        """
        if not cls.exists(path):
            try:
                return cls.create(path, settings=settings, embeddings=embeddings)
            except KnowledgeBaseError:
                if not cls.exists(path):  # no other process made it meanwhile
                    raise
        store = Store(Path(path))
        with store.snapshot() as now:
            wanted = agreed(path, store.settings, settings, embeddings, empty=now.count() == 0)
        if wanted != store.settings:
            store.reset(wanted, cls.wait)
        store.close()
        return cls(path, embeddings)

    def _reading(self) -> AbstractContextManager[Snapshot]:
        return self._store.snapshot()

    @contextmanager
    def _writing(self) -> Iterator[FolderWriter]:
        with self._store.writing(self.wait) as db:
            yield FolderWriter(db, self._index, self._embedder)

    def delete(self, ids: str | Iterable[str] = (), *, source: str | None = None) -> int:
        """Delete passages, as `AbstractKnowledgeBase.delete`; on a full disk, in the room that is kept for it."""
        names = listed(ids)
        try:
            return super().delete(names, source=source)
        except KnowledgeBaseError:
            if not self._store.release():
                raise
        return super().delete(names, source=source)

    def backup(self, folder: str | Path) -> None:
        """Copy the current state to a new folder, which is a knowledge base then; readers go on, writers wait.

        Raises:
            KnowledgeBaseError: The folder exists, or one of the two cannot be written.
        """
        self._store.backup(Path(folder), self.wait)

    def _view(self) -> AbstractContextManager[View]:
        return self._index.view()

    def check(self) -> list[str]:
        """Return what is wrong, one line per fault; missing files are not faults of the index.

        `rebuild` repairs all but damage to SQLite's own file.
        """
        with self._store.snapshot() as now:
            faults = [f"SQLite: {row[0]}" for row in now.db.execute("PRAGMA integrity_check(10)")]
            faults = [] if faults == ["SQLite: ok"] else faults
            count = now.count()
            try:
                index = self._index.open(now.index, now.dimensions(), now.hashes)
                damaged = damaged_files(self.path, json.loads(now.hashes))
                faults += [f"the index is damaged ({name})" for name in damaged]
                alive = len(index.rows) - len(index.gone)
                if alive != count or any(len(part.rows) != len(part.bm25.lengths) for part in index.segments):
                    faults.append(f"the index has {alive} of {count} passages")
            except (OSError, ValueError) as error:
                faults.append(f"the index cannot be opened ({error})")
            faults += [
                f"passage {name} of {source} is damaged: --repair removes it, and the next indexing reads its source again"
                for name, source in islice(now.damaged(), 10)
            ]
            lost = now.db.execute("SELECT count(*) FROM passages WHERE content NOT IN (SELECT content FROM vectors)")
            if self.settings.embedding is not None and (number := lost.fetchone()[0]):
                faults.append(f"{number} passages have no vector")
        return faults

    def rebuild(self) -> None:
        """Make the index and the names again from the passages, and embed what has no vector.

        Damaged passages are removed, and their sources are read again at the next indexing.
        """
        with self._store.snapshot() as now:
            damaged = [name for name, _ in now.damaged()]
        with self._writing() as writer:
            writer.remove_passages(damaged)
            writer.rebuild()

    def close(self) -> None:
        """Close files; a later query opens them again."""
        self._store.close()
        self._index.close()


class KnowledgeView(AbstractKnowledgeBase):
    """The passages of a knowledge base that pass a filter: it holds nothing else, and cannot be written."""

    def __init__(self, base: AbstractKnowledgeBase, condition: Condition) -> None:
        self.path, self.settings, self.modes, self._embedder = base.path, base.settings, base.modes, base._embedder
        self._base, self._derived = base, base._derived
        self._condition = condition if base._condition == ALL else Every((base._condition, condition))

    def _view(self) -> AbstractContextManager[View]:
        return self._base._view()

    def _writing(self) -> AbstractContextManager[Writer]:
        raise UsageError("a view cannot be written: write to the knowledge base itself")

    def check(self) -> list[str]:
        """Return nothing: the knowledge base itself is checked."""
        return []

    def rebuild(self) -> None:
        """Refuse: a view cannot be written."""
        self._writing()

    def close(self) -> None:
        """Do nothing: the knowledge base stays open."""


def _tables_of(base: AbstractKnowledgeBase) -> Tables:
    return Tables(base.documents())


def agreed(
    path: str | Path,
    own: IndexSettings | None,
    given: SomeSettings,
    embeddings: Embeddings | None,
    *,
    empty: bool = False,
) -> IndexSettings:
    """Return the settings that a knowledge base will have, with its embedding model by name.

    A new knowledge base (`own` is None) or an `empty` one takes the given settings; any other takes only the fields
    of rows.

    Raises:
        KnowledgeBaseError: Other settings differ from its own, or there is no such embedding model.
        UsageError: The chunker is unknown.
    """
    wanted = given if isinstance(given, IndexSettings) else replace(own or IndexSettings(), **(given or {}))
    if own is not None and not empty:
        if embeddings is not None or wanted.embedding == "auto":
            wanted = replace(wanted, embedding=own.embedding)
        pairs = zip(asdict(own).items(), asdict(wanted).values(), strict=True)
        differ = [f"{n} = {a!r}, not {b!r}" for (n, a), b in pairs if a != b and not n.endswith("_field")]
        if differ:
            raise KnowledgeBaseError(
                f"{path} was made with other settings: {', '.join(differ)}; "
                "leave them out, or make another knowledge base"
            )
        return wanted
    if embeddings is not None:
        wanted = replace(wanted, embedding=name_of(embeddings))
    elif wanted.embedding == "auto":
        wanted = replace(wanted, embedding=PACKAGED if onnx_available() else None)
    if wanted != own:
        CHUNKERS.named(wanted.chunker)
        if wanted.embedding is not None and embeddings is None:
            named_embeddings(wanted.embedding).embed_query("")  # loads it
    return wanted


def embedder_of(path: str | Path, name: str | None, given: Embeddings | None) -> Embedder:
    """Return what embeds: the caller's object, the named model, or nothing.

    Raises:
        KnowledgeBaseError: The vectors are those of another model than the caller's.
    """
    if given is not None:
        if name is None:
            raise KnowledgeBaseError(f"{path} was created without embeddings; create a new one")
        if name != name_of(given):
            raise KnowledgeBaseError(
                f"{path} was made with {name}, whose vectors cannot be compared with those of {name_of(given)}"
            )
    elif name is not None and not name.startswith(OBJECT):
        if name != PACKAGED:  # a stranger's knowledge base may name a model whose files run code
            _LOGGER.warning("%s uses the embedding model %s", path, name)
        given = named_embeddings(name)
    return Embedder(str(path), name, given)


def _continues(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """Return whether a passage is of the same document as the one before it, by their metadata."""
    same = all(earlier.get(name) == later.get(name) for name in ("source", "member", "title", "line"))
    return same and bool(earlier["start"] < later["start"])


def _loaded_of(document: Document) -> Loaded:
    """Return a document as a loader gives it; its own page, line and headings stay."""
    meta = {k: v for k, v in document.metadata.items() if k not in ("title", "source")}
    place = {k: meta.pop(k) for k in ("page", "line", "heading_path") if k in meta}
    if "heading_path" in place:
        place["heading_path"] = [encodable(str(heading)) for heading in listed(place["heading_path"] or ())]
    title = str(document.metadata.get("title") or "")
    text = document.page_content.lstrip()  # so that its first passage begins at 0, by which `documents` knows it
    return dated(Loaded(text, title, document.id, own_fields(meta) | place), title=day_in(title))
