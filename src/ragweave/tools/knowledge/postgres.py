"""A knowledge base in PostgreSQL with pgvector: `pg:postgresql://user@host/db#papers` is the schema `papers`.

    settings    one row: how it was made, and how many passages and terms there are
    sources     a row a file, page or name under which documents were added
    passages    terms (GIN), the values that filters test (GIN), vector (HNSW, made when the first write is done)
    words       how many passages have a term
    mentions    which passage has which names
    kinds       which kinds of values the passages' fields have, or had

A write is one transaction, and so is a search, which reads one state. Writers take turns by an advisory lock, which
they take after embedding.

PostgreSQL ranks words without inverse document frequency, so BM25 is computed here: `words` counts the passages of each
term, the GIN index finds those with the rarest terms of a question, and they are scored.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import accumulate
from typing import Any

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from pgvector.psycopg import register_vector
from psycopg import Connection, sql
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from ragweave.state.passages import indexed_text
from ragweave.tools.knowledge.candidates import CandidateView, Stored
from ragweave.tools.knowledge.filters import Condition, Count, Every, Kind, Not, Some, stored_values
from ragweave.tools.knowledge.names import names_of
from ragweave.tools.knowledge.settings import IndexSettings
from ragweave.tools.knowledge.staging import Change, Engine
from ragweave.tools.knowledge.view import NamePassages, Scores, Source
from ragweave.tools.retrieval.bm25_index import K1, B

_SCHEMA = """
CREATE SCHEMA IF NOT EXISTS {name};
SET LOCAL search_path TO {name}, public;
CREATE TABLE settings (value jsonb NOT NULL, size integer NOT NULL, passages bigint NOT NULL, terms bigint NOT NULL);
INSERT INTO settings VALUES ({settings}, {size}, 0, 0);
CREATE TABLE sources (
    number bigint GENERATED ALWAYS AS IDENTITY, key text PRIMARY KEY, kind text NOT NULL, value jsonb NOT NULL);
CREATE TABLE words (term text PRIMARY KEY, passages integer NOT NULL) WITH (fillfactor = 80);
CREATE TABLE passages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, source text NOT NULL, document text,
    content text NOT NULL, text text NOT NULL, metadata jsonb NOT NULL, fields jsonb NOT NULL, terms tsvector NOT NULL,
    length integer NOT NULL, vector {vector});
CREATE INDEX ON passages (source, document);
CREATE INDEX ON passages (name);
CREATE INDEX ON passages (document);
CREATE INDEX ON passages (content);
CREATE INDEX ON passages USING gin (terms);
CREATE INDEX ON passages USING gin (fields jsonb_path_ops);
CREATE TABLE mentions (
    name text NOT NULL, about boolean NOT NULL, passage bigint NOT NULL REFERENCES passages ON DELETE CASCADE,
    PRIMARY KEY (name, passage) INCLUDE (about));
CREATE INDEX ON mentions (passage);
CREATE TABLE kinds (field text, kind text, PRIMARY KEY (field, kind));
"""
_TABLES = "mentions", "passages", "words", "kinds", "sources", "settings"
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('ragweave'), hashtext(current_schema()))"
_COUNTED = "SELECT lexeme AS term, count(*) AS passages FROM passages, unnest(terms) GROUP BY 1"
_VALUES = (
    "SELECT f.key, k.key, v.value, count(*) FROM passages, jsonb_each(fields) f, jsonb_each(f.value) k, "
    "LATERAL (SELECT NULL::jsonb AS value UNION ALL SELECT jsonb_array_elements(k.value)) v"
)
SCORED = 4_000
"""Passages that are scored by words, at most, for each of `_queries`."""
_MAX_POSITION, _MAX_POSITIONS = 16_383, 255
"""The highest position, and the most positions, that PostgreSQL stores of a term."""
_MAX_TERM = 500
"""Characters of the longest term."""


def _where(chosen: Condition) -> tuple[str, list[Any]]:
    """Return a filter as SQL, and its values."""
    if isinstance(chosen, Every | Some):
        parts = [*map(_where, chosen.of)]
        word, empty = (" AND ", "true") if isinstance(chosen, Every) else (" OR ", "false")
        return f"({word.join(part for part, _ in parts) or empty})", [value for _, values in parts for value in values]
    if isinstance(chosen, Not):
        part, values = _where(chosen.of)
        return f"(NOT {part})", values
    tests: list[tuple[str, list[Any]]]
    if chosen.op == "?":
        tests = [("coalesce(fields -> %s ? %s, false)", [chosen.name, kind]) for kind, _ in chosen.keys]
        tests = tests or [("fields ? %s", [chosen.name])]
    elif chosen.op == "=":
        tests = [("fields @> %s", [Jsonb({chosen.name: {kind: [value]}})]) for kind, value in chosen.keys]
    else:
        path = f"$[*] ? (@ {chosen.op} $limit)"
        tests = [
            (
                "coalesce(jsonb_path_exists(fields #> %s, %s, %s), false)",
                [[chosen.name, kind], path, Jsonb({"limit": limit})],
            )
            for kind, limit in chosen.keys
        ]
    any_of = " OR ".join(test for test, _ in tests)
    return f"({any_of or 'false'})", [value for _, values in tests for value in values]


def _quoted(term: str) -> str:
    """Return a term as tsvector and tsquery take it."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def _queries(terms: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield queries for passages with some terms, each of which is asked if those before find too few.

    First any of the rarest that `SCORED` passages may have, then each other one with a rarer one, then any one.

    Args:
        terms: Each with the number of passages that have it, the rarest first.
    """
    words = [_quoted(term) for term, _ in terms]
    rare = sum(total <= SCORED for total in accumulate(number for _, number in terms))
    if rare:
        yield " | ".join(words[:rare])
    for at in range(max(rare, 1), len(words)):
        yield f"{words[at]} & ({' | '.join(words[:at])})"
    if rare < len(words):
        yield " | ".join(words)


class _View(CandidateView):
    """The state that a transaction reads."""

    def __init__(self, db: Connection[Any]) -> None:
        self._db = db

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self._db.execute(query, values).fetchall()

    def number(self, query: str) -> int:
        """Return the number that a query gives."""
        return int(self._rows(query)[0][0])

    def _settings(self) -> Any:
        return self._rows("SELECT size, passages, terms FROM settings")[0]

    def count(self) -> int:
        return int(self._settings()[1])

    def state(self) -> int:
        return self.number("SELECT xmin::text::bigint FROM settings")

    def dimensions(self) -> int:
        return int(self._settings()[0])

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        rows = self._rows("SELECT key, value FROM sources WHERE kind = coalesce(%s, kind) ORDER BY number", kind)
        return {key: Source(**value) for key, value in rows}

    def source(self, key: str) -> Source | None:
        rows = self._rows("SELECT value FROM sources WHERE key = %s", key)
        return Source(**rows[0][0]) if rows else None

    def words(
        self, terms: list[str], k: int, chosen: Condition, among: Collection[int] | None = None
    ) -> Mapping[int, float]:
        counts = Counter(term[:_MAX_TERM] for term in terms)
        _, passages, length = self._settings()
        sql = "SELECT term, passages FROM words WHERE term = ANY(%s) AND passages > 0 ORDER BY 2, 1"
        known = self._rows(sql, [*counts])
        weights = {term: counts[term] * math.log(1 + (passages - df + 0.5) / (df + 0.5)) for term, df in known}
        norms = K1 * (1 - B), K1 * B * passages / max(length, 1)
        if among is not None:
            return self._scored("id = ANY(%s)", [[*among]], weights, norms, k)
        where, values = _where(chosen)
        best: dict[int, float] = {}
        for query in _queries(known):
            if len(best) < k:
                some = f"terms @@ %s::tsquery AND {where} LIMIT {SCORED}"
                best |= self._scored(some, [query, *values], weights, norms, k)
        return dict(sorted(best.items(), key=lambda scored: (-scored[1], scored[0]))[:k])

    def _scored(
        self, where: str, values: list[Any], weights: Mapping[str, float], norms: tuple[float, float], k: int
    ) -> Mapping[int, float]:
        """Return the best k by BM25 of the passages that a condition leaves."""
        if not weights:
            return {}
        # Of n positions of one term, ts_rank makes 6 / pi² (1 + 1/4 + 1/9 + … + 1/n²), from which n is known.
        tf = f"round(1 / ({math.pi**2 / 6} * (1 - ts_rank('{{1,1,1,1}}', terms, %s::tsquery)::float8)) - 0.5)"
        score = " + ".join([f"%s * (1 - norm / (norm + {tf}))"] * len(weights))
        # A long passage's terms are stored apart, and would be fetched for each ts_rank: `||` fetches them once.
        rows = self._rows(
            f"SELECT id, score FROM (SELECT id, {score} AS score FROM "
            f"(SELECT id, %s + %s * length AS norm, terms || '' AS terms FROM passages WHERE {where} OFFSET 0) fetched "
            ") scored WHERE score > 0 ORDER BY 2 DESC, 1 LIMIT %s",
            *(value for term, idf in weights.items() for value in (idf, _quoted(term))),
            *norms,
            *values,
            k,
        )
        return {row: float(score) for row, score in rows}

    def near(self, vector: Scores, k: int, chosen: Condition) -> Collection[int]:
        where, values = _where(chosen)
        self._db.execute(f"SET LOCAL hnsw.ef_search = {min(2 * k, 1000)}")
        self._db.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")  # goes on until k passages pass the filter
        query = f"SELECT id FROM passages WHERE {where} ORDER BY vector <=> %s LIMIT %s"
        return [row for (row,) in self._rows(query, *values, vector, k)]

    def passages(self, rows: Collection[int]) -> Mapping[int, Stored]:
        query = "SELECT id, name, source, text, metadata, vector FROM passages WHERE id = ANY(%s)"
        stored = self._db.execute(query, ([*rows],), binary=True)  # as text, a vector takes longer to read than to find
        return {
            row: Stored(Document(text, id=name, metadata={"position": row, **metadata, "source": source}), vector)
            for row, name, source, text, metadata, vector in stored
        }

    def named(self, names: Collection[str], most: int) -> Mapping[str, NamePassages]:
        rows = self._rows(
            "SELECT n.name, m.passage, m.about FROM unnest(%s::text[]) n (name), "
            "LATERAL (SELECT passage, about FROM mentions WHERE name = n.name LIMIT %s) m",
            [*names],
            most + 1,
        )
        known: dict[str, tuple[list[int], list[int]]] = {}
        for name, row, about in rows:
            known.setdefault(name, ([], []))[not about].append(row)
        return {name: NamePassages(sum(map(len, of)), *map(sorted, of)) for name, of in known.items()}

    def copies(self, name: str) -> Sequence[int]:
        return [row for (row,) in self._rows("SELECT id FROM passages WHERE name = %s ORDER BY 1", name)]

    def neighbours(self, row: int, sides: int) -> Sequence[int]:
        rows = self._db.execute(
            "SELECT other.id FROM passages own JOIN passages other ON other.id BETWEEN own.id - %(n)s AND own.id + %(n)s "
            "AND other.source = own.source AND other.document IS NOT DISTINCT FROM own.document "
            "AND other.metadata -> 'title' IS NOT DISTINCT FROM own.metadata -> 'title' WHERE own.id = %(row)s ORDER BY 1",
            {"n": sides, "row": row},
        )
        return [row for (row,) in rows]

    def rows(self, chosen: Condition, limit: int | None = None) -> NDArray[np.int64]:
        where, values = _where(chosen)
        rows = self._rows(f"SELECT id FROM passages WHERE {where} ORDER BY 1 LIMIT %s", *values, limit)
        return np.fromiter((row for (row,) in rows), np.int64)

    def counted(self, chosen: Condition, name: str = "") -> Iterable[Count]:
        """Return the values of passages, counted by the server in the column that filters test."""
        where, values = _where(chosen)
        query = f"{_VALUES} WHERE {where} AND f.key = coalesce(nullif(%s, ''), f.key) GROUP BY 1, 2, 3"
        for field, kind, value, count in self._rows(query, *values, name):
            yield field, kind, float(value) if isinstance(value, int) else value, count

    def known_kinds(self, name: str) -> Collection[Kind]:
        return [kind for (kind,) in self._rows("SELECT kind FROM kinds WHERE field = %s", name)]

    def passing(self, rows: Sequence[int], chosen: Condition) -> Collection[int]:
        where, values = _where(chosen)
        passing = self._rows(f"SELECT id FROM passages WHERE id = ANY(%s) AND {where}", [*rows], *values)
        return {row for (row,) in passing}

    def holders(self, name: str) -> Collection[str]:
        query = "SELECT DISTINCT source FROM passages WHERE name = %s OR document = %s"
        return [source for (source,) in self._rows(query, name, name)]

    def vectors(self, contents: Collection[str]) -> Mapping[str, Scores]:
        query = "SELECT DISTINCT ON (content) content, vector FROM passages WHERE content = ANY(%s)"
        return {content: vector for content, vector in self._rows(query, [*contents]) if vector is not None}


class PostgresStore(Engine):
    """Reads and writes one schema of a database, through a pool of connections."""

    def __init__(self, url: str, name: str) -> None:
        self._name = name
        path = sql.SQL("SET search_path TO {}, public").format(sql.Identifier(name)).as_string()

        def configure(db: Connection[Any]) -> None:
            db.execute(path)
            if db.execute("SELECT to_regtype('vector')").fetchone() != (None,):
                register_vector(db)

        with Connection.connect(url):  # fails at once if there is no server, where a pool would wait
            self._pool = ConnectionPool(
                url, min_size=1, max_size=8, open=True, kwargs={"autocommit": True}, configure=configure, timeout=60
            )

    def _has(self, db: Connection[Any], relation: str) -> bool:
        """Return whether the schema has a table or index, whatever `public` has."""
        query = "SELECT 1 FROM pg_class WHERE relname = %s AND relnamespace = to_regnamespace(quote_ident(%s))"
        return db.execute(query, (relation, self._name)).fetchone() is not None

    def settings(self) -> IndexSettings | None:
        with self._pool.connection() as db:
            if not self._has(db, "settings"):
                return None
            (value,) = db.execute("SELECT value FROM settings").fetchone() or ({},)
        return IndexSettings(**value)

    def configure(self, settings: IndexSettings, size: int) -> None:
        with self._pool.connection() as db, db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(hashtext('ragweave'))")
            value = Jsonb(asdict(settings))
            if self._has(db, "settings"):
                db.execute("UPDATE settings SET value = %s", (value,))
                return
            if size:
                db.execute("CREATE EXTENSION IF NOT EXISTS vector")
            vector = sql.SQL(f"vector({size})" if size else "real[]")
            given = {"name": sql.Identifier(self._name), "settings": sql.Literal(json.dumps(asdict(settings)))}
            db.execute(sql.SQL(_SCHEMA).format(**given, size=sql.Literal(size), vector=vector))
        self._pool.drain()  # connections learn the type of vectors when they are opened

    @contextmanager
    def view(self) -> Iterator[_View]:
        with self._pool.connection() as db, db.transaction():
            db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield _View(db)

    def replace(self, changes: Sequence[Change], terms: Callable[[str], list[str]]) -> None:
        with self._pool.connection() as db, db.transaction():
            db.execute(_LOCK)
            self._forget(db, changes)
            records = {change.key: change.source for change in changes}
            gone = [key for key, source in records.items() if source is None]
            db.execute("DELETE FROM sources WHERE key = ANY(%s)", (gone,))
            rows = [(key, source.kind, Jsonb(asdict(source))) for key, source in records.items() if source is not None]
            upsert = "INSERT INTO sources (key, kind, value) VALUES (%s, %s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
            db.cursor().executemany(upsert, rows)
            first = self._insert(db, changes, terms)
            db.execute(
                "INSERT INTO words SELECT lexeme, count(*) FROM passages, unnest(terms) WHERE id >= %s GROUP BY 1 ORDER BY 1 "
                "ON CONFLICT (term) DO UPDATE SET passages = words.passages + excluded.passages",
                (first,),
            )
            db.execute(
                "INSERT INTO kinds SELECT DISTINCT f.key, k.key FROM passages, jsonb_each(fields) f, jsonb_each(f.value) k "
                "WHERE id >= %s ON CONFLICT DO NOTHING",
                (first,),
            )
            db.execute(
                "UPDATE settings SET passages = passages + n, terms = terms + length FROM "
                "(SELECT count(*) n, coalesce(sum(length), 0) length FROM passages WHERE id >= %s) new",
                (first,),
            )
            db.execute(
                "DELETE FROM sources s WHERE kind = 'added' AND key = ANY(%s) "
                "AND NOT EXISTS (SELECT FROM passages WHERE source = s.key)",
                ([*records],),
            )

    def _forget(self, db: Connection[Any], changes: Sequence[Change]) -> None:
        """Delete the passages that are replaced, and what is counted of them."""
        keys = [change.key for change in changes if change.part is None and not change.stays]
        parts = [(change.key, change.part) for change in changes if change.part is not None]
        for where, values in (
            ("source = ANY(%s)", [keys]),
            (
                "id IN (SELECT p.id FROM unnest(%s::text[], %s::text[]) c (key, part), "
                "LATERAL (SELECT id FROM passages WHERE source = key AND (document = part OR name = part)) p)",
                [[key for key, _ in parts], [part for _, part in parts]],
            ),
        ):
            db.execute(
                f"WITH gone AS (DELETE FROM passages WHERE {where} RETURNING terms, length), "
                "counts AS (SELECT lexeme, count(*) n FROM gone, unnest(gone.terms) GROUP BY 1), "
                "less AS (UPDATE words SET passages = passages - n FROM counts WHERE term = lexeme) "
                "UPDATE settings SET passages = settings.passages - g.n, terms = settings.terms - g.length "
                "FROM (SELECT count(*) n, coalesce(sum(length), 0) length FROM gone) g",
                values,
            )

    def _insert(self, db: Connection[Any], changes: Sequence[Change], terms: Callable[[str], list[str]]) -> int:
        """Add the passages and their names; return the first one's id."""
        sequence = "pg_get_serial_sequence('passages', 'id')"
        count = sum(len(change.rows) for change in changes)
        last = db.execute(f"SELECT nextval({sequence})").fetchone() or (0,)
        first = int(last[0]) + 1
        db.execute(f"SELECT setval({sequence}, %s)", (first + count,))
        columns = "id, name, source, document, content, text, metadata, fields, terms, length, vector"
        with db.cursor() as cursor:
            with cursor.copy(f"COPY passages ({columns}) FROM STDIN") as copy:
                rows = ((change.key, *row) for change in changes for row in change.passages())
                for number, (key, passage, vector) in enumerate(rows, first):
                    own = terms(indexed_text(passage.text, passage.metadata))
                    places = _vector_of(own), len(own), None if vector is None else json.dumps(vector.tolist())
                    fields = json.dumps(stored_values({**passage.metadata, "source": key}))
                    text = passage.text, json.dumps(passage.metadata, default=str), fields
                    copy.write_row((number, passage.name, key, passage.document, passage.content, *text, *places))
            with cursor.copy("COPY mentions (name, about, passage) FROM STDIN") as copy:
                passages = (passage for change in changes for passage, _ in change.passages())
                for number, passage in enumerate(passages, first):
                    for name, about in names_of(passage.text, passage.metadata).items():
                        copy.write_row((name, about, number))
        return first

    def tend(self) -> None:
        """Make the index of vectors, if there are some and it is missing."""
        with self._pool.connection() as db, db.transaction():
            db.execute(_LOCK)
            size, count = db.execute("SELECT size, passages FROM settings").fetchone() or (0, 0)
            if size and count and not self._has(db, "vectors"):
                db.execute("SET LOCAL maintenance_work_mem = '512MB'")
                db.execute("CREATE INDEX vectors ON passages USING hnsw (vector vector_cosine_ops)")

    def check(self) -> list[str]:
        queries = {
            "passages too many or too few are counted": "SELECT abs(passages - (SELECT count(*) FROM passages)) FROM settings",
            "words are counted wrongly": f"SELECT count(*) FROM ({_COUNTED}) c FULL JOIN words USING (term) "
            "WHERE coalesce(c.passages, 0) <> coalesce(words.passages, 0)",
        }
        with self.view() as view:
            counts = {what: view.number(query) for what, query in queries.items()}
        return [f"{count} {what}" for what, count in counts.items() if count]

    def repair(self) -> Collection[str]:
        """Count passages and words again."""
        with self._pool.connection() as db, db.transaction():
            db.execute(_LOCK)
            db.execute("TRUNCATE words")
            db.execute(f"INSERT INTO words (term, passages) {_COUNTED}")
            db.execute(
                "UPDATE settings SET (passages, terms) = (SELECT count(*), coalesce(sum(length), 0) FROM passages)"
            )
        return ()

    def drop(self) -> None:
        """Delete the tables; the schema may have others."""
        with self._pool.connection() as db:
            tables = (sql.Identifier(self._name, table) for table in _TABLES)
            db.execute(sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(tables)))

    def close(self) -> None:
        self._pool.close()


def _vector_of(terms: Sequence[str]) -> str:
    """Return terms with their positions, as tsvector takes them."""
    places: dict[str, list[int]] = {}
    for place, term in enumerate(terms, 1):
        places.setdefault(term[:_MAX_TERM], []).append(min(place, _MAX_POSITION))
    return " ".join(f"{_quoted(term)}:{','.join(map(str, at[:_MAX_POSITIONS]))}" for term, at in places.items())
