"""What a knowledge base was indexed from, and how a store is read and written source by source."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ragweave.tools.knowledge.chunking import Passage
from ragweave.tools.knowledge.settings import Progress, Status


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


class SourceReader(Protocol):
    """The current state of a store."""

    def count(self) -> int:
        """Return the number of passages."""

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key; those of a kind, if it is given."""

    def source(self, key: str) -> Source | None:
        """Return a source by its key; None if there is none."""


class SourceWriter(Protocol):
    """A write to a store, finished by `commit`."""

    def sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return the sources by key, as they are before the write."""

    def put(self, source: Source, passages: Iterable[Passage]) -> int:
        """Write a source with its passages, instead of what it has now; return their number."""

    def extend(self, source: Source, passages: Sequence[Passage]) -> None:
        """Write the passages of a document of a source, instead of those that it has now."""

    def update(self, source: Source) -> None:
        """Give a source another hash, time or notices; its passages stay."""

    def remove(self, key: str) -> None:
        """Delete a source and its passages."""

    def remove_passages(self, names: Sequence[str]) -> None:
        """Delete the passages with these ids, or of documents with them; their sources are read again."""

    def commit(self, progress: Progress | None = None) -> int:
        """Finish the write; return how many passages were embedded."""
