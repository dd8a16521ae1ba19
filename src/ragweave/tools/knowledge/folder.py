"""The folder of a knowledge base before it is one, and settings against those it was made with."""

from __future__ import annotations

import uuid
from dataclasses import asdict, replace
from pathlib import Path

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.knowledge.lock import write_lock
from ragweave.tools.knowledge.manifest import NAME, read_manifest, write_manifest
from ragweave.tools.knowledge.settings import Settings
from ragweave.tools.knowledge.vectors import COLLECTION
from ragweave.tools.knowledge.writing import told

_OURS = (
    *("passages.sqlite", f".{NAME}.", f"{NAME}.tmp"),
    *("write.lock", "vectors.lock", "bm25", "chroma"),
)
"""How the names of our files begin, temporary ones of earlier versions among them."""


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


def new_collection() -> str:
    """Return a name for a Chroma collection that no other knowledge base has."""
    return f"{COLLECTION}{uuid.uuid4().hex}"


def resettle(folder: Path, wanted: Settings, embedding_name: str | None) -> None:
    """Give other settings to a knowledge base that nothing was ever written to.

    What a broken-off first write left is taken back by the next one; its vectors stay behind in
    a collection that nobody asks.

    Raises:
        KnowledgeBaseError: A writer is at work, or the disk refuses.
    """
    with told(folder, "its settings are as they were before"), write_lock(folder):
        held = read_manifest(folder)
        if held.generation:
            return
        made = replace(held, settings=wanted, collection=new_collection(), dimension=None)
        write_manifest(folder, replace(made, embedding_name=embedding_name))


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
