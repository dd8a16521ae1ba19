"""How a knowledge base cuts, analyses and embeds; fixed when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from ragweave.errors import UsageError
from ragweave.tools.retrieval.analysis import analyzer_for
from ragweave.tools.retrieval.embedding import PACKAGED, dense_available

Unit = Literal["words", "sentences", "tokens"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a knowledge base, kept in its manifest.

    Raises:
        UsageError: A value makes no sense; the text names it.
    """

    unit: Unit = "words"
    """What passages are measured in. The papers cut Wikipedia into disjoint 100-word passages."""
    size: int = 100
    """Units a passage, at most."""
    overlap: int = 0
    """Units that a passage shares with the one before it; below `size`."""
    language: str = "english"
    """Snowball language of tokenizer, stop words and stemmer."""
    embedding: str | None = "auto"
    """`minilm` (packaged), a local path, a hub name, None (BM25 only), or `auto`: `minilm` where
    it and Chroma are installed, else None; resolved when the knowledge base is made."""
    chroma_url: str | None = None
    """`http://host:port` of a Chroma server; None keeps the vectors in the knowledge base."""
    text_field: str = "text"
    """Field of the text in CSV and JSON-lines rows."""
    id_field: str = "id"
    """Field of the id in CSV and JSON-lines rows; rows without it get a content id."""
    title_field: str = "title"
    """Field of the title in CSV and JSON-lines rows."""

    def __post_init__(self) -> None:
        """Refuse values that make no sense."""
        if self.unit not in get_args(Unit):
            raise UsageError(
                f"Unknown unit {self.unit!r}; choose one of: {', '.join(get_args(Unit))}"
            )
        if type(self.size) is not int or self.size < 1:
            raise UsageError(f"size must be a whole number from 1 up, not {self.size!r}")
        if type(self.overlap) is not int or not 0 <= self.overlap < self.size:
            raise UsageError(f"overlap must be from 0 to size - 1, not {self.overlap!r}")
        if self.embedding == "":
            raise UsageError("embedding must be a model or None, not an empty text")
        analyzer_for(self.language)
        _check_url(self.chroma_url)

    def resolved(self) -> Settings:
        """Return a copy in which `embedding` is no longer `auto`."""
        if self.embedding != "auto":
            return self
        return replace(self, embedding=PACKAGED if dense_available() else None)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Read `to_json`'s values.

        Raises:
            UsageError: A name or a value is unknown.
        """
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise UsageError(f"Unknown settings: {', '.join(unknown)}")
        return cls(**values)


def _check_url(url: str | None) -> None:
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"chroma_url must look like http://host:port, not {url!r}")
    if parts.username or parts.password or parts.query:
        raise UsageError("chroma_url must hold no password or key: settings are kept as plain text")
