"""The knowledge base: a folder of passages that can be searched while it is being written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self, get_args

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.tools import BaseTool

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.names import RetrieverName
from ragweave.tools.knowledge.abstract import AbstractKnowledgeBase, checked, embeddings_of
from ragweave.tools.knowledge.search import Mode, Search
from ragweave.tools.knowledge.settings import Settings
from ragweave.tools.knowledge.store import FILE, Filter, Snapshot, Store
from ragweave.tools.knowledge.writer import Writer
from ragweave.tools.retrieval.base import PassageRetriever, check_k
from ragweave.tools.retrieval.reranking import Reranker, RerankRetriever
from ragweave.tools.retrieval.retrievers import Bm25Retriever, SearchRetriever


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
        """Open a knowledge base; see `open`."""
        self.path = _folder(path)
        self._store = Store(self.path)
        self.settings = self._store.settings
        self._embeddings = embeddings_of(self.path, self.settings.embedding, embeddings)
        self._search = Search(self._store, self._embeddings)

    @classmethod
    def create(
        cls, path: str | Path, *, settings: Settings | None = None, embeddings: Embeddings | None = None
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
        cls, path: str | Path, *, settings: Settings | None = None, embeddings: Embeddings | None = None
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
        with store.snapshot() as now:
            empty = now.count() == 0
        if empty and given != own:
            store.reset(checked(given, embeddings))
        elif settings is not None and (different := settings.conflict(own, embeddings)):
            raise KnowledgeBaseError(f"{path} was made with other settings: {different}")
        store.close()
        return cls(path, embeddings)

    def _reading(self) -> AbstractContextManager[Snapshot]:
        return self._store.snapshot()

    def passages(self) -> list[Document]:
        """Return every passage, in the order in which they were indexed."""
        with self._store.snapshot() as now:
            return [*now.documents([*now.rows()]).values()]

    def values(self, name: str) -> list[Any]:
        """Return the values that passages have under a name of their metadata, which a filter may ask for."""
        with self._store.snapshot() as now:
            return now.values(name)

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        with self._store.writing() as db:
            yield Writer(db, self._search)

    def as_retriever(
        self, k: int = 5, mode: RetrieverName = "auto", *, filter: Filter = None, rerank: Reranker | None = None
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
            found = SearchRetriever(search=search, k=wanted, words=lexical, embeddings=self._embeddings, places=places)
        return found if rerank is None else RerankRetriever.over(found, rerank, k=wanted)

    def as_tools(
        self, k: int = 5, mode: RetrieverName = "auto", *, filter: Filter = None, rerank: Reranker | None = None
    ) -> list[BaseTool]:
        """Return `keyword_search`, `semantic_search` and `read`, for an agent such as `create_agent`'s.

        Searches give `k` snippets, `read` gives whole passages and their neighbours, each once a
        conversation. The method `agentic` is the same as a graph. Arguments are those of `as_retriever`.
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
        if self.settings.embedding is not None and name != "bm25":
            self._search.model()
        return "graph" if name == "auto" else name

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
            lost = now.db.execute("SELECT count(*) FROM passages WHERE content NOT IN (SELECT content FROM vectors)")
            if self.settings.embedding is not None and (number := lost.fetchone()[0]):
                found.append(f"{number} passages have no vector")
        return found

    def missing_files(self) -> list[str]:
        """Return the indexed files that no longer exist; `delete(source=…)` removes one."""
        with self._store.snapshot() as now:
            return [key for key in now.sources("file") if not Path(key).exists()]

    def rebuild(self) -> None:
        """Make the index and the names anew from the passages, and embed what has no vector."""
        with self._writing() as writer:
            writer.rebuild()
            writer.commit()

    def close(self) -> None:
        """Close files; a later query opens them again."""
        self._store.close()
        self._search.open.cache_clear()


def _folder(path: str | Path) -> Path:
    if not str(path).strip():
        raise UsageError("a knowledge base needs a folder or an address")
    return Path(path)
