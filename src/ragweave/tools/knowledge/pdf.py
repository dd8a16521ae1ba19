"""Loader of PDF files."""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from ragweave.tools.knowledge.loaded import Loaded, UnreadableError
from ragweave.tools.knowledge.markup import stem


def load_pdf(path: Path) -> Iterator[Loaded]:
    """Load the text of a PDF with the place where each page begins.

    Raises:
        UnreadableError: Damaged, encrypted, or without text (scanned pages).
    """
    import pypdf
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.ERROR)
    # What pypdf raises on a file that breaks the format, besides its own errors.
    broken = (
        *(PyPdfError, DependencyError, ValueError, KeyError, IndexError, TypeError),
        *(AttributeError, RecursionError, NotImplementedError, struct.error, zlib.error),
    )
    try:
        with path.open("rb") as file:
            reader = pypdf.PdfReader(file)
            if reader.is_encrypted and not reader.decrypt(""):
                raise UnreadableError("encrypted PDF")
            pages = [page.extract_text() for page in reader.pages]
            title = str(reader.metadata.title or "") if reader.metadata else ""
    except broken as error:
        raise UnreadableError(f"damaged PDF ({' '.join(str(error).split())[:100]})") from error
    yield _joined(pages, " ".join(title.split()) or stem(path))


def _joined(pages: list[str], title: str) -> Loaded:
    if not any(page.strip() for page in pages):
        raise UnreadableError("PDF without text (scanned pages need text recognition first)")
    starts, length = [], 0
    for page in pages:
        starts.append(length)
        length += len(page) + 1
    return Loaded("\n".join(pages), title, pages=tuple(starts))
