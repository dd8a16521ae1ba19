"""Knowledge bases in PostgreSQL, their vectors by pgvector and their words in a table of postings.

LangChain's PGVectorStore keeps a text, its metadata and its vector, and has no way to mark a row as
removed without writing it anew, to hide rows of a write that is under way, or to rank words by BM25;
so this speaks to the server itself, through psycopg. Passages of a collection are ordinary rows of
`ragweave_COLLECTION_passages`, and BM25 gives the scores of a folder's own index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from ragweave.errors import KnowledgeBaseError, MissingExtraError, UsageError
from ragweave.tools.stores.address import Address
from ragweave.tools.stores.passage_store import (
    MANIFEST,
    Held,
    Hit,
    Key,
    PassageStore,
    Row,
    StoreKind,
)
from ragweave.tools.stores.postgres_bm25 import HIT, SEEN, Bm25
from ragweave.tools.stores.postgres_connections import Connections, Do, one_line
from ragweave.tools.stores.postgres_texts import clean, restored, with_texts, word_of

_INDEXED = 2_000
"""Most dimensions that pgvector's HNSW index takes; longer vectors are compared one by one."""
_DEEPEST = 1_000
"""The most candidates that an HNSW search of pgvector keeps."""
_PAGE = 5_000
_KEY = "key::text, id, content, document, source, place, added, removed"


class PostgresStore(PassageStore):
    """A collection in two tables of a PostgreSQL database, and its records in a third."""

    def __init__(self, address: Address) -> None:
        """Take the address of a database (`pg:postgresql://user@host:port/db#collection`).

        Raises:
            MissingExtraError: psycopg is not installed.
            UsageError: The address is no URL of PostgreSQL.
        """
        super().__init__(address)
        if find_spec("psycopg") is None:
            raise MissingExtraError("PostgreSQL", "postgres")
        _check(address)
        self._rows = f"ragweave_{address.collection}_passages"
        self._words = f"ragweave_{address.collection}_words"
        self._connections = Connections(address)
        self._bm25 = Bm25(self._rows, self._words)

    def record(self, name: str) -> dict[str, Any] | None:
        """Return a record, or None."""
        with self._connections.one() as do:
            if not self._exists(do, "ragweave_records"):
                return None
            query = "SELECT value FROM ragweave_records WHERE collection = %s AND name = %s"
            found = do(query, (self.address.collection, name)).fetchone()
        return None if found is None else dict(with_texts(restored, found[0]))

    def records(self, prefix: str) -> list[str]:
        """Return the names of the records that begin so, sorted."""
        with self._connections.one() as do:
            if not self._exists(do, "ragweave_records"):
                return []
            query = "SELECT name FROM ragweave_records WHERE collection = %s ORDER BY name"
            names = [row[0] for row in do(query, (self.address.collection,))]
        return [name for name in names if name.startswith(prefix)]

    def put_record(self, name: str, values: Mapping[str, Any]) -> None:
        """Store or replace a record."""
        from psycopg.types.json import Jsonb

        value = Jsonb(with_texts(clean, dict(values)))
        with self._connections.one() as do:
            if not self._exists(do, "ragweave_records"):
                do("SELECT pg_advisory_xact_lock(7281104)")  # two first writers at once
                do(
                    "CREATE TABLE IF NOT EXISTS ragweave_records (collection text NOT NULL, "
                    "name text NOT NULL, value jsonb NOT NULL, PRIMARY KEY (collection, name))"
                )
            do(
                "INSERT INTO ragweave_records VALUES (%s, %s, %s) "
                "ON CONFLICT (collection, name) DO UPDATE SET value = EXCLUDED.value",
                (self.address.collection, name, value),
            )

    def drop_records(self, names: Sequence[str]) -> None:
        """Delete records, known or not."""
        with self._connections.one() as do:
            query = "DELETE FROM ragweave_records WHERE collection = %s AND name = ANY(%s)"
            do(query, (self.address.collection, list(names)))

    def switch(self, before: int, manifest: Mapping[str, Any]) -> bool:
        """Replace the manifest if its generation is still `before`, in one statement."""
        from psycopg.types.json import Jsonb

        with self._connections.one() as do:
            done = do(
                "UPDATE ragweave_records SET value = %s WHERE collection = %s AND name = %s "
                "AND (value->>'generation')::bigint = %s",
                (Jsonb(dict(manifest)), self.address.collection, MANIFEST, before),
            )
            return bool(done.rowcount == 1)

    def prepare(self, dimension: int | None, average: float) -> None:
        """Make the tables where there are none."""
        del average  # lengths are weighed at each query
        with self._connections.one() as do:
            if not self._exists(do, self._rows):
                if dimension is not None:
                    self._extend(do)
                for statement in self._schema(dimension):
                    do(statement)
            elif dimension is not None and not self._has_vectors(do):
                self._extend(do)
                do(f"ALTER TABLE {self._rows} ADD COLUMN embedding vector({dimension})")

    def _schema(self, dimension: int | None) -> Iterator[str]:
        embedding = "" if dimension is None else f", embedding vector({dimension})"
        yield (
            f"CREATE TABLE {self._rows} (row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "key uuid NOT NULL UNIQUE, id text NOT NULL, content text NOT NULL, document text, "
            "source text NOT NULL, place bigint NOT NULL, text text NOT NULL, "
            "metadata text NOT NULL, length integer NOT NULL, "
            f"added bigint NOT NULL, removed bigint NOT NULL{embedding})"
        )
        yield f"CREATE INDEX ON {self._rows} (content)"
        yield f"CREATE INDEX ON {self._rows} (added)"
        yield f"CREATE INDEX ON {self._rows} (removed)"
        yield (
            f"CREATE TABLE {self._words} (word text NOT NULL, row bigint NOT NULL REFERENCES "
            f"{self._rows} ON DELETE CASCADE, count integer NOT NULL, length integer NOT NULL, "
            "PRIMARY KEY (word, row) INCLUDE (count, length))"
        )
        yield f"CREATE INDEX ON {self._words} (row)"

    def keys(self) -> Iterator[Key]:
        """Return the keys of all rows."""
        for rows in self._pages(_KEY, ""):
            yield from (Key(*row) for row in rows)

    def held(self) -> Iterator[Held]:
        """Return all rows as a check reads them."""
        with self._connections.one() as do:
            vectors = self._exists(do, self._rows) and self._has_vectors(do)
        length = "COALESCE(vector_dims(embedding), 0)" if vectors else "0"
        words = f"(SELECT COUNT(*) FROM {self._words} w WHERE w.row = p.row)"  # noqa: S608
        for rows in self._pages(f"{_KEY}, text, metadata, {words}, {length}", ""):
            yield from (Held(Key(*row[:8]), *row[8:]) for row in rows)

    def _pages(self, columns: str, where: str) -> Iterator[list[Any]]:
        last = 0
        while True:
            with self._connections.one() as do:
                if not self._exists(do, self._rows):
                    return
                query = (
                    f"SELECT row, {columns} FROM {self._rows} p WHERE row > %s {where} "  # noqa: S608
                    f"ORDER BY row LIMIT {_PAGE}"
                )
                found = do(query, (last,)).fetchall()
            if not found:
                return
            yield [_read(row[1:]) for row in found]
            last = found[-1][0]

    def put(self, rows: Sequence[Row]) -> None:
        """Store rows and their words, in one transaction."""
        vectors = any(row.vector is not None for row in rows)
        columns = f"{_KEY.replace('::text', '')}, text, metadata, length"
        columns += ", embedding" * vectors
        with self._connections.one() as do:
            self._delete(do, [row.key.key for row in rows])
            with do.cursor.copy(f"COPY {self._rows} ({columns}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(_columns(row, vectors))
            found = do(
                f"SELECT key::text, row FROM {self._rows} WHERE key = ANY(%s::uuid[])",  # noqa: S608
                ([row.key.key for row in rows],),
            )
            numbers: dict[str, int] = dict(found.fetchall())
            with do.cursor.copy(
                f"COPY {self._words} (word, row, count, length) FROM STDIN"
            ) as copy:
                for row in rows:
                    for word, count in Counter(map(word_of, row.terms)).items():
                        number = numbers[row.key.key]
                        copy.write_row((word, number, count, len(row.terms)))

    def retire(self, keys: Sequence[str], generation: int) -> None:
        """Set `removed` of rows."""
        with self._connections.one() as do:
            query = f"UPDATE {self._rows} SET removed = %s WHERE key = ANY(%s::uuid[])"  # noqa: S608
            do(query, (generation, list(keys)))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete rows and their words."""
        with self._connections.one() as do:
            self._delete(do, keys)

    def _delete(self, do: Do, keys: Sequence[str]) -> None:
        do(f"DELETE FROM {self._rows} WHERE key = ANY(%s::uuid[])", (list(keys),))  # noqa: S608

    def vectors(self, contents: Sequence[str]) -> dict[str, list[float]]:
        """Return the vectors of those contents that some row has one of."""
        with self._connections.one() as do:
            if not (self._exists(do, self._rows) and self._has_vectors(do)):
                return {}
            query = (
                f"SELECT DISTINCT ON (content) content, embedding::text FROM {self._rows} "  # noqa: S608
                "WHERE content = ANY(%s) AND embedding IS NOT NULL ORDER BY content"
            )
            found = do(query, (list(contents),)).fetchall()
        return {content: [float(x) for x in text[1:-1].split(",")] for content, text in found}

    def metadata(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the metadata of rows by their keys."""
        if not keys:
            return {}
        query = f"SELECT key::text, metadata FROM {self._rows} WHERE key = ANY(%s::uuid[])"  # noqa: S608
        with self._connections.one() as do:
            found = do(query, (list(keys),)).fetchall()
        return {row[0]: row[1] for row in map(_read, found)}

    def nearest(self, vector: Sequence[float], n: int, generation: int) -> list[Hit]:
        """Return up to `n` visible rows by cosine similarity.

        The HNSW index finds them; where it gives fewer than there are, all rows are compared.
        """
        values = {"v": _literal(vector), "g": generation, "n": n}
        query = (
            f"SELECT {HIT}, 1 - (p.embedding <=> %(v)s::vector) FROM {self._rows} p WHERE "  # noqa: S608
            f"{SEEN} AND p.embedding IS NOT NULL ORDER BY p.embedding <=> %(v)s::vector LIMIT %(n)s"
        )
        with self._connections.one() as do:
            do(f"SET LOCAL hnsw.ef_search = {min(max(2 * n, 200), _DEEPEST)}")
            found = do(query, values).fetchall()
            if len(found) < n:
                do("SET LOCAL enable_indexscan = off")
                found = do(query, values).fetchall()
        return [Hit(*_read(row)) for row in found]

    def matching(self, terms: Counter[str], n: int, generation: int) -> list[Hit]:
        """Return up to `n` visible rows by BM25, Lucene's variant, as a folder's index computes it."""
        if not terms:
            return []
        with self._connections.one() as do:
            found = self._bm25.search(do, terms, n, generation)
        return [Hit(*_read(row)) for row in found]

    def distinct(self, terms: Sequence[str]) -> int:
        """Return how many different words the index keeps of these."""
        return len(set(map(word_of, terms)))

    def finish(self) -> None:
        """Build the index of the vectors, once; let searches read the postings' index alone."""
        with self._connections.one() as do:
            if not self._exists(do, self._rows):
                return
            if self._has_vectors(do):
                (dimension,) = do(
                    "SELECT atttypmod FROM pg_attribute WHERE attrelid = %s::regclass "
                    "AND attname = 'embedding'",
                    (self._rows,),
                ).fetchone()
                name = f"ragweave_{self.address.collection}_nearest"
                if 0 < dimension <= _INDEXED:
                    do(
                        f"CREATE INDEX IF NOT EXISTS {name} ON {self._rows} "
                        "USING hnsw (embedding vector_cosine_ops)"
                    )
        self._connections.vacuum(self._rows, self._words)

    def drop(self) -> None:
        """Delete the tables and the records of the collection."""
        with self._connections.one() as do:
            do(f"DROP TABLE IF EXISTS {self._words}, {self._rows}")
            if self._exists(do, "ragweave_records"):
                query = "DELETE FROM ragweave_records WHERE collection = %s"
                do(query, (self.address.collection,))

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()

    def _exists(self, do: Do, table: str) -> bool:
        return bool(do("SELECT to_regclass(%s) IS NOT NULL", (table,)).fetchone()[0])

    def _has_vectors(self, do: Do) -> bool:
        found = do(
            "SELECT 1 FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'embedding'",
            (self._rows,),
        )
        return found.fetchone() is not None

    def _extend(self, do: Do) -> None:
        import psycopg

        try:
            with do.cursor.connection.transaction():
                do("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.Error as error:
            raise KnowledgeBaseError(
                f"{self.address}: pgvector cannot be used there ({one_line(error, self.address)}); install it on the "
                "server and have its administrator run CREATE EXTENSION vector in this database, or "
                "index with --embedding none"
            ) from error


def _check(address: Address) -> None:
    """Raise UsageError unless PostgreSQL's client reads the place as we do."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    if not address.place.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            f"{address}: must look like pg:postgresql://USER@HOST:PORT/DATABASE#COLLECTION"
        )
    unclear = UsageError(
        f"{address}: in user, password and settings write @ as %40, / as %2F, and what is no "
        "printable character by its code too"
    )
    if "@" in address.login or not address.login_is_clear or not address.place.isprintable():
        raise unclear
    try:
        conninfo_to_dict(address.place)
    except psycopg.Error as error:
        if address.may_quote_password:
            raise unclear from None
        told = one_line(error, address)
        raise UsageError(f"{address}: cannot be read: {told} (% is written %25)") from None


def _columns(row: Row, vectors: bool) -> tuple[Any, ...]:
    kept = with_texts(clean, [*row.key, row.text, row.metadata])
    last = () if not vectors else (None if row.vector is None else _literal(row.vector),)
    return (*kept, len(row.terms), *last)


def _read(row: Sequence[Any]) -> list[Any]:
    return list(with_texts(restored, row))


def _literal(vector: Sequence[float]) -> str:
    return f"[{','.join(map(repr, map(float, vector)))}]"


STORE = StoreKind(
    name="pg",
    spec="pg:postgresql://USER@HOST:PORT/DATABASE#COLLECTION",
    summary="PostgreSQL with pgvector",
    open=PostgresStore,
)
