"""Knowledge bases on servers: what LangChain's vector stores have, brought up to date.

Which passages a server has is recorded beside it: for PostgreSQL in the same database, for the others
in an SQLite file in the user's state folder, so that one machine does the indexing. Unlike in a folder, a write
is not all or nothing: readers may see an unfinished write, and of two writers at once the last wins,
passage by passage. The next write of the same sources finishes what a killed one left.
"""

import json
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from ragweave.errors import KnowledgeBaseError, MissingExtraError, RagweaveError, UsageError
from ragweave.names import RetrieverName
from ragweave.state.passages import indexed_text
from ragweave.tools.files import ClosingConnection, state_folder
from ragweave.tools.knowledge.base import AbstractKnowledgeBase, KnowledgeBase, SomeSettings, agreed, embeddings_of
from ragweave.tools.knowledge.chunking import Passage
from ragweave.tools.knowledge.search import View
from ragweave.tools.knowledge.settings import IndexSettings, Progress
from ragweave.tools.knowledge.sources import Source
from ragweave.tools.knowledge.store import AnyOf
from ragweave.tools.knowledge.vector_servers import SERVERS
from ragweave.tools.retrieval.base import PassageRetriever
from ragweave.tools.retrieval.retrievers import SearchRetriever
from ragweave.tools.text.untrusted import without_secrets

_BATCH = 256
"""Passages that are sent to a server at once."""
_NESTED = ("heading_path", "breaks")
"""Metadata that stores take as JSON text: not all of them take lists of lists."""
_BEFORE = "text_from"
"""Metadata: where a passage's text begins, after title and headings, which are searched too."""
_NAME = "passage_id"
"""Metadata: the id of a passage; servers may want UUIDs."""
_TABLES = (
    "ragweave_sources (collection TEXT, key TEXT, value TEXT, PRIMARY KEY (collection, key))",
    "ragweave_passages (collection TEXT, id TEXT, source TEXT, document TEXT, name TEXT, PRIMARY KEY (collection, id))",
)
_SETTINGS = ""
"""The key of the settings among the sources."""
_SOURCES = "SELECT key, value FROM ragweave_sources WHERE collection = ?"
_PASSAGES = "SELECT id, source FROM ragweave_passages WHERE collection = ?"


def is_address(place: str | Path) -> bool:
    """Return whether a place is a server's address, not a folder."""
    kind, colon, _ = str(place).partition(":")
    return (bool(colon) and kind in SERVERS) or "://" in str(place).partition("?")[0]


def open_knowledge_base(
    place: str | Path, *, embeddings: Embeddings | None = None
) -> "KnowledgeBase | ServedKnowledgeBase":
    """Open the knowledge base in a folder or at an address.

    Raises:
        KnowledgeBaseError: It is missing or damaged, or the server does not answer.
    """
    if is_address(place):
        return ServedKnowledgeBase(str(place), embeddings, create=False)
    return KnowledgeBase.open(place, embeddings=embeddings)


class ServedKnowledgeBase(AbstractKnowledgeBase):
    """A knowledge base at an address such as `pg:postgresql://user@host/db#papers`."""

    def __init__(
        self,
        address: str,
        embeddings: Embeddings | None = None,
        settings: SomeSettings = None,
        *,
        create: bool = True,
    ) -> None:
        """Open a collection, or make it.

        Args:
            address: Kind of server, its URL, and the collection after `#`. A password is better
                left to the environment (PGPASSWORD) than written here.
            embeddings: A LangChain embeddings object instead of `settings.embedding`.
            settings: How to chunk and embed, or some of that by name. Later only the fields of rows can change.
            create: Whether a missing collection is made.

        Raises:
            UsageError: It is not an address.
            KnowledgeBaseError: The server does not answer, there is no such collection, or the settings differ
                from the stored ones.
            MissingExtraError: The server's client is not installed.
        """
        kind, _, rest = address.partition(":")
        url, _, name = rest.partition("#")
        if kind not in SERVERS or not url or not name:
            raise UsageError(
                f"{kind}: an address is KIND:URL#NAME, such as pg:postgresql://host/db#papers or "
                f"chroma:folder#papers; kinds: {', '.join(SERVERS)}"
            )
        self.path = without_secrets(address)
        if kind == "chroma" and "://" not in url:
            url = str(Path(url).resolve())
        missing = "" if create else f"; if it is missing, make it with `ragweave index FILES --kb {self.path}`"
        try:
            with _client_errors(f"{self.path} cannot be opened", missing):
                self._records = _records(kind, url, name)
                self.settings = self._own_settings(settings, embeddings)
                self._embeddings = embeddings_of(self.path, self.settings.embedding, embeddings)
                if self._embeddings is None:
                    raise KnowledgeBaseError(f"{self.path} was made with {self.settings.embedding}: pass that object")
                self._collection, self._find = SERVERS[kind][0](url, name, self._embeddings, self.settings, create)
                if create:
                    self._records.save({_SETTINGS: asdict(self.settings)})
        except ImportError as error:
            raise MissingExtraError(f"A knowledge base at {kind}:", SERVERS[kind][1]) from error

    def _own_settings(self, given: SomeSettings, embeddings: Embeddings | None) -> IndexSettings:
        """Return the stored settings, or else those given; with other fields of rows, sources are to be read again."""
        stored = self._records.rows(f"{_SOURCES} AND key = ?", _SETTINGS)
        own = IndexSettings(**json.loads(stored[0][1])) if stored else None
        settings = agreed(self.path, own, given, embeddings)
        if settings.embedding is None:
            raise UsageError(f"{self.path}: a server's knowledge base needs an embedding model")
        if own not in (None, settings):
            unread = {key: asdict(replace(source, hash="")) for key, source in self._records.sources().items()}
            self._records.save(unread)
        return settings

    @contextmanager
    def _reading(self) -> Iterator["Records"]:
        with _client_errors(f"{self.path} cannot be read"):
            yield self._records

    def _view(self) -> AbstractContextManager[View]:
        raise UsageError(f"{self.path} is searched by its server: it does not give its passages")

    @contextmanager
    def _writing(self) -> Iterator["ServerWriter"]:
        with _client_errors(f"{self.path} cannot be written"):
            if len(self) and not self._find("any", 1, {}):  # the server has lost its passages
                self._records.write("DELETE FROM ragweave_passages WHERE collection = ?", [()])
                self._records.forget(self._records.sources())
            yield ServerWriter(self._records, self._collection)

    def drop(self) -> int:
        """Delete all passages and their records; return how many passages there were."""
        count = len(self)
        with self._writing() as writer:
            for source in self.sources():
                writer.remove(source.key)
            writer.commit()
        self._records.forget([_SETTINGS])
        return count

    def _retriever(self, k: int, mode: RetrieverName, chosen: AnyOf) -> PassageRetriever:
        if mode != "auto":
            raise UsageError(f"{self.path} has a search of its own: the mode is auto, not {mode}")

        def search(query: str, k: int) -> list[Document]:
            first: dict[str, Document] = {}
            with _client_errors(f"{self.path} cannot be searched"):
                for doc in map(_shown, self._find(query, 2 * k, chosen)):
                    first.setdefault(doc.page_content, doc)  # copies of a text count once
            return [*first.values()]

        return SearchRetriever(search=search, k=k, embeddings=self._embeddings)

    def close(self) -> None:
        """Close the connection to the records."""
        self._records.close()


@contextmanager
def _client_errors(what: str, hint: str = "") -> Iterator[None]:
    """Raise `KnowledgeBaseError` for the errors of clients, each of which has its own."""
    try:
        yield
    except (RagweaveError, ImportError):
        raise
    except Exception as error:
        reason = without_secrets(" ".join(str(error).split()))[:300] or type(error).__name__
        raise KnowledgeBaseError(f"{what} ({reason}){hint}") from error


class Records:
    """Records of a collection: its settings, its sources, and the passages that the server has.

    `db` is a connection (DB-API 2.0), and `mark` how its database marks parameters. In each statement the
    first parameter is the collection.
    """

    def __init__(self, collection: str, db: Any, mark: str = "?") -> None:
        self._collection, self._db, self._mark = collection, db, mark
        for table in _TABLES:
            db.cursor().execute(f"CREATE TABLE IF NOT EXISTS {table}")
        db.commit()

    def rows(self, sql: str, *values: str | None) -> list[Any]:
        """Return the rows of a query."""
        cursor = self._db.cursor()
        cursor.execute(sql.replace("?", self._mark), (self._collection, *values))
        rows = cursor.fetchall()
        self._db.commit()
        return list(rows)

    def write(self, sql: str, rows: Iterable[Sequence[str | None]]) -> None:
        """Run a statement for each of some rows."""
        self._db.cursor().executemany(sql.replace("?", self._mark), [(self._collection, *row) for row in rows])
        self._db.commit()

    def save(self, sources: Mapping[str, Any]) -> None:
        """Store sources as JSON, instead of those with the same keys."""
        sql = "INSERT INTO ragweave_sources VALUES (?, ?, ?) ON CONFLICT (collection, key) DO UPDATE SET value = excluded.value"
        self.write(sql, [(key, json.dumps(value)) for key, value in sources.items()])

    def forget(self, keys: Iterable[str]) -> None:
        """Forget sources."""
        self.write("DELETE FROM ragweave_sources WHERE collection = ? AND key = ?", [(key,) for key in keys])

    def count(self) -> int:
        """Return the number of passages."""
        return int(self.rows("SELECT count(*) FROM ragweave_passages WHERE collection = ?")[0][0])

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key, in alphabetical order."""
        rows = sorted((key, Source(**json.loads(value))) for key, value in self.rows(_SOURCES) if key != _SETTINGS)
        return {key: source for key, source in rows if kind in (None, source.kind)}

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


class ServerWriter:
    """A write to a server, finished by `commit`; `ingest.Ingest` says what it changes."""

    moves = False
    """A passage's id depends on its source."""

    def __init__(self, records: Records, store: VectorStore) -> None:
        self._records, self._store = records, store
        self.sources = records.sources
        self._new: dict[str, tuple[Document, tuple[str | None, ...]]] = {}
        """Passages to be sent, and their records."""
        self._gone: set[str] = set()
        self._sources: dict[str, Source] = {}
        """Sources whose passages have been staged."""
        self._removed: list[str] = []
        self._sent = 0

    def put(self, source: Source, passages: Iterable[Passage]) -> int:
        """Write a source with its passages, instead of what it has now; return their number."""
        return self._stage(source, passages, self._records.rows(f"{_PASSAGES} AND source = ?", source.key))

    def extend(self, source: Source, passages: Sequence[Passage]) -> None:
        """Write the passages of a document of a source, instead of those that it has now."""
        of_it = f"{_PASSAGES} AND source = ? AND document = ?"
        self._stage(source, passages, self._records.rows(of_it, source.key, passages[0].document))

    def _stage(self, source: Source, passages: Iterable[Passage], rows: list[tuple[str, str]]) -> int:
        before, now = {ident for ident, _ in rows}, set()
        for passage in passages:
            doc = _stored(passage, source)
            now.add(str(doc.id))
            if doc.id not in before:
                self._new[str(doc.id)] = doc, (doc.id, source.key, passage.document, passage.name)
            if len(self._new) == _BATCH:
                self._send()
        self._gone |= before - now
        self._sources[source.key] = source
        return len(now)

    def update(self, key: str, source: Source) -> None:
        """Give a source another time or notices."""
        self._sources[key] = source

    def remove(self, key: str) -> None:
        """Delete a source and its passages."""
        self._gone |= {ident for ident, _ in self._records.rows(f"{_PASSAGES} AND source = ?", key)}
        self._removed.append(key)

    def remove_passages(self, names: Sequence[str]) -> None:
        """Delete the passages with these ids, or of documents with them; their sources are read again."""
        known = self._records.sources()
        for name in names:
            for ident, key in self._records.rows(f"{_PASSAGES} AND ? IN (name, document)", name):
                self._gone.add(ident)
                self._sources[key] = replace(known[key], hash="")

    def commit(self, _progress: Progress | None = None) -> int:
        """Finish the write; return how many passages were embedded."""
        self._send()
        added = self._records.sources("added")
        empty = [key for key in added if not self._records.rows(f"{_PASSAGES} AND source = ? LIMIT 1", key)]
        self._records.forget([*self._removed, *empty])
        return self._sent

    def _send(self) -> None:
        """Send what is staged. Sources are stored last: those of a killed write are read again."""
        records = self._records
        if self._new:
            self._store.add_documents([doc for doc, _ in self._new.values()], ids=[*self._new])
            records.write(
                "INSERT INTO ragweave_passages VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [record for _, record in self._new.values()],
            )
        if self._gone:
            self._store.delete([*self._gone])
            records.write(
                "DELETE FROM ragweave_passages WHERE collection = ? AND id = ?", [(ident,) for ident in self._gone]
            )
        records.save({key: asdict(source) for key, source in self._sources.items()})
        self._sent += len(self._new)
        self._new, self._gone, self._sources = {}, set(), {}


def _records(kind: str, url: str, name: str) -> Records:
    if kind == "pg":
        import psycopg

        return Records(name, psycopg.connect(url, autocommit=True), "%s")
    if (folder := state_folder()) is None:
        raise UsageError(f"{kind}: there is no home folder for the records: set XDG_STATE_HOME")
    folder.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(folder / "records.sqlite3", check_same_thread=False, factory=ClosingConnection)
    return Records(f"{without_secrets(url)}#{name}", db)


def _stored(passage: Passage, source: Source) -> Document:
    """Return a passage as servers store it: title and headings before its text, its id a UUID."""
    text = indexed_text(passage.text, passage.metadata)
    flat = {k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in passage.metadata.items()}
    meta = {**flat, "source": source.key, _BEFORE: len(text) - len(passage.text), _NAME: passage.name}
    own = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([passage.text, meta], sort_keys=True, default=str))
    return Document(text, id=str(own), metadata=meta)


def _shown(doc: Document) -> Document:
    """Return a passage as readers see it, `breaks` and headings as lists again."""
    meta = dict(doc.metadata)
    meta |= {name: json.loads(meta[name]) for name in _NESTED if isinstance(meta.get(name), str)}
    text = doc.page_content[int(meta.pop(_BEFORE, 0)) :]
    return Document(text, id=meta.pop(_NAME, doc.id), metadata=meta)
