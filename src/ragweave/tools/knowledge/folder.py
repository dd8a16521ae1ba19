"""The folder of a knowledge base before it is one, and settings against those it was made with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge.manifest import NAME
from ragweave.tools.knowledge.settings import Settings

_OURS = ("passages.sqlite", f"{NAME}.tmp", "write.lock", "vectors.lock", "bm25", "chroma")


def claim(folder: Path) -> None:
    """Make the folder, or take an empty one or what a broken-off `create` left.

    Raises:
        KnowledgeBaseError: It is a file, a knowledge base already, or holds other things.
    """
    if folder.exists() and not folder.is_dir():
        raise KnowledgeBaseError(f"{folder} is a file; a knowledge base is a folder")
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / NAME).exists():
        raise KnowledgeBaseError(f"{folder} is a knowledge base already; open it")
    foreign = sorted(one.name for one in folder.iterdir() if not one.name.startswith(_OURS))
    if foreign:
        raise KnowledgeBaseError(
            f"{folder} is no knowledge base and holds other things ({foreign[0]}); give a new or "
            "an empty folder"
        )


def same_settings(folder: Path, held: Settings, wanted: Settings) -> None:
    """Check settings against those that the knowledge base was made with.

    Raises:
        KnowledgeBaseError: They differ; the text names the first difference.
    """
    before, now = asdict(held), asdict(wanted)
    for name, value in before.items():
        if now[name] != value:
            raise KnowledgeBaseError(
                f"{folder} was made with {name} = {value!r}, not {now[name]!r}; leave it so, or "
                "make a new knowledge base"
            )
