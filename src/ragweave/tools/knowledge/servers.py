"""Knowledge bases on servers: LangChain's vector stores, brought up to date by `index()`.

Which passages a server has is noted in a record manager: for PostgreSQL in the same database, for
the others in an SQLite file of this machine, so that one machine does the indexing. Unlike a
folder's, a write is not all or nothing: readers may see an unfinished one, and of two writers at
once the last wins, passage by passage.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import index

from ragweave.errors import KnowledgeBaseError, MissingExtraError, RagweaveError, UsageError
from ragweave.names import RetrieverName
from ragweave.state.passages import as_document, heading_of
from ragweave.tools.files import state_folder
from ragweave.tools.knowledge.base import KnowledgeBase, checked, embeddings_of, loaded_of
from ragweave.tools.knowledge.chunking import simple_tokens
from ragweave.tools.knowledge.ingest import absolute, passages_of, walk
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.passages import Loaded, UnreadableError
from ragweave.tools.knowledge.records import Records
from ragweave.tools.knowledge.settings import IndexReport, Notice, Progress, Settings
from ragweave.tools.knowledge.store import Source
from ragweave.tools.knowledge.vector_servers import EXTRAS, SERVERS, Collection
from ragweave.tools.knowledge.web import fetched
from ragweave.tools.retrieval.base import PassageRetriever, check_k, listed
from ragweave.tools.retrieval.embedding import OBJECT
from ragweave.tools.retrieval.reranking import Reranker, RerankRetriever
from ragweave.tools.retrieval.retrievers import Bm25Retriever, SearchRetriever
from ragweave.tools.text.secrets import without_secrets

_NESTED = ("heading_path", "breaks")
"""Metadata that stores take as JSON text: not all of them take lists of lists."""
_BEFORE = "text_from"
"""Metadata: where a passage's text begins, after title and headings, which are searched too."""


def is_address(place: str | Path) -> bool:
    """Return whether a place is a server's address, not a folder."""
    kind, colon, _ = str(place).partition(":")
    return bool(colon) and kind in SERVERS


def open_knowledge_base(
    place: str | Path, *, embeddings: Embeddings | None = None
) -> KnowledgeBase | ServedKnowledgeBase:
    """Open the knowledge base in a folder or behind an address.

    Raises:
        KnowledgeBaseError: It is missing or damaged, or the server does not answer.
    """
    if is_address(place):
        return ServedKnowledgeBase(str(place), embeddings)
    return KnowledgeBase.open(place, embeddings=embeddings)


class ServedKnowledgeBase:
    """A knowledge base behind an address such as `pg:postgresql://user@host/db#papers`."""

    def __init__(
        self,
        address: str,
        embeddings: Embeddings | None = None,
        settings: Settings | None = None,
        records: str | Path | None = None,
    ) -> None:
        """Open a collection, or make it.

        Args:
            address: Kind of server, its URL, and the collection behind `#`. A password is better
                left to the environment (PGPASSWORD) than written here.
            embeddings: A LangChain embeddings object instead of `settings.embedding`.
            settings: How to cut and embed; noted at the first use, and then the same each time.
            records: The SQLite file of what was indexed; None: one in the user's state folder.
                Not for PostgreSQL, which has it.

        Raises:
            UsageError: It is no address.
            KnowledgeBaseError: The server does not answer, or the settings are not those noted.
            MissingExtraError: The server's client is not installed.
        """
        kind, _, rest = address.partition(":")
        url, _, name = rest.partition("#")
        if kind not in SERVERS or not url or not name:
            raise UsageError(f"{kind}: an address looks like pg:postgresql://host/db#papers")
        self.path = without_secrets(address)
        """The address."""
        try:
            self._records = _records(kind, url, name, records)
            self.settings = _settings(self._records, self.path, settings, embeddings)
            """How it cuts and embeds."""
            model = embeddings_of(self.path, self.settings.embedding, embeddings)
            if model is None:
                named = str(self.settings.embedding).removeprefix(OBJECT)
                raise KnowledgeBaseError(f"{self.path} was made with {named}: pass that object")
            self._embeddings = model
            self._collection: Collection = SERVERS[kind](url, name, model, self.settings)
        except RagweaveError:
            raise
        except ImportError as error:
            raise MissingExtraError(f"A knowledge base at {kind}:", EXTRAS[kind]) from error
        except Exception as error:  # each client has its own
            said = without_secrets(" ".join(str(error).split()))[:300]
            raise KnowledgeBaseError(f"{self.path} cannot be opened ({said})") from error

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._records.list_keys())

    def __bool__(self) -> bool:
        """Return True: an empty knowledge base is still one."""
        return True

    @property
    def state(self) -> str:
        """The name of the current state: a hash of the ids of all passages."""
        keys = sorted(self._records.list_keys())
        return hashlib.sha256(" ".join(keys).encode()).hexdigest()[:16]

    indexed_folder = ""
    """Not known: several machines may have indexed their files here."""

    def sources(self) -> list[Source]:
        """Return what was indexed."""
        return [Source(one, one, "added") for one in self._records.sources()]

    def index_paths(self, paths: str | Path | Iterable[str | Path], progress: Progress | None = None) -> IndexReport:
        """Bring the collection up to date with files and folders, as a folder's `index_paths`."""
        roots = [absolute(one) for one in listed(paths)]
        if missing := [one for one in roots if not os.path.lexists(one)]:
            raise KnowledgeBaseError(f"no such file or folder: {missing[0]}")
        notices: list[Notice] = []
        found = [path for root in roots for path in walk(root, None, notices.append)]
        known = {one for one in self._records.sources() if any(_is_under(one, r) for r in roots)}
        gone = sorted(one for one in known.difference(found) if not os.path.lexists(one))

        def documents() -> Iterator[Document]:
            for number, path in enumerate(found, 1):
                try:
                    yield from self._read(path, Path(path), Path(path).read_bytes(), notices)
                except OSError as error:
                    notices.append(Notice(path, str(error)))
                if progress is not None:
                    progress("read", number, len(found))

        report = self._index(documents(), found, notices)
        for source in gone:
            self.delete(source=source)
        return replace(report, removed=len(gone), passages=len(self))

    def index_pages(self, urls: str | Iterable[str], progress: Progress | None = None) -> IndexReport:
        """Fetch web pages and index those that are new or changed, as a folder's `index_pages`."""
        del progress
        notices: list[Notice] = []
        pages = fetched(listed(urls), notices)
        documents = (doc for page in pages for doc in self._read(*page, notices))
        return self._index(documents, [url for url, _, _ in pages], notices)

    def index_documents(
        self, documents: Iterable[Document], source: str, progress: Progress | None = None
    ) -> IndexReport:
        """Bring one source up to date with documents, as a folder's `index_documents`."""
        del progress
        loaded = [loaded_of(doc) for doc in map(as_document, documents) if doc.page_content.strip()]
        return self._index(self._passages(loaded, source), [source], [])

    def add(self, documents: Document | Iterable[Document], source: str | None = None) -> list[str]:
        """Add documents; return the ids of their passages, in order."""
        made: list[Document] = []
        for doc in map(as_document, listed(documents)):
            key = source or str(doc.metadata.get("source") or "") or "added"
            made += self._passages([loaded_of(doc)], key)
        index(made, self._records, self._collection.store, key_encoder=_key, source_id_key="source")
        return [_key(doc) for doc in made]

    def delete(self, ids: str | Iterable[str] = (), *, source: str | None = None) -> int:
        """Delete passages by their ids, or all of a source; return how many."""
        given = listed(ids)
        noted = self._records.exists(given)
        keys = [key for key, there in zip(given, noted, strict=True) if there]
        if source is not None:
            keys += self._records.list_keys(group_ids=[source])
        if keys:
            self._collection.store.delete(keys)
            self._records.delete_keys(keys)
        return len(keys)

    def drop(self) -> int:
        """Delete all passages and what is noted of them; return how many passages there were."""
        count = self.delete(self._records.list_keys())
        self._records.forget()
        return count

    def _index(self, documents: Iterable[Document], sources: list[str], notices: list[Notice]) -> IndexReport:
        known = set(self._records.sources())
        done = index(
            documents,
            self._records,
            self._collection.store,
            cleanup="scoped_full",
            source_id_key="source",
            key_encoder=_key,
        )
        added = len(set(self._records.sources()) - known)
        return IndexReport(
            added=added,
            changed=0,
            removed=0,
            moved=0,
            unchanged=len(sources) - added,
            notices=tuple(notices),
            passages=len(self),
            embedded=done["num_added"],
        )

    def _read(self, source: str, path: Path, data: bytes, notices: list[Notice]) -> Iterator[Document]:
        try:
            for one in load(path, data, self.settings):
                if isinstance(one, Notice):
                    notices.append(one)
                else:
                    yield from self._passages([one], source)
        except UnreadableError as error:
            notices.append(Notice(source, str(error)))

    def _passages(self, loaded: Iterable[Loaded], source: str) -> Iterator[Document]:
        for one in loaded:
            for passage in passages_of(one, self.settings, simple_tokens):
                yield _stored(passage.text, {**passage.metadata, "source": source})

    def as_retriever(
        self,
        k: int = 5,
        mode: RetrieverName = "auto",
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - LangChain's word for it
        rerank: Reranker | None = None,
    ) -> PassageRetriever:
        """Return a retriever by the server's search, hybrid where it has one.

        Args:
            k: Passages per query; a call may ask for another number.
            mode: `auto`; on PostgreSQL also `bm25` (words), `dense` and `hybrid`.
            filter: Values that the passages' metadata must have; any one of a list.
            rerank: As a folder's.

        Raises:
            UsageError: `k` is below 1, or the server has no such mode.
        """
        modes = self._collection.modes
        if mode not in modes:
            raise UsageError(f"{self.path} is searched by {', '.join(modes)}, not {mode}")

        def search(query: str, k: int, mode: str) -> list[Document]:
            found = self._collection.search(query, k, mode, dict(filter or {}))
            return [_shown(doc) for doc in found]

        words = None
        if "bm25" in modes:
            words = Bm25Retriever(search=partial(search, mode="bm25"), k=check_k(k))
        found = SearchRetriever(search=partial(search, mode=mode), k=check_k(k), words=words)
        return found if rerank is None else RerankRetriever.over(found, rerank, k=k)

    def close(self) -> None:
        """Close the connection to the records."""
        self._records.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def _records(kind: str, url: str, name: str, given: str | Path | None) -> Records:
    if kind == "pg":
        import psycopg

        made = Records(name, lambda: psycopg.connect(url), "%s")
    else:
        folder = state_folder()
        if given is None and folder is None:
            raise UsageError(f"{kind}: name a file for the records: there is no home folder")
        file = Path(given) if given is not None else Path(str(folder)) / "records.sqlite3"
        file.parent.mkdir(parents=True, exist_ok=True)
        made = Records(f"{without_secrets(url)}#{name}", lambda: sqlite3.connect(file, check_same_thread=False))
    made.create_schema()
    return made


def _settings(records: Records, path: str, given: Settings | None, embeddings: Embeddings | None) -> Settings:
    """Return the settings that are noted, or note those given."""
    noted = records.settings()
    if noted is not None:
        own = Settings(**json.loads(noted))
        if given is not None and (different := given.conflict(own, embeddings)):
            raise KnowledgeBaseError(f"{path} was made with other settings: {different}")
        return own
    made = checked((given or Settings()).resolved(embeddings), embeddings)
    if made.embedding is None:
        raise UsageError(f"{path}: a server's knowledge base needs an embedding model")
    records.note_settings(json.dumps(asdict(made)))
    return made


def _is_under(source: str, root: str) -> bool:
    return Path(source).is_absolute() and Path(source).is_relative_to(root)


def _key(document: Document) -> str:
    """Return the id of a passage, a UUID of its text and metadata, which every store takes."""
    text = json.dumps([document.page_content, document.metadata], sort_keys=True, default=str)
    return str(uuid.UUID(bytes=hashlib.blake2b(text.encode(), digest_size=16).digest()))


def _stored(text: str, metadata: dict[str, Any]) -> Document:
    """Return a passage as servers store it: title and headings before its text."""
    heading = heading_of(metadata)
    flat = {k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in metadata.items()}
    before = f"{heading}\n" if heading else ""
    return Document(before + text, metadata={**flat, _BEFORE: len(before)})


def _shown(doc: Document) -> Document:
    """Return a passage as readers see it, `breaks` and headings as lists again."""
    meta = dict(doc.metadata)
    meta |= {name: json.loads(meta[name]) for name in _NESTED if isinstance(meta.get(name), str)}
    return Document(doc.page_content[int(meta.pop(_BEFORE, 0)) :], id=doc.id, metadata=meta)
