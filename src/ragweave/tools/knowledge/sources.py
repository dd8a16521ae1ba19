"""What a knowledge base was indexed from, and what a write reads of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ragweave.tools.knowledge.graph import Scores
from ragweave.tools.knowledge.settings import Status


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

    def dimensions(self) -> int:
        """Return the length of the vectors; 0 if there are none."""

    def vectors(self, contents: Collection[str]) -> Mapping[str, Scores]:
        """Return the vectors that are stored, by the hash of what they are of."""

    def holders(self, name: str) -> Collection[str]:
        """Return the sources of the passages with an id, or of a document with it."""
