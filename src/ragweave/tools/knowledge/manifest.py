"""The manifest of a knowledge base: its settings, and which generation is the current one.

Replacing this one file commits every write. `Settings` say how a knowledge base splits, analyses
and embeds, and are fixed when it is created; `IndexReport` is the result of an indexing run. The
locks that keep writers apart are here too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from ragweave import __version__
from ragweave.errors import KnowledgeBaseError, LockedError, UsageError
from ragweave.tools.files import hold, parse_json, reading, write_atomic, writing
from ragweave.tools.retrieval.bm25 import ANALYSIS, Analyzer, analyzer_for
from ragweave.tools.retrieval.embedding import PACKAGED, dense_available

PREFIXES = ("query_prefix", "passage_prefix")
Unit = Literal["words", "sentences", "tokens"]
Html = Literal["auto", "article", "page"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a knowledge base, kept in its manifest.

    Raises:
        UsageError: A value is invalid; the text names it.
    """

    chunker: str = "fixed"
    """Where passages begin and end: one of `CHUNKERS`."""
    unit: Unit = "words"
    """The unit of passage length. The papers cut Wikipedia into disjoint 100-word passages."""
    size: int = 100
    """Most units per passage."""
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
    """Field of the text in CSV and JSON-lines rows; of CSV and Excel also several, with commas."""
    id_field: str = "id"
    """Field of the id in CSV and JSON-lines rows; rows without it get a content id."""
    title_field: str = "title"
    """Field of the title in CSV and JSON-lines rows."""
    query_prefix: str | None = None
    """What the embedding model reads before a question; None: what it was trained with
    (`prefixes_of`), settled when the knowledge base is made, where None is nothing."""
    passage_prefix: str | None = None
    """The same before a passage."""
    html: Html = "auto"
    """What of an HTML page is read: its `article` (by Trafilatura), all of the `page` but its
    navigation, or `auto`: `article` where Trafilatura is installed; resolved like `embedding`."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.unit not in get_args(Unit):
            raise UsageError(
                f"Unknown unit {self.unit!r}; choose one of: {', '.join(get_args(Unit))}"
            )
        if self.html not in get_args(Html):
            raise UsageError(
                f"Unknown html {self.html!r}; choose one of: {', '.join(get_args(Html))}"
            )
        if type(self.size) is not int or self.size < 1:
            raise UsageError(f"size must be a whole number of at least 1, not {self.size!r}")
        if type(self.overlap) is not int or not 0 <= self.overlap < self.size:
            raise UsageError(f"overlap must be between 0 and size - 1, not {self.overlap!r}")
        if self.embedding == "":
            raise UsageError("embedding must be a model or None, not an empty string")
        analyzer_for(self.language)
        _check_url(self.chroma_url)

    @property
    def counts_tokens(self) -> bool:
        """Whether passages are measured in tokens of the embedding model."""
        return self.unit == "tokens" or self.chunker == "token"

    def resolved(self) -> Settings:
        """Return a copy in which `embedding` and `html` are no longer `auto`."""
        made = self
        if made.html == "auto":
            reads: Literal["article", "page"] = (
                "article" if find_spec("trafilatura") is not None else "page"
            )
            made = replace(made, html=reads)
        if made.embedding == "auto":
            made = replace(made, embedding=PACKAGED if dense_available() else None)
        return made

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values; earlier versions read those without prefixes too."""
        values = asdict(self)
        return {key: one for key, one in values.items() if one is not None or key not in PREFIXES}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Read `to_json`'s values.

        Raises:
            UsageError: A name or a value is unknown.
        """
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise UsageError(f"Unknown settings: {', '.join(unknown)}")
        return cls(**{"html": "page", **values})


def _check_url(url: str | None) -> None:
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"chroma_url must look like http://host:port, not {url!r}")
    if parts.username or parts.password or parts.query:
        raise UsageError(
            "chroma_url must not contain a password or key: settings are stored as plain text"
        )


Progress = Callable[[str, int, int], None]
"""Called with a stage (`read`, `embed` or `index`), how much of it is done, and its total."""


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(path: str | os.PathLike[str]) -> str:
    """Return a path as printable text: bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Skip:
    """A file, or a row of one, that could not be indexed."""

    path: str
    reason: str
    line: int | None = None

    def __post_init__(self) -> None:
        """Make the path printable: bytes that are not UTF-8 are escaped."""
        object.__setattr__(self, "path", printable(self.path))

    def __str__(self) -> str:
        """Render as `path:line: reason`."""
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.reason}"


@dataclass(frozen=True)
class IndexReport:
    """What `KnowledgeBase.index_paths` did, counted in files unless stated."""

    added: int
    changed: int
    removed: int
    unchanged: int
    skipped: tuple[Skip, ...]
    """Files and rows left out, with reasons; those of unchanged files are named again."""
    passages: int
    """Distinct passages in the knowledge base now."""
    embedded: int
    """Passages embedded in this run."""
    generation: int
    """Generation of the index now; each write that changes something adds one."""
    gone: tuple[str, ...] = ()
    """Cited names of indexed files elsewhere that no longer exist; `prune` removes them."""

    @property
    def skipped_files(self) -> int:
        """Files, and folders that cannot be listed, that were left out."""
        return sum(skip.line is None for skip in self.skipped)

    @property
    def skipped_rows(self) -> int:
        """Rows left out of files that were read."""
        return len(self.skipped) - self.skipped_files

    def __str__(self) -> str:
        """Render as one line."""
        skips = [(self.skipped_files, "file"), (self.skipped_rows, "row")]
        skipped = " and ".join(counted(number, noun) for number, noun in skips if number)
        return (
            f"{counted(self.passages, 'passage')}; files: {self.added} added, "
            f"{self.changed} changed, {self.removed} removed, {self.unchanged} unchanged; "
            f"{skipped or 'none'} skipped"
        )


@dataclass(frozen=True)
class Finding:
    """A problem found in a knowledge base."""

    text: str
    """One line: what, and how much of it."""
    sources: tuple[str, ...] = ()
    """Keys of the sources whose files must be read again to repair it."""
    unusable: bool = False
    """Are the vectors such that all must be rebuilt?"""


FORMAT = "ragweave-knowledge-base"
FORMAT_VERSION = 3
NAME = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`."""

    settings: Settings
    collection: str
    """Name of the Chroma collection."""
    generation: int = 0
    passages: int = 0
    """Distinct passages."""
    sources: int = 0
    embedding_name: str | None = None
    """The embedding model, or the class of an embeddings object that the caller passes."""
    dimension: int | None = None
    """Length of the vectors, known after the first embedding."""
    write: str = ""
    """Token of the write that made the generation, in a store; empty: not known."""
    analysis: int = ANALYSIS
    """How its texts became the terms of the lexical index (`retrieval.bm25.ANALYSIS`)."""

    @property
    def analyzer(self) -> Analyzer:
        """What makes the terms of its lexical index."""
        return analyzer_for(self.settings.language, self.analysis)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON values."""
        settings = self.settings.to_json()
        values = {
            "format": FORMAT,
            "format_version": 3 if settings.keys() & PREFIXES else min(self.analysis, 2),
            "ragweave_version": __version__,
            "generation": self.generation,
            "language": self.settings.language,
            "analysis": self.analysis,
            "settings": settings,
            "collection": self.collection,
            "embedding": {"name": self.embedding_name, "dimension": self.dimension},
            "counts": {"passages": self.passages, "sources": self.sources},
        }
        return {**values, "write": self.write} if self.write else values


def write_manifest(folder: Path, manifest: Manifest, *, alone: bool = False) -> None:
    """Replace the manifest in one step that a crash cannot halve.

    Args:
        folder: The knowledge base.
        manifest: What it says from now on.
        alone: Whether the caller holds `write_lock`.
    """
    text = json.dumps(manifest.to_json(), indent=2, ensure_ascii=False)
    write_atomic(folder / NAME, f"{text}\n", alone=alone)


def read_manifest(folder: Path, shown: Path | None = None) -> Manifest:
    """Read the manifest of the knowledge base in `folder`, which errors call `shown`.

    Raises:
        KnowledgeBaseError: The folder is missing or foreign, or the manifest is damaged or of a
            newer format.
    """
    shown = folder if shown is None else shown
    try:
        values = parse_json((folder / NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise KnowledgeBaseError(_absent(folder, shown)) from None
    except (OSError, ValueError) as error:
        raise KnowledgeBaseError(_damaged(shown, error)) from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise KnowledgeBaseError(f"{shown} is not a ragweave knowledge base (foreign {NAME})")
    return manifest_of(values, shown, _damaged)


def manifest_of(
    values: dict[str, Any], where: object, damaged: Callable[[Any, Exception], str]
) -> Manifest:
    """Read `Manifest.to_json`'s values.

    Args:
        values: The values.
        where: The place of the knowledge base, for errors.
        damaged: Returns what to say of a place whose manifest cannot be read.

    Raises:
        KnowledgeBaseError: They are damaged or of a newer format.
    """
    for field, known in (("format_version", FORMAT_VERSION), ("analysis", ANALYSIS)):
        version = values.get(field)
        if isinstance(version, int) and version > known:
            raise KnowledgeBaseError(
                f"{where} has {field.removesuffix('_version')} {version}, newer than this ragweave "
                f"reads ({known}); upgrade ragweave"
            )
    try:
        return _parse(values)
    except (KeyError, TypeError, ValueError) as error:
        raise KnowledgeBaseError(damaged(where, error)) from error


def _parse(values: dict[str, Any]) -> Manifest:
    generation = values["generation"]
    if type(generation) is not int or generation < 0 or values["format_version"] not in (1, 2, 3):
        raise UsageError("invalid generation or format_version")
    analysis = values.get("analysis", 1)  # what had no number yet
    if type(analysis) is not int or analysis < 1:
        raise UsageError("invalid analysis")
    return Manifest(
        settings=Settings.from_json(values["settings"]),
        collection=str(values["collection"]),
        generation=generation,
        passages=int(values["counts"]["passages"]),
        sources=int(values["counts"]["sources"]),
        embedding_name=values["embedding"]["name"],
        dimension=values["embedding"]["dimension"],
        analysis=analysis,
        write=str(values.get("write", "")),
    )


def _absent(folder: Path, shown: Path) -> str:
    if not folder.exists():
        return f"no knowledge base at {shown}: index some documents into it first"
    return f"{shown} is not a ragweave knowledge base (it has no {NAME})"


def _damaged(folder: Path, error: Exception) -> str:
    return f"{folder / NAME} is damaged ({error}); delete the knowledge base and index again"


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the exclusive right to write to the knowledge base in `folder`.

    Raises:
        KnowledgeBaseError: Another writer, of this process or another, holds it.
    """
    try:
        with hold(folder / "write.lock"):
            yield
    except LockedError as error:
        raise KnowledgeBaseError(
            f"{folder} is being written by process {error.holder or 'unknown'}; try again when it "
            "has finished"
        ) from None


def vector_lock(folder: Path, *, write: bool) -> AbstractContextManager[None]:
    """Keep readers of other processes away while one changes the vector files.

    Embedded Chroma guards its files within a process only. Waits; the lock is held briefly.
    """
    path = folder / "vectors.lock"
    return writing(path) if write else reading(path)
