"""Sources, a state of a store as writes and searches read it, and the pool of passages among which a query's best are chosen."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from ragweave.tools.knowledge.filters import Condition, Count, Kind, matches
from ragweave.tools.knowledge.settings import Status

Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Source:
    """A file, a web page, or a name under which documents were added."""

    key: str
    """The file's absolute path, the page's address, or the name: passages cite it by that."""
    kind: str
    """`file`, `page` or `added`."""
    hash: str = ""
    """SHA-256 of its bytes; "" if it is to be read again."""
    size: int = 0
    """Bytes."""
    modified: int = 0
    """The file's time of modification, nanoseconds; 0 if a change just after it was read might leave the same."""
    notices: list[tuple[str, Status]] = field(default_factory=list)
    """Lines about how it was read, each with its status."""
    enriched: bool = False
    """Whether a model has added names and facts to its passages."""


@dataclass(frozen=True)
class Query:
    """What a search asks of a store."""

    terms: list[str] | None
    """Its words; None: passages are ranked by vectors alone."""
    vector: Scores | None
    """Its vector, of length 1; None: passages are ranked by words alone."""
    chosen: Condition
    """Which passages it may see."""


class NamePassages(NamedTuple):
    """The passages that have a name; `about` and `mention` may be incomplete if there are more than were asked for."""

    number: int
    """How many have it; if more than were asked for, any number above that."""
    about: Sequence[int]
    """Those that are about it."""
    mention: Sequence[int]
    """Those that mention it."""


class Pool(Protocol):
    """The passages among which a query's best are chosen."""

    rows: NDArray[np.int64]
    """Their rows, in the order of `scores`."""
    scores: Scores
    """Their base scores; 0 if they do not pass the filter."""

    def include(self, rows: Collection[int]) -> Collection[int]:
        """Add passages that pass the filter, the first of those given if there are many; return those that it has now.

        The others keep their places.
        """

    def places(self, rows: Collection[int]) -> NDArray[np.int64]:
        """Return where some of its passages stand in `scores`."""

    def words(self, terms: list[str], rows: Collection[int]) -> Scores:
        """Return the BM25 scores of some of its passages for some terms, as shares of the best of all passages."""

    def documents(self, rows: Sequence[int]) -> Mapping[int, Document]:
        """Return some of them, in the given order."""


class SourceReader(ABC):
    """What a write reads of a state."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of passages."""

    @abstractmethod
    def dimensions(self) -> int:
        """Return the length of the vectors; 0 if there are none."""

    @abstractmethod
    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key; those of a kind, if it is given."""

    @abstractmethod
    def source(self, key: str) -> Source | None:
        """Return a source by its key; None if there is none."""

    @abstractmethod
    def holders(self, name: str) -> Collection[str]:
        """Return the sources of the passages with an id, or of a document with it."""

    @abstractmethod
    def vectors(self, contents: Collection[str]) -> Mapping[str, Scores]:
        """Return the vectors that are stored, by the hash of what they are of."""


class View(SourceReader):
    """One state of a store, whatever writers commit meanwhile. A row is a number that names a passage in it."""

    @abstractmethod
    def state(self) -> Any:
        """Return a value that changes with each write."""

    @abstractmethod
    def rows(self, chosen: Condition) -> NDArray[np.int64]:
        """Return the passages that pass a filter, in the order in which they were indexed."""

    @abstractmethod
    def documents(self, rows: Sequence[int]) -> Mapping[int, Document]:
        """Return passages, in the given order."""

    @abstractmethod
    def named(self, names: Collection[str], most: int) -> Mapping[str, NamePassages]:
        """Return the passages of each name that is known, if they are at most so many."""

    @abstractmethod
    def copies(self, name: str) -> Sequence[int]:
        """Return the passages with an id, in order."""

    @abstractmethod
    def neighbours(self, row: int, sides: int) -> Sequence[int]:
        """Return a passage and up to `sides` neighbours on each side in its document, in order."""

    @abstractmethod
    def sources_of(self, chosen: Condition) -> list[Source]:
        """Return the sources of passages that pass a filter, without what is known of their files as a whole."""

    @abstractmethod
    def counted(self, chosen: Condition, name: str = "") -> Iterable[Count]:
        """Return the values that passages that pass a filter have, those of one field if its name is given."""

    @abstractmethod
    def kinds(self, name: str, chosen: Condition) -> dict[Kind, Any]:
        """Return the kinds of the values that they have in a field, each with a value."""

    @abstractmethod
    def pool(self, query: Query) -> Pool:
        """Return the candidates for a query, with their scores, the best at least those of the best passages."""

    def around(self, name: str, sides: int, chosen: Condition) -> list[Document]:
        """Return the first passage with an id and up to `sides` neighbours on each side in its document, in order.

        Only passages that pass a filter are returned, or counted as the first.
        """
        copies = self.documents(self.copies(name))
        own = next((row for row, doc in copies.items() if matches(chosen, doc.metadata)), None)
        docs = self.documents(() if own is None else self.neighbours(own, sides))
        return [doc for doc in docs.values() if matches(chosen, doc.metadata)]
