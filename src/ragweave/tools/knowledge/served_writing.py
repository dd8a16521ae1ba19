"""Writing a knowledge base behind an address: all or nothing, as in a folder.

A writer loads the keys of the rows, about a hundred bytes each, into a draft on this machine's
disk, applies the change there, and stores what is new, a batch at a time, under the next
generation. No reader sees it before the manifest names that generation. What an interrupted write
left is undone by the next one, which takes over the vectors that it had paid for.

A writer that was taken for dead may store something when the one that took over has committed, in
whose generation it would then stand. So the keys of new rows and the names of the records of
sources begin with a token of the write, which the manifest names, and a writer that finds its right
to write gone deletes its own.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge.cluster_encoding import BATCH, texts_at_once
from ragweave.tools.knowledge.draft import Draft, Source, titled
from ragweave.tools.knowledge.embedding import check_dimension, embed_texts
from ragweave.tools.knowledge.manifest import Manifest, Progress, Skip, manifest_of
from ragweave.tools.knowledge.store import Store
from ragweave.tools.knowledge.writing import Written, write_errors
from ragweave.tools.stores import Key, PassageStore, Row
from ragweave.tools.stores.lease import Lease, LostLeaseError, writing_to
from ragweave.tools.stores.passage_store import MANIFEST, NEVER

PREFIX = "sources/"
"""What the names of the records of sources begin with; the generation follows."""
_LOOKED_UP = 1_024
"""Passages whose vectors are looked up at a time."""
_SOURCES = 500
"""Sources in a record."""
_SAMPLE = 10_000
"""Passages whose mean length stands for all."""
_TOKEN = 16
"""Letters of a write's token: the first half of the keys of its rows."""

Result = TypeVar("Result")


class ServedWriter:
    """Writes new generations into a store."""

    def __init__(
        self,
        store: PassageStore,
        embeddings: Embeddings | None,
        progress: Progress | None,
        collection: str,
    ) -> None:
        """Take an open store; `collection` is the manifest's at opening."""
        self._store = store
        self._embeddings = embeddings
        self._progress = progress or (lambda _stage, _done, _total: None)
        self._collection = collection

    def write(
        self, change: Callable[[Draft], Result], *, rebuild: bool = False
    ) -> tuple[Result, Written]:
        """Apply `change` to a draft and make it the current generation.

        If nothing changed, there is no new generation unless `rebuild` asks for one.

        Raises:
            KnowledgeBaseError: Another writer is active, the store does not answer, or the
                collection was made anew since it was opened.
        """
        with writing_to(self._store) as lease, TemporaryDirectory() as folder:
            manifest = self._manifest()
            with write_errors(Path(folder), "the knowledge base is unchanged"):
                draft_store = Store(Path(folder))
                draft_store.make()
                with draft_store.writing() as database:
                    rows = _Rows(database, self._store, manifest, lease.token[:_TOKEN])
                    self._retire(iter(rows.restored), NEVER, lease)
                    draft = Draft(database, manifest.generation + 1, rows.metadata)
                    result = change(draft)
                    draft.commit()
                    if not (draft.changed or rebuild):
                        self._delete(rows.dead)
                        return result, Written(manifest, 0)
                    return result, self._push(rows, manifest, lease)

    def _manifest(self) -> Manifest:
        values = self._store.record(MANIFEST)
        if values is None or values.get("collection") != self._collection:
            raise KnowledgeBaseError(
                f"{self._store.address} was recreated since it was opened; open it again"
            )
        return manifest_of(values, self._store.address, lambda where, why: f"{where}: {why}")

    def _push(self, rows: _Rows, before: Manifest, lease: Lease) -> Written:
        try:
            written = self._stored(rows, before, lease)
        except LostLeaseError:
            with suppress(KnowledgeBaseError):  # what stays, the next writer tells by the token
                self._delete(sorted(rows.stored))
                self._store.drop_records(rows.recorded)
            raise
        self._progress("index", 1, 1)
        self._tidy(rows, written.manifest.generation)
        return written

    def _stored(self, rows: _Rows, before: Manifest, lease: Lease) -> Written:
        """Store the draft and make it the current generation."""
        generation = before.generation + 1
        manifest, embedded = self._put(rows, before, lease)
        self._delete(rows.dead)
        self._retire(rows.retired(generation), generation, lease)
        self._progress("index", 0, 1)
        self._store.finish()
        counts = rows.counts(generation)
        manifest = replace(manifest, generation=generation, passages=counts[0], sources=counts[1])
        manifest = replace(manifest, write=rows.token)
        for name, values in _records_of(rows.sources(generation), manifest):
            lease.check()
            rows.recorded.append(name)
            self._store.put_record(name, values)
        lease.check()
        self._switch(before.generation, manifest)
        return Written(manifest, embedded)

    def _switch(self, before: int, manifest: Manifest) -> None:
        """Make the generation of `manifest` the current one.

        Where the store does not say that it did so, the manifest tells: a client that sends a
        request again, for the connection broke before the answer, is told of a conflict with
        itself.

        Raises:
            LostLeaseError: Another writer has made this generation.
            KnowledgeBaseError: It is not known who made it: what was stored may be in use, or be
                in use soon.
        """
        failed: KnowledgeBaseError | None = None
        try:
            if self._store.switch(before, manifest.to_json()):
                return
        except KnowledgeBaseError as error:
            failed = error
        held = self._store.record(MANIFEST) or {}
        if held.get("write") == manifest.write:
            return
        changed = (
            f"{self._store.address} was changed by another writer meanwhile; its index is as that "
            "writer left it: try again"
        )
        if held.get("generation") == manifest.generation:
            raise LostLeaseError(changed)
        raise failed or KnowledgeBaseError(changed)

    def _put(self, rows: _Rows, manifest: Manifest, lease: Lease) -> tuple[Manifest, int]:
        """Embed and store the new rows; return the manifest with the length of the vectors."""
        generation = manifest.generation + 1
        terms = manifest.analyzer.terms
        total, done, embedded = rows.fresh_count(generation), 0, 0
        average = rows.average(generation, terms)
        dense = manifest.embedding_name is not None
        repeated: dict[str, list[float]] = {one: [] for one in rows.repeated(generation)}
        for many in chunks(rows.fresh(generation), _LOOKED_UP):
            known = self._store.vectors([key.content for key, *_ in many]) if dense else {}
            for part in chunks(iter(many), texts_at_once(self._embeddings) if dense else BATCH):
                if dense:
                    known |= {key: vector for key, vector in repeated.items() if vector}
                    made = self._embed(part, known, manifest)
                    embedded += len(made)
                    known |= made
                    repeated |= {key: made[key] for key in made.keys() & repeated.keys()}
                    vectors = [known[key.content] for key, *_ in part]
                    dimension = check_dimension(self._store.address, manifest, vectors)
                    manifest = replace(manifest, dimension=dimension)
                if not done:
                    self._store.prepare(manifest.dimension if dense else None, average)
                for few in chunks(iter(part), BATCH):
                    lease.check()
                    rows.stored.update(key.key for key, *_ in few)
                    self._store.put(
                        [
                            Row(key, text, meta, terms(titled(text, meta)), known.get(key.content))
                            for key, text, meta in few
                        ]
                    )
                    done += len(few)
                    self._progress("embed" if dense else "store", done, total)
        if done != total:  # or the sources would count as read, and nobody read them again
            raise KnowledgeBaseError(
                f"{self._store.address}: only {done} of {total} new passages were stored; its "
                "index is unchanged: try again"
            )
        return manifest, embedded

    def _embed(
        self, part: Sequence[_Fresh], known: dict[str, list[float]], manifest: Manifest
    ) -> dict[str, list[float]]:
        """Embed the contents without a vector."""
        texts = {
            key.content: titled(text, meta) for key, text, meta in part if key.content not in known
        }
        if not texts:
            return {}
        if self._embeddings is None:
            raise KnowledgeBaseError(
                f"{self._store.address} was created with an embeddings object "
                f"({manifest.embedding_name}); pass one when opening it to add documents"
            )
        outcome = "the knowledge base is unchanged"
        vectors = embed_texts(self._embeddings, list(texts.values()), manifest, outcome)
        return dict(zip(texts, vectors, strict=True))

    def _retire(self, keys: Iterator[str], generation: int, lease: Lease) -> None:
        for part in chunks(keys, _LOOKED_UP):
            lease.check()
            self._store.retire(part, generation)

    def _delete(self, keys: Sequence[str]) -> None:
        for part in chunks(iter(keys), _LOOKED_UP):
            self._store.delete(part)

    def _tidy(self, rows: _Rows, generation: int) -> None:
        """Delete what neither this generation nor the previous one needs."""
        self._delete(rows.past)
        names = self._store.records(PREFIX)
        old = [one for one in names if int(one.split("/")[1]) < generation - 1]
        if old:
            self._store.drop_records(old)


def sources_prefix(manifest: Manifest) -> str:
    """Return what the names of the records of a generation's sources begin with."""
    token = f"{manifest.write}/" if manifest.write else ""  # older versions gave none
    return f"{PREFIX}{manifest.generation}/{token}"


def is_left_over(key: Key, manifest: Manifest) -> bool:
    """Return whether a row is of a write that was interrupted, or that another one overtook."""
    if key.added > manifest.generation:
        return True
    return key.added == manifest.generation and not key.key.replace("-", "").startswith(
        manifest.write
    )


_Fresh = tuple[Key, str, str]
"""The key of a new row, its text and its metadata as JSON."""


class _Rows:
    """What a store holds, as rows of a draft's database, and what a draft makes of it."""

    def __init__(
        self, database: sqlite3.Connection, store: PassageStore, manifest: Manifest, token: str
    ) -> None:
        """Load the keys of the current generation."""
        self._database = database
        self._store = store
        self.token = token
        """Names this write."""
        self.dead: list[str] = []
        """Keys of rows of an interrupted write."""
        self.past: list[str] = []
        """Keys of rows that no generation will need after the next one."""
        self.stored: set[str] = set()
        """Keys that this write has stored."""
        self.recorded: list[str] = []
        """Names of the records that this write has stored."""
        self.restored: list[str] = []
        """Keys of rows that an interrupted write removed, and that must be seen again."""
        generation = manifest.generation
        database.execute("CREATE TABLE stored (row INTEGER PRIMARY KEY, key TEXT NOT NULL)")
        database.execute("BEGIN")
        for number, key in enumerate(store.keys(), 1):
            if is_left_over(key, manifest):
                self.dead.append(key.key)
                continue
            removed = NEVER if key.removed > generation else key.removed
            if removed != key.removed:
                self.restored.append(key.key)
            if removed == NEVER:
                self._load(number, key)
            else:
                self.past.append(key.key)
        for name in store.records(sources_prefix(manifest)):
            for values in (store.record(name) or {}).get("sources", ()):
                self._load_source(values)
        database.execute("COMMIT")

    def _load(self, number: int, key: Key) -> None:
        self._database.execute("INSERT INTO stored VALUES (?, ?)", (number, key.key))
        self._database.execute(
            "INSERT INTO passages (row, id, content, document, source, place, text, metadata, added) "
            "VALUES (?, ?, ?, ?, ?, ?, '', '{}', ?)",
            (number, key.id, key.content, key.document, key.source, key.place, key.added),
        )

    def _load_source(self, values: dict[str, Any]) -> None:
        skips = json.dumps([[one["path"], one["reason"], one["line"]] for one in values["skips"]])
        fields = ("key", "name", "kind", "size", "mtime", "hash")
        self._database.execute(
            "INSERT INTO sources (key, name, kind, size, mtime, hash, skips, added) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
            (*(values[name] for name in fields), skips),
        )

    def metadata(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the metadata, as JSON, of those rows that are in the store."""
        query = "SELECT key FROM stored WHERE row = ?"
        keys = {key: row for row in rows for (key,) in self._database.execute(query, (row,))}
        return {
            keys[key]: metadata
            for part in chunks(iter(keys), _LOOKED_UP)
            for key, metadata in self._store.metadata(part).items()
        }

    def fresh(self, generation: int) -> Iterator[_Fresh]:
        """Return the rows that the draft added, in passage order."""
        query = (
            "SELECT row, id, content, document, source, place, text, metadata FROM passages "
            "WHERE added = ? AND removed > ? ORDER BY source, place, row"
        )
        found = self._database.execute(query, (generation, generation))
        for row, id_, content, document, source, place, text, metadata in found:
            name = str(uuid.UUID(f"{self.token}{row:016x}"))
            key = Key(name, id_, content, document, source, place, generation, NEVER)
            yield key, text, metadata

    def fresh_count(self, generation: int) -> int:
        """Return how many rows the draft added."""
        query = "SELECT COUNT(*) FROM passages WHERE added = ? AND removed > ?"
        return int(self._database.execute(query, (generation, generation)).fetchone()[0])

    def repeated(self, generation: int) -> list[str]:
        """Return the contents that several new rows have."""
        query = (
            "SELECT content FROM passages WHERE added = ? AND removed > ? "
            "GROUP BY content HAVING COUNT(*) > 1"
        )
        return [row[0] for row in self._database.execute(query, (generation, generation))]

    def average(self, generation: int, terms: Callable[[str], list[str]]) -> float:
        """Return the mean number of terms of the first new rows."""
        sample = islice(self.fresh(generation), _SAMPLE)
        lengths = [len(terms(titled(text, meta))) for _, text, meta in sample]
        return max(sum(lengths) / len(lengths), 1.0) if lengths else 1.0

    def retired(self, generation: int) -> Iterator[str]:
        """Return the keys of the rows that the draft removed."""
        query = (
            "SELECT key FROM stored JOIN passages USING (row) WHERE removed = ? AND added < ? "
            "ORDER BY row"
        )
        for row in self._database.execute(query, (generation, generation)):
            yield row[0]

    def counts(self, generation: int) -> tuple[int, int]:
        """Return how many distinct passages and how many sources the draft has."""
        query = "SELECT COUNT(DISTINCT id) FROM passages WHERE removed > ?"
        passages = self._database.execute(query, (generation,)).fetchone()[0]
        query = "SELECT COUNT(DISTINCT key) FROM sources WHERE removed > ?"
        return int(passages), int(self._database.execute(query, (generation,)).fetchone()[0])

    def sources(self, generation: int) -> Iterator[Source]:
        """Return the draft's sources, by key."""
        query = (
            "SELECT key, name, kind, size, mtime, hash, skips FROM sources WHERE removed > ? "
            "ORDER BY key"
        )
        for key, name, kind, size, mtime, digest, told in self._database.execute(
            query, (generation,)
        ):
            skips = tuple(Skip(*skip) for skip in json.loads(told))
            yield Source(key, name, kind, size, mtime, digest, skips)


def _records_of(
    sources: Iterator[Source], manifest: Manifest
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, part in enumerate(chunks(sources, _SOURCES)):
        yield (
            f"{sources_prefix(manifest)}{number:06}",
            {"sources": [asdict(source) for source in part]},
        )


Item = TypeVar("Item")


def chunks(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Give items in lists of at most `size`.

    Raises:
        ValueError: `size` is below 1: nothing would be given.
    """
    if size < 1:
        raise ValueError(f"lists of at most {size} hold no items")
    while part := list(islice(items, size)):
        yield part
