"""What a store must do to hold a knowledge base: keep rows and small records, and search the rows.

A row is one passage of one source, with the generations that see it: generation g sees a row if
`added <= g < removed`. Rows of a generation that is being written are seen by nobody until the
record `manifest` names it, so that replacing this one record commits a write. Records are small
JSON documents by name: the manifest, the list of sources of each generation, and who is writing.

A store is declared by one value, ours or a package's:

    STORE = StoreKind(name="shelf", spec="shelf:URL#COLLECTION", summary="…", open=Shelf)

A package names it as an entry point of the group `ragweave.stores`; `--kb shelf:URL` then uses it.
`ragweave.testing.KnowledgeStoreTests` is the suite that every store passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ragweave.tools.stores.address import Address

NEVER = 2**62
"""`removed` of a row that no generation has removed."""
MANIFEST = "manifest"
"""Name of the record that says which generation is the current one."""

K1, B = 1.5, 0.75
"""BM25's constants, as in the folder's own index."""


class Key(NamedTuple):
    """What a writer must know of a row."""

    key: str
    """The row's own name: a UUID."""
    id: str
    content: str
    """Key of what is embedded, title and text."""
    document: str | None
    source: str
    place: int
    added: int
    removed: int


class Row(NamedTuple):
    """A passage of a source, as it is stored."""

    key: Key
    text: str
    metadata: str
    """JSON."""
    terms: Sequence[str]
    """The analysed terms of title and text, for lexical search."""
    vector: Sequence[float] | None


class Held(NamedTuple):
    """A row as a check reads it."""

    key: Key
    text: str
    metadata: str
    words: int
    """How many different terms the lexical index holds of it."""
    dimension: int
    """Length of its vector; 0 where it has none."""


class Hit(NamedTuple):
    """A row that a search found."""

    id: str
    content: str
    source: str
    place: int
    text: str
    metadata: str
    score: float


class PassageStore(ABC):
    """One collection of a store; safe under threads.

    Every method raises KnowledgeBaseError, in one line, where the store does not answer, refuses
    the password or lacks what is needed. What a call has written, the next call of any process
    finds.
    """

    def __init__(self, address: Address) -> None:
        """Take the address; nothing is opened yet."""
        self.address = address

    @abstractmethod
    def record(self, name: str) -> dict[str, Any] | None:
        """Return a record, or None; also where nothing was ever stored."""

    @abstractmethod
    def records(self, prefix: str) -> list[str]:
        """Return the names of the records that begin so, sorted."""

    @abstractmethod
    def put_record(self, name: str, values: Mapping[str, Any]) -> None:
        """Store or replace a record; makes what the first record needs."""

    @abstractmethod
    def drop_records(self, names: Sequence[str]) -> None:
        """Delete records, known or not."""

    def switch(self, before: int, manifest: Mapping[str, Any]) -> bool:
        """Replace the manifest if its generation is still `before`; return whether it was."""
        held = self.record(MANIFEST)
        if held is None or held.get("generation") != before:
            return False
        self.put_record(MANIFEST, manifest)
        return True

    @abstractmethod
    def prepare(self, dimension: int | None, average: float) -> None:
        """Make what rows need, where it is missing; called before rows are put.

        Args:
            dimension: Length of the vectors; None: rows have none.
            average: Mean number of terms of the passages, for stores that weigh terms as they
                are stored.
        """

    @abstractmethod
    def keys(self) -> Iterator[Key]:
        """Return the keys of all rows, of every generation."""

    @abstractmethod
    def held(self) -> Iterator[Held]:
        """Return all rows as a check reads them."""

    @abstractmethod
    def put(self, rows: Sequence[Row]) -> None:
        """Store rows, replacing those of the same key."""

    @abstractmethod
    def retire(self, keys: Sequence[str], generation: int) -> None:
        """Set `removed` of rows."""

    @abstractmethod
    def delete(self, keys: Sequence[str]) -> None:
        """Delete rows, known or not."""

    @abstractmethod
    def vectors(self, contents: Sequence[str]) -> dict[str, list[float]]:
        """Return the vectors of those contents that some row, of any generation, has one of."""

    def metadata(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the metadata, as JSON, of rows by their keys; unknown ones are left out.

        A store that can look rows up should override this: here every row is read.
        """
        wanted = set(keys)
        rows = self.held() if wanted else iter(())
        return {row.key.key: row.metadata for row in rows if row.key.key in wanted}

    @abstractmethod
    def nearest(self, vector: Sequence[float], n: int, generation: int) -> list[Hit]:
        """Return up to `n` rows that a generation sees by cosine similarity, nearest first."""

    @abstractmethod
    def matching(self, terms: Counter[str], n: int, generation: int) -> list[Hit]:
        """Return up to `n` rows that a generation sees by BM25, best first; scores above 0."""

    def distinct(self, terms: Sequence[str]) -> int:
        """Return how many different terms the lexical index keeps of these."""
        return len(set(terms))

    def finish(self) -> None:  # noqa: B027 - most stores have nothing to do
        """Build what is better built after many rows than with each; called before a switch."""

    @abstractmethod
    def drop(self) -> None:
        """Delete the collection with all its rows and records."""

    @abstractmethod
    def close(self) -> None:
        """Release connections; a later call opens them again."""


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """The declaration of a store: its name, and how to open one collection of it."""

    name: str
    """What addresses begin with."""
    spec: str
    """What addresses look like."""
    summary: str
    open: Callable[[Address], PassageStore]
    """Raises MissingExtraError or UsageError; connects at first use, not before."""
