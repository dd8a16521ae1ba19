"""The settings of a knowledge base, and what an indexing run reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragweave.errors import UsageError
from ragweave.tools.retrieval.analyzer import analyzer_for

Progress = Callable[[str, int, int], None]
"""Called with a stage (`read`, `enrich` or `embed`), how much of it is done, and its total."""


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """How a knowledge base chunks, analyses and embeds. Once it has passages, only the fields of rows can change."""

    chunker: str = "sentences"
    """Where passages begin and end: a name of `chunking.CHUNKERS`."""
    unit: str = "words"
    """What `size` and `overlap` count: `words`, `sentences` or `tokens` (of the embedding model)."""
    size: int = 100
    """Maximum units per passage. The papers cut Wikipedia into disjoint passages of 100 words (`fixed`)."""
    overlap: int = 0
    """Units that a passage shares with the one before it; below `size`."""
    language: str = "english"
    """Snowball language of stop words and stemmer."""
    embedding: str | None = "auto"
    """`minilm` (packaged), `fastembed:NAME`, a local path, a hub name, None (BM25 only), or `auto`: `minilm` where it
    is installed, else None; resolved when the knowledge base is made. Of an embeddings object:
    `object:`, its class and model."""
    text_field: str = "text"
    """Field of the text in CSV and JSON rows; several, with commas, become `name: value` lines."""
    id_field: str = ""
    """Field of the id in rows; "": `id` in rows that have the text field. Rows without it get a content id."""
    title_field: str = "title"
    """Field of the title in rows."""
    file_dates: bool = False
    """Whether the time of a file's last change is the date of what has no other; copying files changes it."""

    def __post_init__(self) -> None:
        if self.unit not in ("words", "sentences", "tokens"):
            raise UsageError(f"unit must be words, sentences or tokens, not {self.unit!r}")
        if type(self.size) is not int or self.size < 1:
            raise UsageError(f"size must be a whole number of at least 1, not {self.size!r}")
        if type(self.overlap) is not int or not 0 <= self.overlap < self.size:
            raise UsageError(f"overlap must be between 0 and size - 1, not {self.overlap!r}")
        if self.embedding == "":
            raise UsageError("embedding must be a model or None, not an empty string")
        analyzer_for(self.language)


@dataclass(frozen=True, kw_only=True)
class FileLimits:
    """What reading one file may cost: one that needs more is skipped, with a line in the report."""

    max_seconds: float = 120
    """Longest time for a file, and for each MiB of a larger one."""
    max_memory: int = 4096
    """Memory of the process that reads it, in MiB; not limited on Windows and macOS."""

    def __post_init__(self) -> None:
        if not (self.max_seconds > 0 and self.max_memory > 0):
            raise UsageError("the limits of a file must be above 0")

    def __str__(self) -> str:
        return f"{self.max_seconds:g} s per MiB, {self.max_memory} MiB of memory"


FILE_LIMITS = FileLimits()

Status = Literal["skipped", "in part", "read"]
"""How much of a file was read."""


@dataclass(frozen=True)
class Notice:
    """One line about how a file was read."""

    path: str
    reason: str
    status: Status = "skipped"
    """`skipped`; `in part`, where the rest of the file was indexed; `read`, where all of it was."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class IndexReport:
    """What an indexing run did, counted in files (or pages) unless stated."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    notices: tuple[Notice, ...] = ()
    """Lines about files that were left out or read in part, or in a guessed encoding; those of unchanged files too."""
    passages: int = 0
    """Passages in the knowledge base now."""
    embedded: int = 0
    """Passages embedded in this run."""
    dates: Mapping[str, int] = field(default_factory=dict)
    """Texts (rows of tables too) that were read in this run, by `date_from`, the origin of their date; "": without one."""
    enriched: str = ""
    """How many passages a model enriched, and what that cost."""

    def __str__(self) -> str:
        counts = {name: getattr(self, name) for name in ("added", "changed", "removed", "unchanged")}
        counts |= {"skipped": 0, "read in part": 0}
        for notice in self.notices:
            if (name := "read in part" if notice.status == "in part" else notice.status) in counts:
                counts[name] += 1
        files = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"
        passages = f"{self.passages} passage{'s' * (self.passages != 1)}"
        return "; ".join(filter(None, [passages, f"files: {files}", self.enriched]))
