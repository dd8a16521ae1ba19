"""The manifest of a knowledge base: what it is, and which generation is the current one.

Replacing this one file is the commit of every write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragweave import __version__
from ragweave.errors import KnowledgeBaseError, UsageError
from ragweave.tools.files import write_atomic
from ragweave.tools.knowledge.settings import Settings

FORMAT = "ragweave-knowledge-base"
FORMAT_VERSION = 1
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

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON values."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "ragweave_version": __version__,
            "generation": self.generation,
            "language": self.settings.language,
            "settings": self.settings.to_json(),
            "collection": self.collection,
            "embedding": {"name": self.embedding_name, "dimension": self.dimension},
            "counts": {"passages": self.passages, "sources": self.sources},
        }


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step that a crash cannot halve."""
    text = json.dumps(manifest.to_json(), indent=2, ensure_ascii=False)
    write_atomic(folder / NAME, f"{text}\n")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the knowledge base in `folder`.

    Raises:
        KnowledgeBaseError: The folder is missing or foreign, or the manifest is damaged or of a
            newer format.
    """
    try:
        values = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise KnowledgeBaseError(_absent(folder)) from None
    except (OSError, ValueError) as error:
        raise KnowledgeBaseError(_damaged(folder, error)) from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise KnowledgeBaseError(f"{folder} is not a ragweave knowledge base (foreign {NAME})")
    version = values.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise KnowledgeBaseError(
            f"{folder} has format {version}, newer than this ragweave reads ({FORMAT_VERSION}); "
            "upgrade ragweave"
        )
    try:
        return _parse(values)
    except (KeyError, TypeError, ValueError) as error:
        raise KnowledgeBaseError(_damaged(folder, error)) from error


def _parse(values: dict[str, Any]) -> Manifest:
    generation = values["generation"]
    if type(generation) is not int or generation < 0 or values["format_version"] != FORMAT_VERSION:
        raise UsageError("generation or format_version makes no sense")
    return Manifest(
        settings=Settings.from_json(values["settings"]),
        collection=str(values["collection"]),
        generation=generation,
        passages=int(values["counts"]["passages"]),
        sources=int(values["counts"]["sources"]),
        embedding_name=values["embedding"]["name"],
        dimension=values["embedding"]["dimension"],
    )


def _absent(folder: Path) -> str:
    if not folder.exists():
        return f"No knowledge base at {folder}: index some documents into it first"
    return f"{folder} is not a ragweave knowledge base (it has no {NAME})"


def _damaged(folder: Path, error: Exception) -> str:
    return f"{folder / NAME} is damaged ({error}); delete the knowledge base and index again"
