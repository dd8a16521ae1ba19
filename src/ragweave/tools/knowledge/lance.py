"""A knowledge base in LanceDB: `lance:FOLDER`, or `lance:s3://bucket/kb` on an object store.

One table, so that a commit is one state, which any number of hosts read and write. A row is a passage with all that
searches need of it, or the record of a source, or that of the settings:

    id             BTREE       of source, document and place in it: a new passage takes the place of an old one
    kind           BITMAP      `passage`, `source`, `settings`, or `gone`, which the next merge removes
    source, document, name, content    BTREE
    terms          full text   the analyzer's terms, so that stemming, Chinese and Thai are as in a folder
    names          full text   its names, each one token: `aaron_schneider`
    values         LABEL_LIST  its metadata, for filters
    vector         IVF_SQ      above `_EXACT` passages; fewer are compared one by one

A write is one merge by id. Each rewrites the row of the settings, so two at once conflict: the later one is made again
over the earlier one's state. How many passages have a name is counted when it is asked for; that is bounded, as a name
is written into one passage more than it may have to be followed. If it is followed after a deletion, or in a larger
table, it leads to these passages and to those that are written from then on.
"""

import hashlib
import json
import math
import os
import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("LANCE_LOG", "error")  # it would warn of each empty part of an index of vectors

import lance  # noqa: F401 - `Table.to_lance` needs it
import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lancedb.index import FTS, Bitmap, BTree, IvfSq, LabelList
from lancedb.query import MatchQuery
from langchain_core.documents import Document
from numpy.typing import NDArray

from ragweave.errors import KnowledgeBaseError
from ragweave.state.passages import indexed_text
from ragweave.tools.knowledge.candidates import CandidateView, Stored
from ragweave.tools.knowledge.chunking import Passage
from ragweave.tools.knowledge.filters import ALL, Condition, Count, Every, Has, Not, Some, stored_values
from ragweave.tools.knowledge.graph import most_passages
from ragweave.tools.knowledge.names import names_of
from ragweave.tools.knowledge.settings import IndexSettings
from ragweave.tools.knowledge.staging import BATCH, Change, Engine
from ragweave.tools.knowledge.view import NamePassages, Scores, Source

_EXACT = 20_000
"""Up to so many passages, vectors are compared one by one."""
_UNINDEXED = 64
"""Rows that searches have to scan, before a writer indexes them."""
_FILE = 5_000
"""Rows of a file that is no longer merged with others."""
_CACHE = 2**31
"""Bytes of the indexes that a connection keeps in memory; LanceDB itself would keep three times as many."""
_TRIES = 20
"""Attempts to commit while other hosts commit."""
_NAMES = 1_000
"""Names that are counted by one query."""
_RARE = 2_000
"""A name that fewer than one of so many passages have is not counted: the bound is five times as many, or more."""
_COLUMNS = "id", "kind", "source", "document", "name", "content", "text", "metadata", "terms", "names"


def _in(column: str, values: Iterable[str]) -> str:
    quoted = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    return f"{column} IN ({quoted})" if quoted else "false"


def _tokens(metadata: Mapping[str, Any]) -> list[str]:
    """Return the tokens of metadata by which filters choose.

    A number has one for each beginning of its hexadecimal digits, so that a range is a few tokens (Lucene's tries).
    """
    tokens = []
    for name, kinds in stored_values(metadata).items():
        tokens.append(json.dumps([name]))
        for kind, values in kinds.items():
            tokens.append(json.dumps([name, kind]))
            for value in values:
                digits = _digits(value)
                lengths = range(1, len(digits)) if kind != "text" else ()
                tokens += [json.dumps([name, kind, digits[:length]]) for length in lengths]
                tokens.append(json.dumps([name, kind, digits]))
    return [*dict.fromkeys(tokens)]


def _digits(value: float | str) -> str:
    """Return a text, or digits that sort as a number does, with a dot after them: zeros that follow are left out."""
    if isinstance(value, str):
        return value
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))
    return f"{bits ^ (2**64 - 1 if bits >> 63 else 2**63):016x}".rstrip("0") + "."


def _number(digits: str) -> float:
    """Return the number of all its digits."""
    bits = int(digits.removesuffix(".").ljust(16, "0"), 16)
    return float(struct.unpack(">d", struct.pack(">Q", bits ^ (2**63 if bits >> 63 else 2**64 - 1)))[0])


def _tested(test: Has) -> Iterator[list[str]]:
    """Yield the tokens that pass a test, of which any one will do."""
    if test.op == "?":
        yield from [[test.name, kind] for kind, _ in test.keys] or [[test.name]]
    for kind, limit in test.keys if test.op != "?" else ():
        digits = _digits(limit)
        if "=" in test.op:
            yield [test.name, kind, digits]
        if test.op != "=":
            order = ".0123456789abcdef"
            for place, digit in enumerate(digits):
                at = order.index(digit)
                for other in order[at + 1 :] if test.op[0] == ">" else order[:at]:
                    yield [test.name, kind, digits[:place] + other]


def _where(chosen: Condition) -> str:
    """Return a filter as SQL."""
    if isinstance(chosen, Every | Some):
        word, empty = (" AND ", "true") if isinstance(chosen, Every) else (" OR ", "false")
        return f"({word.join(map(_where, chosen.of)) or empty})"
    if isinstance(chosen, Not):
        return f"(NOT {_where(chosen.of)})"
    tokens = _in("", map(json.dumps, _tested(chosen)))
    return "false" if tokens == "false" else f"array_has_any(values, [{tokens.removeprefix(' IN ')[1:-1]}])"


_PASSAGE = "kind = 'passage'"


class _View(CandidateView):
    """A version of the table."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._ids: dict[int, str] = {}
        """Of the rows that were read: a search among some rows is faster by the index of ids than by row."""

    def having(self, where: str, *columns: str) -> list[dict[str, Any]]:
        """Return rows as mappings, with their `_rowid`."""
        query = self._table.search().where(where).select([*columns]).with_row_id(True)
        rows: list[dict[str, Any]] = query.to_arrow().to_pylist()
        return rows

    def schema(self) -> pa.Schema:
        return self._table.schema

    def replaced(self, changes: Sequence[Change]) -> dict[str, str]:
        """Return the passages that changes replace, each with its source."""
        parts: dict[str, list[str]] = {}
        for change in changes:
            if change.part is not None:
                parts.setdefault(change.key, []).append(change.part)
        tests = [_in("source", (change.key for change in changes if change.part is None and not change.stays))]
        for key, names in parts.items():
            tests.append(f"{_in('source', [key])} AND ({_in('document', names)} OR {_in('name', names)})")
        found = (self.having(f"{_PASSAGE} AND {test}", "id", "source") for test in tests if test != "false")
        return {row["id"]: row["source"] for rows in found for row in rows}

    def loses(self, key: str, gone: Collection[str]) -> bool:
        """Return whether a source loses all its passages."""
        return {row["id"] for row in self.having(f"kind = 'passage' AND {_in('source', [key])}", "id")} <= {*gone}

    def count(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return int(self._table.count_rows("kind = 'passage'"))

    def state(self) -> int:
        return int(self._table.version)

    def dimensions(self) -> int:
        schema = self._table.schema
        return int(schema.field("vector").type.list_size) if "vector" in schema.names else 0

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        rows = self.having("kind = 'source'", "position", "metadata")
        sources = (Source(**json.loads(row["metadata"])) for row in sorted(rows, key=lambda row: row["position"]))
        return {source.key: source for source in sources if kind in (None, source.kind)}

    def source(self, key: str) -> Source | None:
        rows = self.having(f"kind = 'source' AND {_in('id', [f'source:{key}'])}", "metadata")
        return Source(**json.loads(rows[0]["metadata"])) if rows else None

    def _matched(self, tokens: Iterable[str], column: str, k: int, where: str, *columns: str) -> pa.Table:
        """Return the k best rows by the words of a full-text column."""
        words = MatchQuery(" ".join(tokens), column)  # type: ignore[call-arg, unused-ignore]
        query = self._table.search(words, query_type="fts")
        query = query.where(where, prefilter=True) if where else query
        return query.select([*columns, "_score"]).with_row_id(True).limit(k).to_arrow()

    def words(
        self, terms: list[str], k: int, chosen: Condition, among: Collection[int] | None = None
    ) -> Mapping[int, float]:
        where = f"{_PASSAGE} AND {_where(chosen)}" if chosen != ALL else ""
        if among is not None:
            where = _in("id", (self._ids[row] for row in among))
        found = self._matched(map(_token, terms), "terms", k, where)
        return {row["_rowid"]: row["_score"] for row in found.to_pylist()}

    def near(self, vector: Scores, k: int, chosen: Condition) -> Collection[int]:
        query = self._table.search(vector, vector_column_name="vector", query_type="vector").distance_type("cosine")
        query = query.select(["_distance"]).with_row_id(True).limit(k).nprobes(20).refine_factor(2)
        rows: list[int] = (
            query.where(f"{_PASSAGE} AND {_where(chosen)}", prefilter=chosen != ALL).to_arrow()["_rowid"].to_pylist()
        )
        return rows

    def passages(self, rows: Collection[int]) -> Mapping[int, Stored]:
        columns = ["id", "name", "source", "position", "text", "metadata", *(["vector"] if self.dimensions() else [])]
        stored = self._table.take_row_ids([*rows]).select(columns).with_row_id().to_arrow()
        vectors: Any = [None] * len(stored)
        if "vector" in columns:
            vectors = stored["vector"].combine_chunks().flatten().to_numpy().reshape(len(stored), -1)
            stored = stored.drop_columns("vector")
        passages = {}
        for row, vector in zip(stored.to_pylist(), vectors, strict=True):
            metadata = {"position": row["position"], **json.loads(row["metadata"]), "source": row["source"]}
            self._ids[row["_rowid"]] = row["id"]
            passages[row["_rowid"]] = Stored(Document(row["text"], id=row["name"], metadata=metadata), vector)
        return passages

    def named(self, names: Collection[str], most: int) -> Mapping[str, NamePassages]:
        known: dict[str, tuple[list[int], list[int]]] = {}
        rest = iter(sorted(names))
        while batch := {_token(name): name for name in islice(rest, _NAMES)}:
            found = self._matched(batch, "names", len(batch) * (most + 9), "", "names", "about")
            about = {*_having(batch, found["about"], found["_rowid"])}
            for token, row in _having(batch, pc.split_pattern(found["names"], " "), found["_rowid"]):
                known.setdefault(batch[token], ([], []))[(token, row) not in about].append(row)
        return {name: NamePassages(sum(map(len, rows)), *map(sorted, rows)) for name, rows in known.items()}

    def copies(self, name: str) -> Sequence[int]:
        rows = self.having(f"{_PASSAGE} AND {_in('name', [name])}", "position")
        return [row["_rowid"] for row in sorted(rows, key=lambda row: row["position"])]

    def neighbours(self, row: int, sides: int) -> Sequence[int]:
        columns = "source", "document", "position", "metadata"
        (own,) = self.having(f"_rowid = {row}", *columns)
        document = "document IS NULL" if own["document"] is None else _in("document", [own["document"]])
        span = f"position BETWEEN {own['position'] - sides} AND {own['position'] + sides}"
        others = self.having(f"{_PASSAGE} AND {_in('source', [own['source']])} AND {document} AND {span}", *columns)
        title = json.loads(own["metadata"]).get("title")
        same = (other for other in others if json.loads(other["metadata"]).get("title") == title)
        return [other["_rowid"] for other in sorted(same, key=lambda other: other["position"])]

    def rows(self, chosen: Condition, limit: int | None = None) -> NDArray[np.int64]:
        query = self._table.search().where(f"{_PASSAGE} AND {_where(chosen)}").select(["position"]).with_row_id(True)
        rows = (query.limit(limit) if limit else query).to_arrow().to_pylist()
        return np.array([row for _, row in sorted((row["position"], row["_rowid"]) for row in rows)], np.int64)

    def passing(self, rows: Sequence[int], chosen: Condition) -> Collection[int]:
        some = f"_rowid IN ({', '.join(map(str, rows))})"
        return {row["_rowid"] for row in self.having(f"{some} AND {_where(chosen)}", "position")}

    def counted(self, chosen: Condition, name: str = "") -> Iterable[Count]:
        """Return the values of passages, from the column that filters test."""
        where = _where(Every((chosen, Has(name, "?"))) if name else chosen)
        column = self._table.search().where(f"{_PASSAGE} AND {where}").select(["values"]).to_arrow()["values"]
        for token in pc.value_counts(pc.list_flatten(column)).to_pylist():
            field, *rest = json.loads(token["values"])
            if len(rest) == 1 or (rest and rest[0] == "text"):
                yield field, rest[0], *(rest[1:] or [None]), token["counts"]
            elif rest and rest[1].endswith("."):
                yield field, rest[0], _number(rest[1]), token["counts"]

    def holders(self, name: str) -> Collection[str]:
        where = f"kind = 'passage' AND ({_in('name', [name])} OR {_in('document', [name])})"
        return {row["source"] for row in self.having(where, "source")}

    def vectors(self, contents: Collection[str]) -> Mapping[str, Scores]:
        rows = self.having(f"kind = 'passage' AND {_in('content', contents)}", "content", "vector")
        return {row["content"]: np.array(row["vector"], np.float32) for row in rows if row["vector"]}


def _token(word: str) -> str:
    """Return a word or name as one token of a full-text column."""
    return "_".join(word.split())


class LanceStore(Engine):
    """Reads and writes the table."""

    def __init__(self, uri: str, name: str) -> None:
        self._uri, self._name = uri, name or "passages"
        self._db: Any = None

    def _connected(self) -> Any:
        """Return the connection."""
        if self._db is None:
            self._db = lancedb.connect(self._uri, session=lancedb.Session(index_cache_size_bytes=_CACHE))
        return self._db

    def _latest(self) -> Any:
        """Return the newest version; what others commit later does not change it."""
        return self._connected().open_table(self._name)

    def settings(self) -> IndexSettings | None:
        if "://" not in self._uri and not Path(self._uri, f"{self._name}.lance").is_dir():
            return None
        try:
            (row,) = _View(self._latest()).having("kind = 'settings'", "metadata")
        except ValueError:  # no such table
            return None
        return IndexSettings(**json.loads(row["metadata"]))

    def configure(self, settings: IndexSettings, size: int) -> None:
        if self.settings() is not None:
            table = self._latest()
            (stored,) = _View(table).having("kind = 'settings'", "position")
            self._merge(table, pa.Table.from_pylist([_settings(settings, stored["position"])], table.schema))
            return
        columns = [(name, pa.string()) for name in _COLUMNS]
        lists = [(name, pa.list_(pa.string())) for name in ("about", "values")]
        vectors = [("vector", pa.list_(pa.float32(), size))] if size else []
        schema = pa.schema([*columns, ("position", pa.int64()), *lists, *vectors])
        table = self._connected().create_table(self._name, schema=schema, exist_ok=True)
        words = FTS(
            base_tokenizer="whitespace", lower_case=False, stem=False, remove_stop_words=False, ascii_folding=False
        )
        words.max_token_length = 1_000
        for column in ("terms", "names"):
            table.create_index(column, config=words)
        for column in ("id", "source", "document", "name", "content"):
            table.create_index(column, config=BTree())
        table.create_index("kind", config=Bitmap())
        table.create_index("values", config=LabelList())
        self._merge(table, pa.Table.from_pylist([_settings(settings, 0)], schema))

    @contextmanager
    def view(self) -> Iterator[_View]:
        yield _View(self._latest())

    def _merge(self, table: Any, rows: Any) -> bool:
        """Commit rows instead of those with their ids; return whether no other host committed meanwhile."""
        change = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return bool(change.execute(rows, on_bad_vectors="null").num_attempts == 1)  # records have no vectors

    def replace(self, changes: Sequence[Change], terms: Callable[[str], list[str]]) -> None:
        """Commit changes; a merge that came after another host's is made again from what that one left."""
        for number in range(_TRIES):
            table = self._latest()
            try:
                batches = pa.RecordBatchReader.from_batches(table.schema, _batches(_View(table), changes, terms))
                if self._merge(table, batches):
                    self._tend()
                    return
            except RuntimeError as error:
                if not _lost_race(error):
                    raise
            time.sleep(random.random() * 0.1 * number)
        raise KnowledgeBaseError(f"{self._uri}: too many hosts write at the same time; try again")

    def _tend(self) -> None:
        """Index what is new, and merge small files, if there is much; make the index of vectors for many passages."""
        table = self._latest()
        indexes = {index.name: index for index in table.list_indices()}
        try:
            if indexes["terms_idx"].num_unindexed_rows > _UNINDEXED:
                table.delete("kind = 'gone'")
                self._index(self._latest().to_lance())
            level = int(math.log(max(table.count_rows(), 1) / _EXACT, 4)) if table.count_rows() > _EXACT else -1
            if "vector" in table.schema.names and level >= 0 and f"vectors_{level}" not in indexes:
                partitions = int(math.sqrt(_EXACT * 4 ** (level + 0.5)))
                config = IvfSq(distance_type="cosine", num_partitions=partitions)
                table.create_index("vector", config=config, name=f"vectors_{level}")
                for name in indexes:
                    if name.startswith("vectors_"):
                        table.drop_index(name)
        except (RuntimeError, OSError) as error:  # another host does the same
            if not _lost_race(error):
                raise

    def _index(self, data: Any) -> None:
        """Add new rows to the indexes, in a segment of their own, which takes in those that are not larger.

        So a row is written a few times, however large the table is; `Table.optimize` would write all of it.
        """
        data.optimize.compact_files(target_rows_per_fragment=_FILE)
        index = data.stats.index_stats("terms_idx")
        segments, rows = 0, index["num_unindexed_rows"]
        for size in reversed(index["num_indexed_rows_per_delta"]):
            if size > rows:
                break
            segments, rows = segments + 1, rows + size
        data.optimize.optimize_indices(num_indices_to_merge=segments)
        data.cleanup_old_versions(older_than=timedelta(days=1))

    def check(self) -> list[str]:
        lost = len(self._without_vectors())
        return [f"{lost} passages have no vector"] if lost else []

    def repair(self) -> Collection[str]:
        """Return the sources of passages without vectors: they are to be read again."""
        return {row["source"] for row in self._without_vectors()}

    def _without_vectors(self) -> list[dict[str, Any]]:
        with self.view() as view:
            return view.having("kind = 'passage' AND vector IS NULL", "source") if view.dimensions() else []

    def drop(self) -> None:
        self._connected().drop_table(self._name)

    def close(self) -> None:
        self._db = None


def _having(tokens: Iterable[str], lists: pa.ChunkedArray, rows: pa.ChunkedArray) -> Iterator[tuple[str, int]]:
    """Yield those of some tokens that lists have, each with its list's row."""
    lists = lists.combine_chunks()
    values = pc.list_flatten(lists)
    chosen = pc.is_in(values, pa.array([*tokens]))
    of = rows.combine_chunks().take(pc.list_parent_indices(lists).filter(chosen))
    return zip(values.filter(chosen).to_pylist(), of.to_pylist(), strict=True)


def _lost_race(error: Exception) -> bool:
    """Return whether a commit failed because other hosts committed at the same time."""
    return any(word in str(error).lower() for word in ("conflict", "contention", "concurrent"))


def _batches(view: _View, changes: Sequence[Change], terms: Callable[[str], list[str]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a write: new passages, those that go, the sources, and the settings."""
    schema = view.schema()
    (settings,) = view.having("kind = 'settings'", "id", "kind", "metadata", "position")
    gone = view.replaced(changes)
    kept, places = Counter[str](), Counter[tuple[str, str | None]]()
    first = settings["position"]
    room = _Room(view, sum(len(change.rows) for change in changes))
    pairs = ((change.key, *row) for change in changes for row in change.passages())
    while batch := [*islice(pairs, BATCH)]:
        rows = []
        names = [names_of(passage.text, passage.metadata) for _, passage, _ in batch]
        room.count(names)
        for (key, passage, _), own in zip(batch, names, strict=True):
            row = _passage(key, passage, room.take(own), terms) | {"position": first}
            row["id"] = _id(key, passage.document, places[key, passage.document])
            places[key, passage.document] += 1
            first += 1
            kept[key] += 1
            gone.pop(row["id"], None)
            rows.append(row)
        yield _batch(rows, schema, [vector for *_, vector in batch])
    rest: list[dict[str, Any]] = [{"id": row, "kind": "gone"} for row in gone]
    for change in {change.key: change for change in changes}.values():
        source, first = change.source, first + 1
        row = {"id": f"source:{change.key}", "kind": "gone"}
        if source and (source.kind != "added" or kept[change.key] or not view.loses(change.key, gone)):
            row |= {"kind": "source", "metadata": json.dumps(asdict(source)), "position": first}
        rest.append(row)
    settings.pop("_rowid")
    yield _batch([*rest, settings | {"position": first}], schema, None)


def _batch(rows: list[dict[str, Any]], schema: pa.Schema, vectors: Sequence[Any] | None) -> pa.RecordBatch:
    """Return rows, with their vectors, as Arrow has them."""
    names = [name for name in schema.names if name != "vector"]
    columns = [pa.array([row.get(name) for row in rows], schema.field(name).type) for name in names]
    if "vector" in schema.names:
        kind = schema.field("vector").type
        flat = None if vectors is None else pa.array(np.concatenate(vectors), pa.float32())
        vector = pa.nulls(len(rows), kind) if flat is None else pa.FixedSizeListArray.from_arrays(flat, kind.list_size)
        return pa.RecordBatch.from_arrays([*columns, vector], [*names, "vector"])
    return pa.RecordBatch.from_arrays(columns, names)


class _Room:
    """Which names of new passages there is room for.

    Only names of which a write has more than one in `_RARE` passages are looked up: others are too rare for the bound.
    """

    def __init__(self, view: _View, coming: int) -> None:
        self._view, self._most, self._rare = view, most_passages(view.count()), coming // _RARE
        self._taken: Counter[str] = Counter()
        self._stored: dict[str, int] = {}

    def count(self, passages: Sequence[Mapping[str, bool]]) -> None:
        """Count the stored passages of the names of some new ones."""
        coming = Counter(name for own in passages for name in own)
        names = {name for name, number in coming.items() if self._taken[name] + number > self._rare}
        names -= self._stored.keys()
        known = self._view.named(names, self._most)
        self._stored |= {name: known[name].number if name in known else 0 for name in names}

    def take(self, names: Mapping[str, bool]) -> dict[str, bool]:
        """Return those of a passage's names that it may have."""
        taken = {
            name: about for name, about in names.items() if self._stored.get(name, 0) + self._taken[name] <= self._most
        }
        self._taken.update(taken.keys())
        return taken


def _id(*place: Any) -> str:
    return hashlib.sha256(repr(place).encode("utf-8", "replace")).hexdigest()[:24]


def _passage(
    key: str, passage: Passage, names: Mapping[str, bool], terms: Callable[[str], list[str]]
) -> dict[str, Any]:
    """Return the row of a passage, without its place."""
    return {
        "kind": "passage",
        "source": key,
        **{name: getattr(passage, name) for name in ("document", "name", "content", "text")},
        "metadata": json.dumps(passage.metadata, default=str),
        "terms": " ".join(map(_token, terms(indexed_text(passage.text, passage.metadata)))),
        "names": " ".join(map(_token, names)),
        "about": [_token(name) for name, about in names.items() if about],
        "values": _tokens({**passage.metadata, "source": key}),
    }


def _settings(settings: IndexSettings, position: int) -> dict[str, Any]:
    """Return the row of the settings; the next passage gets the position after `position`."""
    return {"id": "settings", "kind": "settings", "metadata": json.dumps(asdict(settings)), "position": position}
