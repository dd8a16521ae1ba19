"""What a knowledge base was indexed from."""

from dataclasses import dataclass, field

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
