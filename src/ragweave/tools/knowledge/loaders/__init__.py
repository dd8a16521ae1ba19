"""File types: how the bytes of a file become texts, by its suffix. A line names what cannot be read.

A package declares a type as an entry point of the group `ragweave.file_types`:

    CALENDAR = FileType(name="calendar", suffixes=(".ics",), summary="one text per event", load=load_calendar)
"""

import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, TextIO

from ragweave.errors import one_line_of
from ragweave.registry import SESSION, Registry
from ragweave.state.passages import encodable
from ragweave.tools.knowledge.chunking import Loaded, UnreadableError
from ragweave.tools.knowledge.loaders.containers import Member, load_mail, load_mailbox, load_saved_page, load_zip
from ragweave.tools.knowledge.loaders.office import load_docx, load_epub, load_pptx
from ragweave.tools.knowledge.loaders.pdf import load_image, load_pdf
from ragweave.tools.knowledge.loaders.tables import load_csv, load_json, load_json_lines, load_workbook
from ragweave.tools.knowledge.loaders.text import dated, day_in, load_html, markdown, readable, text_file
from ragweave.tools.knowledge.settings import IndexSettings

Loader = Callable[[str, BinaryIO, IndexSettings], Iterable[Loaded | Member | str]]
"""Takes a file's name without suffix, the open file, and the settings; yields its texts, the files within it, and a
line for each thing that it leaves out."""
MAX_MEMBERS = 10_000
"""Files that are read of a file that holds others; they may have 100 times its bytes, or 64 MiB."""
MAX_TEXT = 2**20
"""Characters that are made of a file; or 100 times its bytes, where these are more."""
MAX_LIGHT = 2**20
"""Size in bytes up to which a file of a light format is read in this process."""
MAX_DEPTH = 3
"""Levels of files within files."""
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
"""Where WebVTT names a speaker."""


def load_notebook(name: str, file: TextIO, _settings: IndexSettings) -> Iterator[Loaded]:
    """Load the text, code and printed output of a Jupyter notebook's cells, as Markdown."""
    parts = []
    for cell in json.load(file)["cells"]:
        source = "".join(cell.get("source", ""))
        parts.append(source if cell.get("cell_type") == "markdown" else f"```\n{source}\n```")
        outputs = (output.get("text") or output.get("data", {}).get("text/plain") for output in cell.get("outputs", ()))
        parts += ["".join(text or "") for text in outputs]
    yield markdown("\n\n".join(part for part in parts if part.strip()), name)


def load_subtitles(name: str, file: TextIO, _settings: IndexSettings) -> Iterator[Loaded]:
    """Load the spoken text of subtitles (SubRip, WebVTT) with its speakers, without numbers, times and tags.

    Where cues roll, each beginning with the end of the one before it, a line is read once.
    """
    texts = "\n".join(map(str.strip, file.read().splitlines())).split("\n\n")
    spoken = (_VOICE.sub(r"\1: ", text.partition("-->")[2].partition("\n")[2]) for text in texts)
    lines = ([line.strip() for line in re.sub("<[^<>]*>", "", text).splitlines()] for text in spoken)
    cues = [shown for cue in lines if (shown := [line for line in cue if line])]
    repeated = [_repeated(earlier, cue) for earlier, cue in pairwise([[], *cues])]
    rolls = 2 * sum(map(bool, repeated)) > len(cues)
    new = (line for cue, count in zip(cues, repeated, strict=True) for line in cue[count * rolls :])
    yield Loaded(unescape("\n".join(new)), name)


def _repeated(earlier: list[str], cue: list[str]) -> int:
    """Return how many lines at the end of a cue begin the next one."""
    return next((count for count in range(len(cue), 0, -1) if cue[:count] == earlier[-count:]), 0)


@dataclass(frozen=True)
class FileType:
    """The declaration of a type of files: how its files are named and read."""

    name: str
    suffixes: tuple[str, ...]
    """In lower case, with the dot. If several types name a suffix, the last one in `FILE_TYPES` reads it,
    so that a package can replace ours."""
    summary: str
    """One line: what its passages are made of."""
    load: Loader
    extra: str = ""
    """The extra of `ragweave` that it needs."""
    light: bool = False
    """Whether its reader needs no library and little time, so that a small file needs no process of its own."""


def of_bytes(load: Callable[[str, bytes, IndexSettings], Iterable[Loaded | Member | str]]) -> Loader:
    """Return the loader that passes on the bytes of a file."""
    return lambda name, file, settings: load(name, file.read(), settings)


def of_text(load: Callable[[str, TextIO, IndexSettings], Iterable[Loaded | str]]) -> Loader:
    """Return the loader that passes on a file's text, decoded as `text_file` says."""

    def loader(name: str, file: BinaryIO, settings: IndexSettings) -> Iterator[Loaded | Member | str]:
        text, notice = text_file(file)
        yield notice
        yield from load(name, text, settings)

    return loader


_TYPES = (
    FileType(
        "text",
        (".txt",),
        "the text; any other file that holds text is read in the same way",
        of_text(lambda name, file, _settings: [Loaded(file.read(), name)]),
        light=True,
    ),
    FileType(
        "markdown",
        (".md", ".markdown"),
        "the text; headings and YAML front matter become metadata",
        of_text(lambda name, file, _settings: [markdown(file.read(), name)]),
        light=True,
    ),
    FileType("html", (".html", ".htm", ".xhtml"), "the text without menus, banners and footers", of_bytes(load_html)),
    FileType("mhtml", (".mhtml", ".mht"), "a page that a browser saved, as HTML", of_bytes(load_saved_page)),
    FileType(
        "pdf",
        (".pdf",),
        "the text, form fields and notes, and with the extra `ocr` the text of scans; sources give the page",
        of_bytes(load_pdf),
    ),
    FileType("word", (".docx", ".docm", ".dotx", ".dotm"), "the text; headings become metadata", of_bytes(load_docx)),
    FileType(
        "powerpoint",
        (".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"),
        "the text; sources give the slide",
        of_bytes(load_pptx),
    ),
    FileType("epub", (".epub",), "the text; headings become metadata", of_bytes(load_epub)),
    FileType("excel", (".xlsx", ".xlsm", ".xltx", ".xltm"), "rows; the sheet is the heading", of_bytes(load_workbook)),
    FileType("csv", (".csv",), "rows", of_text(load_csv), light=True),
    FileType("tsv", (".tsv",), "rows", of_text(partial(load_csv, separator="\t")), light=True),
    FileType(
        "json",
        (".json",),
        "the objects of a list as rows; what Docling writes, with headings, tables and pages; else the text",
        of_text(load_json),
        light=True,
    ),
    FileType("jsonl", (".jsonl", ".ndjson"), "the object of each line as a row", of_text(load_json_lines), light=True),
    FileType(
        "notebook", (".ipynb",), "text, code and output of a Jupyter notebook", of_text(load_notebook), light=True
    ),
    FileType(
        "mail", (".eml",), "sender, recipient, date, subject, text and attachments of an e-mail", of_bytes(load_mail)
    ),
    FileType("mailbox", (".mbox",), "each mail as above, with its attachments", load_mailbox),
    FileType("zip", (".zip",), "the files in it, each as its type", load_zip),
    FileType(
        "subtitles",
        (".srt", ".vtt"),
        "the spoken text with its speakers, without numbers and times",
        of_text(load_subtitles),
        light=True,
    ),
    FileType(
        "picture",
        (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp"),
        "the recognised text, in Latin script or Chinese",
        of_bytes(load_image),
        extra="ocr",
    ),
)
FILE_TYPES: Registry[FileType] = Registry("ragweave.file_types", FileType, "file type", lambda: _TYPES)
"""Every file type by name: ours, then those of other packages (entry points `ragweave.file_types`)."""


@dataclass
class _Room:
    """What may still be read of the files within a file."""

    files: int
    size: int
    """Bytes."""
    refused: int = 0
    """Files that were not read, as there was no room."""

    def take(self, member: Member) -> bool:
        """Return whether there is room for a file, and take it."""
        fits = self.files > 0 and member.size <= self.size
        self.files -= fits
        self.size -= member.size * fits
        self.refused += not fits
        return fits


def load(path: Path, file: BinaryIO, settings: IndexSettings) -> Iterator[Loaded | str]:
    """Yield the texts of a file and of the files within it, and a line for each thing that was not read.

    Raises:
        UnreadableError: Nothing of it can be read.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    room = _Room(MAX_MEMBERS, _max_bytes(size))
    max_text = left = max(MAX_TEXT, 100 * size)
    for loaded in _texts(path, lambda: file, settings, room):
        left -= 0 if isinstance(loaded, str) else len(loaded.text) + len(str(loaded.fields()))
        if left < 0:
            yield f"not read to its end: {max_text} characters were made of its {size} bytes"
            break
        yield loaded
    if room.refused:
        yield f"{room.refused} files in it are not read: there are too many, or they are too large"


def _texts(
    path: Path, opened: Callable[[], BinaryIO], settings: IndexSettings, room: _Room, depth: int = 0
) -> Iterator[Loaded | str]:
    try:
        for loaded in _loaded(path, opened(), settings):
            if isinstance(loaded, Member):
                if room.take(loaded):
                    yield from _member(loaded, settings, room, depth + 1)
            elif isinstance(loaded, str):
                yield from filter(None, [loaded])
            elif loaded.text.strip():
                own = dated(loaded, name=day_in(path.name), title=day_in(loaded.title))
                yield replace(own, text=readable(loaded.text), title=encodable(loaded.title))
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # whatever a library meets in a broken file; the others can be read
        raise UnreadableError(f"cannot be read ({type(error).__name__}: {one_line_of(error, 100)})") from error


def _member(member: Member, settings: IndexSettings, room: _Room, depth: int) -> Iterator[Loaded | str]:
    """Yield the texts of a file within a file; each has its name as metadata."""
    name = _name(member)
    if depth > MAX_DEPTH:
        yield f"{name}: not read, as it stands too deep in other files"
        return
    try:
        for loaded in _texts(Path(name), lambda: io.BytesIO(member.read()), settings, room, depth):
            if isinstance(loaded, str):
                yield type(loaded)(f"{name}: {loaded}")
            else:
                inner = loaded.metadata.get("member")
                yield replace(loaded, metadata=loaded.metadata | {"member": f"{name} › {inner}" if inner else name})
    except UnreadableError as error:
        yield f"{name}: {error}"


def member_of(path: Path, data: bytes, name: str) -> tuple[Path, bytes]:
    """Return a file within a file by what its passages have as `member`; no bytes unless it is the only one."""
    room = _Room(MAX_MEMBERS, _max_bytes(len(data)))
    files: list[tuple[Path, bytes]] = []
    for member in _loaded(path, io.BytesIO(data), IndexSettings()):
        if not isinstance(member, Member):
            continue
        own = _name(member)
        if f"{name} › ".startswith(f"{own} › ") and room.take(member):
            inner = name[len(own) + len(" › ") :]
            files.append(member_of(Path(own), member.read(), inner) if inner else (Path(own), member.read()))
    return files[0] if len(files) == 1 else (path, b"")


def _name(member: Member) -> str:
    return encodable(member.name)[-200:]


def _loaded(path: Path, file: BinaryIO, settings: IndexSettings) -> Iterator[Loaded | Member | str]:
    if path.suffix.lower() == ".gz":
        file, path = unpacked(file.read()), path.with_suffix("")
    name = re.sub(r"\.[A-Za-z]\w*$", "", path.name)
    yield from _type_of(path).load(name, file, settings)


def _type_of(path: Path) -> FileType:
    types = {suffix: kind for kind in FILE_TYPES.values() for suffix in kind.suffixes}
    return types.get(path.suffix.lower(), FILE_TYPES["text"])


def read_here(path: Path, size: int) -> bool:
    """Return whether a file needs no process of its own, or cannot be read in one: its type is known here alone."""
    packed = path.suffix.lower() == ".gz"
    kind = _type_of(path.with_suffix("") if packed else path)
    return FILE_TYPES.package(kind.name) == SESSION or (kind.light and size <= MAX_LIGHT and not packed)


def _max_bytes(size: int) -> int:
    """Return how many bytes may be made of a compressed file."""
    return max(2**26, 100 * size)


def unpacked(data: bytes) -> BinaryIO:
    """Unpack gzip."""
    max_bytes = _max_bytes(len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        text = file.read(max_bytes + 1)
    if len(text) > max_bytes:
        raise UnreadableError("unpacks to more than 100 times its size")
    return io.BytesIO(text)
