"""The locks of a knowledge base: one writer, and no reader while the vector files change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ragweave.errors import KnowledgeBaseError, LockedError
from ragweave.tools.locks import hold, reading, writing


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the one right to write to the knowledge base in `folder`.

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

    Embedded Chroma guards its files within a process only. Waits; the holds are short.
    """
    path = folder / "vectors.lock"
    return writing(path) if write else reading(path)
