"""Loaders of packed documents: Word, PowerPoint and EPUB become Markdown by MarkItDown.

MarkItDown was chosen over docling: it reads EPUB, gives headings and tables as Markdown, and needs
neither PyTorch nor models to download, as docling does. Of it the converters alone are used, without
plugins, a model or the network. Workbooks are read by openpyxl (see `tabular`): a passage a row says
more than a cut table.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError
from ragweave.tools.knowledge.markdown import markdown, markdown_headings
from ragweave.tools.knowledge.markup import Loaded, UnreadableError, stem

_MOST_MARKUP = 2**26
"""Bytes of XML and HTML that a package may unpack to; a converter takes minutes for as much."""
_MOST_BYTES = 2**30
"""Bytes that a package may unpack to, pictures included."""
_MOST_MEMBERS = 10_000
_MEDIA = tuple(
    f".{one}"
    for one in [
        "png",
        "jpg",
        "jpeg",
        "gif",
        "tif",
        "tiff",
        "emf",
        "wmf",
        "svg",
        "webp",
        "mp3",
        "mp4",
        "m4a",
        "mov",
        "wav",
        "avi",
        "wmv",
        "ttf",
        "otf",
        "woff",
        "woff2",
        "fntdata",
        "bin",
    ]
)
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_AS_IT_STANDS = {"escape_asterisks": False, "escape_underscores": False}
_CORE = "docProps/core.xml"
_TITLE = re.compile(r"<dc:title>([^<]*)</dc:title>")
_SLIDE = re.compile(r"<!-- Slide number: \d+ -->")
_PICTURE = re.compile(r"!\[([^\]]{0,1000}+)\]\([^)]{0,1000}+\)")


def need_extra(module: str, path: Path, extra: str = "documents") -> None:
    """Raise `UnreadableError` where the module that reads such files is not installed."""
    if find_spec(module) is None:
        suffix = path.suffix.lower()
        raise UnreadableError(
            str(MissingExtraError(f"Reading {suffix} files", extra)), passing=True
        )


def damaged(path: Path, error: Exception) -> UnreadableError:
    """Return the error for a file that its reader cannot read."""
    said = " ".join(str(error).split())[:100] or type(error).__name__
    return UnreadableError(f"damaged {path.suffix.lower()} file ({said})", passing=True)


def check_package(path: Path) -> None:
    """Check a zip of documents before it is unpacked.

    Sizes are those that the zip claims; Python's reader stops there, whatever follows.

    Raises:
        UnreadableError: It is no zip, is encrypted, or would unpack to far more than a document.
    """
    with path.open("rb") as file:
        if file.read(4) == _OLD_OFFICE:
            raise UnreadableError(
                f"encrypted, or of an Office before 2007: save it as {path.suffix.lower()} without "
                "a password"
            )
    try:
        with zipfile.ZipFile(path) as package:
            members = package.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise damaged(path, error) from error
    if any(one.flag_bits & 1 for one in members) or "META-INF/rights.xml" in package.NameToInfo:
        raise UnreadableError("encrypted")
    markup = sum(one.file_size for one in members if not one.filename.lower().endswith(_MEDIA))
    total = sum(one.file_size for one in members)
    if len(members) > _MOST_MEMBERS or markup > _MOST_MARKUP or total > _MOST_BYTES:
        raise UnreadableError(
            f"unpacks to {total >> 20} MiB in {len(members)} parts, more than a document should"
        )


def load_packed(path: Path) -> Iterator[Loaded]:
    """Load a .docx, .pptx or .epub; pages of a presentation are its slides.

    Raises:
        UnreadableError: MarkItDown is not installed; or the file is damaged, encrypted or too large.
    """
    need_extra("markitdown", path)
    check_package(path)
    try:
        text, title = _converted(path)
    except Exception as error:
        raise damaged(path, error) from error
    text = _PICTURE.sub(_alternative, text)
    slides = _SLIDE.split(text) if path.suffix.lower() == ".pptx" else [text]
    loaded = markdown("".join(slides), stem(path), title=title or _only_top(text) or stem(path))
    pages = tuple(accumulate(map(len, slides[:-1]))) if slides[1:] else ()
    yield replace(loaded, pages=pages)


def _alternative(picture: re.Match[str]) -> str:
    """Return what stands for a picture: its description, unless that is a file's name."""
    return "" if picture[1].lower().endswith(_MEDIA) else picture[1]


def _only_top(text: str) -> str:
    """Return the first heading where no other is of its level or above."""
    first, *others = markdown_headings(text) or [None]
    alone = first is not None and all(one is None or one.level > first.level for one in others)
    return first.text if first is not None and alone else ""


def _core_title(path: Path) -> str:
    """Return the title in the properties of an Office file, or nothing."""
    with zipfile.ZipFile(path) as package:
        if _CORE not in package.NameToInfo:
            return ""
        found = _TITLE.search(package.read(_CORE).decode("utf-8", "replace"))
    title = " ".join(unescape(found[1]).split()) if found else ""
    return "" if title == "PowerPoint Presentation" else title


def _converted(path: Path) -> tuple[str, str]:
    """Return a file as Markdown, and its title, where it names one."""
    from markitdown import StreamInfo
    from markitdown.converters import DocxConverter, EpubConverter, PptxConverter

    makers: dict[str, Any] = {
        ".docx": DocxConverter,
        ".pptx": PptxConverter,
        ".epub": EpubConverter,
    }
    suffix = path.suffix.lower()
    with path.open("rb") as file:
        made = makers[suffix]().convert(file, StreamInfo(extension=suffix), **_AS_IT_STANDS)
    title = " ".join((made.title or "").split())
    return made.markdown, title or _core_title(path)
