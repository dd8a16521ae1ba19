"""The knowledge base: a folder of passages that can be searched while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.names import RetrieverName
from ragweave.tools.knowledge.adding import take_documents
from ragweave.tools.knowledge.cluster_encoding import ClusterEmbeddings
from ragweave.tools.knowledge.draft import Draft
from ragweave.tools.knowledge.embedding import embedding_name, embeddings_of, tokenizer_of
from ragweave.tools.knowledge.folder import Folder, Home
from ragweave.tools.knowledge.intake import Intake
from ragweave.tools.knowledge.manifest import IndexReport, Manifest, Progress, Settings
from ragweave.tools.knowledge.retrievers import RetrieverKind, retriever_of
from ragweave.tools.knowledge.served import Served
from ragweave.tools.knowledge.settling import as_held, resolved, settled, with_prefixes_of
from ragweave.tools.knowledge.writing import Written, check_settings
from ragweave.tools.listed import listed
from ragweave.tools.retrieval.base import PassageRetriever
from ragweave.tools.retrieval.bm25 import Bm25Retriever
from ragweave.tools.retrieval.hybrid import DenseRetriever, HybridRetriever
from ragweave.tools.retrieval.reranking import PairScorer
from ragweave.tools.stores import Address, Place, place_of

Result = TypeVar("Result")


class KnowledgeBase:
    """Passages in a folder or behind an address, with BM25 and, optionally, embeddings.

    Made by `create`, `open` or `open_or_create`. Every write makes a new generation, all or
    nothing, and only one writer is admitted at a time. Each query of a reader, in this process or
    another, sees one whole generation, the newest. Safe to use from threads.

    An address names a store that others can reach: `pg:postgresql://host/db#papers`,
    `qdrant:http://host:6333#papers`, `es:…`, `opensearch:…` (`ragweave.tools.stores.STORES`).

    Example:
        >>> with KnowledgeBase.open_or_create("kb") as kb:  # doctest: +SKIP
        ...     kb.index_paths([Path("docs")])
        ...     kb.as_retriever(k=5).invoke("Who wrote it?")
    """

    def __init__(self, path: str | Path | Address, embeddings: Embeddings | None = None) -> None:
        """Use `create`, `open` or `open_or_create`."""
        self._home = _home(path)
        self.path: Place = self._home.place
        """The folder or the address."""
        try:
            manifest = self.manifest
            self._embeddings = embeddings_of(self.path, manifest, embeddings)
        except BaseException:
            self._home.close()
            raise
        self._collection = manifest.collection
        self._tokens = tokenizer_of(manifest, self._embeddings)

    @classmethod
    def create(
        cls,
        path: str | Path | Address,
        *,
        settings: Settings | None = None,
        embeddings: Embeddings | None = None,
    ) -> Self:
        """Make an empty knowledge base in a new or empty folder, or a new collection of a store.

        Args:
            path: The folder, or the address.
            settings: How to cut, analyse and embed; fixed from here on.
            embeddings: A LangChain embeddings object instead of `settings.embedding`; `open` then
                needs it too.

        Raises:
            KnowledgeBaseError: The folder is not empty, or cannot be written; the store does not
                answer, or has this collection; or there is no such embedding model.
            UsageError: There is no such chunker, or no tokenizer to count tokens with.
            MissingExtraError: Embeddings are requested and Chroma is not installed, or the store's
                client is not.
        """
        with closing(_home(path)) as home:
            given = resolved(settings or Settings(), embeddings, home)
            home.create(*settled(given, embeddings, home))
            return cls(path, embeddings)

    @classmethod
    def open(cls, path: str | Path | Address, *, embeddings: Embeddings | None = None) -> Self:
        """Open a knowledge base.

        Args:
            path: The folder, or the address.
            embeddings: The embeddings object that it was created with, or one of the same class; or
                an object that runs the model which it names.

        Raises:
            KnowledgeBaseError: It is missing, foreign, damaged or of a newer format; or
                `embeddings` are not those that it was created with.
        """
        return cls(path, embeddings)

    @staticmethod
    def exists(path: str | Path | Address) -> bool:
        """Return whether there is a knowledge base, be it damaged."""
        with closing(_home(path)) as home:
            return home.exists()

    @classmethod
    def open_or_create(
        cls,
        path: str | Path | Address,
        *,
        settings: Settings | None = None,
        embeddings: Embeddings | None = None,
    ) -> Self:
        """Open a knowledge base, or create it where there is none.

        One that was never written to takes the given settings and embeddings instead of its own.

        Raises:
            KnowledgeBaseError: As `open` and `create`; or `settings` differ from its own.
        """
        with closing(_home(path)) as home:
            if not home.exists():
                return cls.create(path, settings=settings, embeddings=embeddings)
            held = home.manifest
            if not held.generation and (settings is not None or embeddings is not None):
                given = resolved(settings or held.settings, embeddings, home)
                same = given.embedding == held.settings.embedding
                alike = with_prefixes_of(given, held.settings) if same else given
                name = embedding_name(given, embeddings)
                if (alike, name) != (held.settings, held.embedding_name):
                    home.change_settings(*settled(given, embeddings, home))
            if settings is not None:
                own = home.manifest.settings
                given = resolved(as_held(settings, embeddings, own), embeddings, home)
                check_settings(home.place, own, given)
            return cls(path, embeddings)

    @property
    def manifest(self) -> Manifest:
        """The manifest of the current generation."""
        return self._home.manifest

    @property
    def settings(self) -> Settings:
        """The settings that it was created with."""
        return self.manifest.settings

    @property
    def indexed_folder(self) -> str:
        """The deepest folder that holds all indexed files, absolute; "" where that is not known."""
        return self._home.indexed_folder

    def __len__(self) -> int:
        """Return the number of distinct passages."""
        return self.manifest.passages

    def __bool__(self) -> bool:
        """Return True: an empty knowledge base is still one."""
        return True

    def add(
        self,
        documents: Document | Iterable[Document],
        source: str | None = None,
        *,
        split: bool = True,
    ) -> list[str]:
        """Add documents; return the ids of their passages, in order.

        A document with an id replaces one with that id in the same source; adding a document
        again changes nothing.

        Args:
            documents: Documents with text, or one alone; `metadata` may hold `title`, `source`,
                `page`, `line` and `heading_path`. Your own `start`, `end`, `position`, `rank`,
                `score`, `query`, `merged_rank` and `of_run`, which ragweave gives passages, become
                `start_` and so on; those of a passage that a knowledge base cut are made anew.
            source: How passages cite them, instead of their `metadata["source"]`.
            split: Cut them as the settings say; False takes each as one passage.

        Raises:
            UsageError: A document has no text.
            KnowledgeBaseError: Another writer is active, the disk cannot be written, or the
                embedding model is not available.
        """
        given = listed(documents)
        whole = replace(self.settings, chunker="fixed", unit="words", size=2**60)
        settings = self.settings if split else whole
        ids, _ = self._write(
            lambda draft: take_documents(draft, given, source, settings, self._tokens)
        )
        return ids

    def delete(self, ids: str | Iterable[str]) -> int:
        """Delete passages by their ids or those of their documents, whatever their sources.

        Args:
            ids: Ids, or one alone.

        Returns:
            How many entries were deleted; unknown ids count as none.

        Raises:
            KnowledgeBaseError: Another writer is active, or the disk cannot be written.
        """
        named = listed(ids)
        dropped, _ = self._write(lambda draft: draft.remove_documents(named))
        return dropped

    def delete_source(self, source: str) -> bool:
        """Delete a source (a file's path, or the name documents were added under).

        Returns:
            Whether there was such a source.
        """
        dropped, _ = self._write(lambda draft: draft.remove_named(source))
        return dropped > 0

    def index_paths(
        self,
        paths: str | Path | Iterable[str | Path],
        progress: Progress | None = None,
        *,
        prune: bool = False,
    ) -> IndexReport:
        """Bring the index up to date with files and folders.

        New and changed files are read, files that no longer exist under `paths` leave the index,
        the rest stays. Files that cannot be read are named in the report; the rest is indexed. What
        is indexed of a file that is there, but for now cannot be read (no access, damaged, its
        extra not installed), stays.

        Indexed files elsewhere that are gone stay too, as a disk may be unmounted; the report
        names them. But a new file takes the place of one that is gone with the same cited name and
        content: its folder was moved. Behind an address, files that are not on this machine may be
        another's: they are not looked for unless `prune` asks.

        Args:
            paths: Files, or folders that are taken recursively, but for what is hidden (`.name`);
                or one path alone.
            progress: Called with stage, done and total.
            prune: Remove what is indexed of all files that are gone, wherever they were; `paths`
                may then be empty.

        Raises:
            UsageError: No path is given, or an empty one.
            KnowledgeBaseError: A path does not exist, another writer is active, the disk cannot
                be written, or the embedding model is not available.
        """
        given = listed(paths)
        if not given and not prune:
            raise UsageError("give at least one file or folder to index")
        if any(not str(path).strip() for path in given):
            raise UsageError("a path to index is empty: give a file or folder (. is this folder)")
        intake = self._intake(progress)
        _, written = self._write(
            lambda draft: intake.take_paths(draft, [Path(path) for path in given], prune=prune),
            progress,
        )
        return _report(intake, written)

    def index_pages(
        self,
        urls: str | Iterable[str],
        *,
        allow_private: bool = False,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Fetch web pages and index those that are new or changed; their links are not followed.

        Args:
            urls: Addresses, or one alone; `delete_source` removes one.
            allow_private: Whether redirects may lead to private addresses of other hosts.
            progress: Called with stage, done and total.

        Raises:
            UsageError: One is no address.
            KnowledgeBaseError: As `index_paths`.
        """
        intake = self._intake(progress)
        pages = intake.fetch_pages(listed(urls), private=allow_private)
        _, written = self._write(lambda draft: intake.take_pages(draft, pages), progress)
        return _report(intake, written)

    @contextmanager
    def encoding_on_ray(self, address: str) -> Iterator[None]:
        """Have passages encoded by the nodes of a Ray cluster in this context.

        Each node loads the embedding model by its name; vectors and indexes are written here.

        Args:
            address: `local`, `auto`, `HOST:PORT` or `ray://HOST:PORT`.

        Raises:
            UsageError: The address is none; or the knowledge base has no embeddings, or those of
                an object, which nodes cannot load by name.
            MissingExtraError: Ray is not installed.
        """
        here, name = self._embeddings, self.settings.embedding
        if here is None or name is None:
            raise UsageError(
                f"{self.path}: --ray encodes passages with an embedding model named in the "
                "settings, which this knowledge base has not: leave out --ray"
            )
        prefix = self.settings.passage_prefix or ""
        with ClusterEmbeddings(name, here, address, prefix) as self._embeddings:
            try:
                yield
            finally:
                self._embeddings = here

    def as_retriever(
        self,
        k: int = 5,
        mode: RetrieverName | RetrieverKind = "auto",
        reranker: str | PairScorer | None = None,
    ) -> PassageRetriever:
        """Return a retriever over the generation that is current at each query.

        Args:
            k: Passages a query; a call may ask for another number.
            mode: One of `RETRIEVERS`: `bm25`, `dense`, `hybrid` (both, fused), `auto` (hybrid
                where the knowledge base has embeddings, else BM25), or a package's own, which type
                checkers take as `RETRIEVERS["name"]`.
            reranker: Hub name or local path of a cross-encoder, `bi-encoder:NAME`,
                `rerankers:TYPE:MODEL`, or an object with `predict`.

        Raises:
            UsageError: `k` is below 1, the mode is unknown, or the reranker is invalid.
            KnowledgeBaseError: The mode needs embeddings, and the knowledge base has none.
            MissingExtraError: The mode needs Chroma, and it is not installed.
        """
        return retriever_of(mode, self, k, reranker)

    def close(self) -> None:
        """Close files or connections; a later query opens them again."""
        self._home.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _intake(self, progress: Progress | None) -> Intake:
        report = progress or (lambda _stage, _done, _total: None)
        alone = not isinstance(self.path, Address)
        return Intake(self._home.own_folder, self.settings, self._tokens, report, alone=alone)

    def _write(
        self, change: Callable[[Draft], Result], progress: Progress | None = None
    ) -> tuple[Result, Written]:
        return self._home.write(change, self._embeddings, progress, self._collection)

    def search_by(self, mode: str, k: int) -> PassageRetriever:
        """Return a retriever of one of ragweave's own modes; `as_retriever` accepts any.

        Raises:
            KnowledgeBaseError: The mode needs embeddings, and the knowledge base has none.
        """
        name = self.manifest.embedding_name
        bm25 = Bm25Retriever(search=self._home.by_words(), k=k)
        if mode == "bm25" or (mode == "auto" and name is None):
            return bm25
        if name is None:
            raise KnowledgeBaseError(
                f"{self.path} has no embeddings: use mode 'bm25', or rebuild it with an "
                "embedding model"
            )
        if self._embeddings is None:
            raise KnowledgeBaseError(
                f"{self.path} was created with an embeddings object ({name}): pass one to open()"
            )
        search = self._home.by_vectors(self._embeddings)
        local = self.settings.embedding is not None  # an object that was given may call a server
        load = partial(self._embeddings.embed_query, "warm up") if local else None
        dense = DenseRetriever(search=search, load=load, k=k)
        if mode == "dense":
            return dense
        both = self._home.by_both(self._embeddings)
        return HybridRetriever(retrievers=[bm25, dense], search=both, k=k)


def _report(intake: Intake, written: Written) -> IndexReport:
    counts = {name: intake.counts[name] for name in ("added", "changed", "removed", "unchanged")}
    return IndexReport(
        **counts,
        skipped=tuple(intake.skips),
        passages=written.manifest.passages,
        embedded=written.embedded,
        generation=written.manifest.generation,
        gone=tuple(intake.gone),
    )


def _home(path: str | Path | Address) -> Home:
    place = place_of(path)
    return Served(place) if isinstance(place, Address) else Folder(place)
