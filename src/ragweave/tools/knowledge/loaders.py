"""Loading files: the files under a path, and the loader of each suffix; text's and PDF's are here."""

from __future__ import annotations

import logging
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any

from ragweave.state.passages import whole
from ragweave.tools.knowledge.articles import load_html
from ragweave.tools.knowledge.decoding import read_text
from ragweave.tools.knowledge.images import MODULE, load_image, recognised
from ragweave.tools.knowledge.manifest import Settings, Skip
from ragweave.tools.knowledge.markdown import load_markdown
from ragweave.tools.knowledge.markup import (
    Loaded,
    UnreadableError,
    stem,
)
from ragweave.tools.knowledge.office import load_packed
from ragweave.tools.knowledge.tabular import load_csv, load_json_lines, load_workbook
from ragweave.tools.packed import open_packed


def load_text(path: Path) -> Iterator[Loaded]:
    """Load a text file; its title is the file name."""
    yield Loaded(read_text(path), stem(path))


def load_pdf(path: Path) -> Iterator[Loaded]:
    """Load the text of a PDF with the offset at which each page begins.

    A page without text is recognised where RapidOCR is installed.

    Raises:
        UnreadableError: Damaged, encrypted, or without text (scanned pages).
    """
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.ERROR)
    try:
        with path.open("rb") as file:
            reader = pypdf.PdfReader(file)
            if reader.is_encrypted and not reader.decrypt(""):
                raise UnreadableError("encrypted PDF")
            scans = find_spec(MODULE) is not None
            pages = [_page_text(page, scans=scans) for page in reader.pages]
            title = str(reader.metadata.title or "") if reader.metadata else ""
    except (UnreadableError, OSError):
        raise
    except Exception as error:  # whatever part of pypdf a broken file meets
        said = " ".join(str(error).split())[:100] or type(error).__name__
        raise UnreadableError(f"damaged PDF ({said})", passing=True) from error
    yield _joined(pages, " ".join(title.split()) or stem(path))


def _page_text(page: Any, *, scans: bool) -> str:
    """Return the text of a page, or that of its pictures where it is a scan."""
    text: str = page.extract_text()
    if text.strip() or not scans:
        return text
    try:
        pictures = [one.image for one in page.images if one.image is not None]
    except Exception:  # noqa: BLE001 - decoders raise what they like; other pages can be read
        return text
    return "\n".join(map(recognised, pictures))


def _joined(pages: list[str], title: str) -> Loaded:
    if not any(page.strip() for page in pages):
        scans = find_spec(MODULE) is not None
        wanted = "" if scans else ' (to recognise scanned pages: pip install "ragweave[ocr]")'
        raise UnreadableError(f"PDF without text{wanted}", passing=not scans)
    starts, length = [], 0
    for page in pages:
        starts.append(length)
        length += len(page) + 1
    return Loaded("\n".join(pages), title, pages=tuple(starts))


_DOCUMENTS: dict[str, Callable[[Path], Iterator[Loaded]]] = {
    ".pdf": load_pdf,
    ".docx": load_packed,
    ".pptx": load_packed,
    ".epub": load_packed,
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp"), load_image),
}
_WHOLE: dict[str, Callable[[Path], Iterator[Loaded]]] = {
    "": load_text,
    ".txt": load_text,
    ".text": load_text,
    ".rst": load_text,
    ".md": load_markdown,
    ".markdown": load_markdown,
    **_DOCUMENTS,
}
_PAGES = (".html", ".htm", ".xhtml")
_SHEETS = dict.fromkeys((".xlsx", ".xlsm"), load_workbook)
_ROWS: dict[str, Callable[[Path, Settings], Iterator[Loaded | Skip]]] = {
    ".csv": load_csv,
    ".tsv": load_csv,
    ".jsonl": load_json_lines,
    ".ndjson": load_json_lines,
    **_SHEETS,
}
_BINARY = frozenset((*_DOCUMENTS, *_SHEETS))
"""Suffixes of the files whose loaders read no `.gz` themselves."""


def load(path: Path, settings: Settings) -> Iterator[Loaded | Skip]:
    """Yield the texts of a file; rows that cannot be read are `Skip`s.

    Raises:
        UnreadableError: The file cannot be read; texts yielded before are to be discarded.
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableError("not a regular file")
        with _unpacked(path, suffix) as file:
            for one in _read(file, suffix, settings):
                yield replace(one, path=str(path)) if isinstance(one, Skip) else one
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        passing = not isinstance(error, FileNotFoundError)
        raise UnreadableError(reason, passing=passing) from error


@contextmanager
def _unpacked(path: Path, suffix: str) -> Iterator[Path]:
    """Give the file to read: an unpacked copy where its loader cannot unpack it."""
    if path.suffix.lower() != ".gz" or suffix not in _BINARY:
        yield path
        return
    with TemporaryDirectory(prefix="ragweave-") as folder:
        file = Path(folder, path.stem)
        with open_packed(path) as packed, file.open("wb") as copy:
            copyfileobj(packed, copy)
        yield file


def _read(path: Path, suffix: str, settings: Settings) -> Iterator[Loaded | Skip]:
    if suffix in _ROWS:
        return _ROWS[suffix](path, settings)
    if suffix in _PAGES:
        return _full(load_html(path, settings))
    if suffix in _WHOLE:
        return _full(_WHOLE[suffix](path))
    known = " ".join(sorted({*_WHOLE, *_PAGES, *_ROWS} - {""}))
    raise UnreadableError(f"no loader for {suffix} files (known: {known})")


def _full(texts: Iterator[Loaded]) -> Iterator[Loaded]:
    for one in texts:
        if not one.text.strip():
            raise UnreadableError("empty")
        # A PDF may hold halves of surrogate pairs; each becomes one sign, so offsets stay.
        yield replace(one, text=whole(one.text), title=whole(one.title))


def files_under(path: Path, *, leave_out: Path | None) -> Iterator[Path | Skip]:
    """Return the files of a folder, recursively, sorted; or `path` itself where it is a file.

    Hidden files and folders and the folder `leave_out` are skipped, links to folders are not
    followed. A folder that cannot be listed is a `Skip`.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - never raises, where a Path may
        yield path
        return
    denied: list[OSError] = []
    for folder, names, files in os.walk(path, onerror=denied.append):
        here = Path(folder)
        names[:] = sorted(
            name for name in names if not name.startswith(".") and here / name != leave_out
        )
        yield from (here / name for name in sorted(files) if not name.startswith("."))
    yield from (Skip(str(error.filename), error.strerror or str(error)) for error in denied)
