"""BM25 in PostgreSQL, over a table of postings: Lucene's variant, as a folder's index computes it."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple
from uuid import UUID

from ragweave.tools.stores.passage_store import K1, B
from ragweave.tools.stores.postgres_connections import Do
from ragweave.tools.stores.postgres_texts import word_of

HIT = "p.id, p.content, p.source, p.place, p.text, p.metadata"
SEEN = "p.added <= %(g)s AND p.removed > %(g)s"
_FEW = 1_000
"""How many repeats of passages each query may name."""


class _Corpus(NamedTuple):
    """The passages that one generation sees."""

    table: int
    """PostgreSQL's own number of the table: another one once it was made anew."""
    generation: int
    passages: int
    mean: float
    """Mean number of terms."""
    surplus: list[UUID] | None
    """Keys of all rows of a repeated passage but the first, since it counts once; None where they
    are many. A repair gives rows new numbers and leaves their keys."""


class Bm25:
    """Ranks the rows of one table by the postings in another."""

    def __init__(self, rows: str, words: str) -> None:
        """Take the names of the tables."""
        self._rows = rows
        self._words = words
        self._corpus: _Corpus | None = None

    def search(self, do: Do, terms: Counter[str], n: int, generation: int) -> list[Any]:
        """Return up to `n` rows that a generation sees, as `HIT` and their scores, best first."""
        # The memory is for a hash table of a million unseen rows.
        query = "SELECT set_config('work_mem', '64MB', true), to_regclass(%s)::oid::bigint"
        table = do(query, (self._rows,)).fetchone()[1]
        if table is None:
            return []
        if self._corpus is None or self._corpus[:2] != (table, generation):
            self._corpus = self._measured(do, table, generation)
        corpus, asked = self._corpus, Counter[str]()
        for term, count in terms.items():
            asked[word_of(term)] += count
        values: dict[str, Any] = {"words": list(asked), "asked": list(asked.values())}
        values |= {"g": generation, "n": n, "N": corpus.passages, "mean": corpus.mean}
        values |= {"surplus": corpus.surplus}
        return list(do(self._query(corpus.surplus), values).fetchall())

    def _measured(self, do: Do, table: int, generation: int) -> _Corpus:
        query = f"""
            SELECT COUNT(*), AVG(length), COALESCE(SUM(rows), 0) - COUNT(*) FROM (
                SELECT MIN(length) AS length, COUNT(*) AS rows
                FROM {self._rows} p WHERE {SEEN} GROUP BY id) AS passages"""  # noqa: S608
        passages, mean, repeats = do(query, {"g": generation}).fetchone()
        surplus = self._surplus(do, generation, repeats)
        return _Corpus(table, generation, passages, float(mean or 1) or 1.0, surplus)

    def _surplus(self, do: Do, generation: int, repeats: int) -> list[UUID] | None:
        if not 0 < repeats <= _FEW:
            return None if repeats else []
        query = f"""
            SELECT p.key FROM {self._rows} p JOIN (
                SELECT id, MIN(row) AS first
                FROM {self._rows} p WHERE {SEEN} GROUP BY id HAVING COUNT(*) > 1
            ) AS repeated ON p.id = repeated.id AND p.row > first WHERE {SEEN}"""  # noqa: S608
        return [key for (key,) in do(query, {"g": generation})]

    def _query(self, surplus: list[UUID] | None) -> str:
        # The postings alone tell the scores; rows that the generation does not see are few. So may
        # be the repeats of passages; else ids must be looked up to count each passage once. Weights
        # that are not materialized would be computed for each hit instead of each word.
        counted, rows = "COUNT(*)", ""
        if surplus is None:
            counted, rows = "COUNT(DISTINCT p.id)", f"JOIN {self._rows} p USING (row)"
        elif surplus:
            repeats = f"SELECT row FROM {self._rows} WHERE key = ANY(%(surplus)s::uuid[])"  # noqa: S608
            counted = f"COUNT(*) FILTER (WHERE row NOT IN ({repeats}))"
        return f"""
            WITH unseen AS (
                SELECT row FROM {self._rows} WHERE added > %(g)s OR removed <= %(g)s),
            hits AS (
                SELECT w.word, a.asked, w.row, w.count, w.length
                FROM unnest(%(words)s::text[], %(asked)s::int[]) AS a (word, asked)
                JOIN {self._words} w USING (word)
                WHERE w.row NOT IN (SELECT row FROM unseen)),
            found AS (SELECT word, {counted} AS passages FROM hits {rows} GROUP BY word),
            weights AS MATERIALIZED (
                SELECT word, ln(1 + (%(N)s - passages + 0.5) / (passages + 0.5))::float8 AS idf
                FROM found),
            best AS (
                SELECT row, SUM(asked * idf * count
                    / (count + {K1} * (1 - {B} + {B} * length / %(mean)s::float8))) AS score
                FROM hits JOIN weights USING (word) GROUP BY row
                ORDER BY score DESC FETCH FIRST %(n)s ROWS WITH TIES)
            SELECT {HIT}, score FROM best JOIN {self._rows} p USING (row)
            ORDER BY score DESC, p.source COLLATE "C", p.place LIMIT %(n)s"""  # noqa: S608
