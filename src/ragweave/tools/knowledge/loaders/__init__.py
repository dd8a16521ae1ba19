"""File types: how the bytes of a file become texts, by its suffix. A line names what cannot be read.

A package declares a type as an entry point of the group `ragweave.file_types`:

    CALENDAR = FileType(name="calendar", suffixes=(".ics",), summary="one text per event", load=load_calendar)
"""

import email
import email.policy
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from ragweave.registry import Registry
from ragweave.state.passages import encodable
from ragweave.tools.knowledge.chunking import Loaded, UnreadableError
from ragweave.tools.knowledge.loaders.office import load_docx, load_epub, load_pptx
from ragweave.tools.knowledge.loaders.pdf import load_image, load_pdf
from ragweave.tools.knowledge.loaders.tables import load_csv, load_json, load_json_lines, load_workbook
from ragweave.tools.knowledge.loaders.text import html_markdown, load_html, mail_text, markdown, readable, text_file
from ragweave.tools.knowledge.settings import IndexSettings

Loader = Callable[[str, BinaryIO, IndexSettings], Iterable[Loaded | str]]
"""Takes a file's name without suffix, the open file, and the settings; yields its texts, and a line for each thing
that it leaves out."""


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
    """Load the spoken text of subtitles (SubRip, WebVTT), without numbers, times and tags."""
    cues = "\n".join(map(str.strip, file.read().splitlines())).split("\n\n")
    speech = "\n".join(filter(None, (cue.partition("-->")[2].partition("\n")[2] for cue in cues)))
    yield Loaded(unescape(re.sub("<[^<>]*>", "", speech)), name)


def load_mail(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | str]:
    """Load subject, sender, date and body of an e-mail; attachments are named, not read."""
    mail = email.message_from_bytes(data, policy=email.policy.default)
    heads: dict[str, str] = {}
    for head in ("From", "To", "Date", "Subject"):
        with suppress(Exception):  # a header that the library cannot parse
            heads |= {head: str(mail[head])} if mail[head] else {}
    body, others = mail.get_body(("plain", "html")), [*mail.iter_attachments()]
    inline = [part for part in others if part.get_content_maintype() == "text" and not part.get_filename()]
    if files := [part.get_filename() or "unnamed" for part in others if part not in inline]:
        yield f"attachments are not read: {', '.join(files)[:200]}"
    texts = [_text_of(part) for part in (body, *inline) if part is not None]
    yield Loaded("\n".join([*map(": ".join, heads.items()), "", *texts]), heads.get("Subject", name))


def _text_of(part: Any) -> str:
    text = mail_text(part)
    return html_markdown(text)[1] if part.get_content_type() == "text/html" else text


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


def of_bytes(load: Callable[[str, bytes, IndexSettings], Iterable[Loaded | str]]) -> Loader:
    """Return the loader that passes on the bytes of a file."""
    return lambda name, file, settings: load(name, file.read(), settings)


def of_text(load: Callable[[str, TextIO, IndexSettings], Iterable[Loaded | str]]) -> Loader:
    """Return the loader that passes on a file's text, decoded as `text_file` says."""

    def loader(name: str, file: BinaryIO, settings: IndexSettings) -> Iterator[Loaded | str]:
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
    ),
    FileType(
        "markdown",
        (".md", ".markdown"),
        "the text; headings and YAML front matter become metadata",
        of_text(lambda name, file, _settings: [markdown(file.read(), name)]),
    ),
    FileType("html", (".html", ".htm", ".xhtml"), "the text without menus, banners and footers", of_bytes(load_html)),
    FileType(
        "pdf",
        (".pdf",),
        "the text, form fields and notes, and with the extra `ocr` the text of scans; sources give the page",
        of_bytes(load_pdf),
    ),
    FileType("word", (".docx",), "the text; headings become metadata", of_bytes(load_docx)),
    FileType("powerpoint", (".pptx",), "the text; sources give the slide", of_bytes(load_pptx)),
    FileType("epub", (".epub",), "the text; headings become metadata", of_bytes(load_epub)),
    FileType("excel", (".xlsx", ".xlsm"), "rows; the sheet is the heading", of_bytes(load_workbook)),
    FileType("csv", (".csv",), "rows", of_text(load_csv)),
    FileType("tsv", (".tsv",), "rows", of_text(partial(load_csv, separator="\t"))),
    FileType("json", (".json",), "the objects of a list as rows; else the text", of_text(load_json)),
    FileType("jsonl", (".jsonl", ".ndjson"), "the object of each line as a row", of_text(load_json_lines)),
    FileType("notebook", (".ipynb",), "text, code and printed output of a Jupyter notebook", of_text(load_notebook)),
    FileType("mail", (".eml",), "sender, recipient, date, subject and text of an e-mail", of_bytes(load_mail)),
    FileType("subtitles", (".srt", ".vtt"), "the spoken text, without numbers and times", of_text(load_subtitles)),
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


def load(path: Path, file: BinaryIO, settings: IndexSettings) -> Iterator[Loaded | str]:
    """Yield the texts of a file, and a line for each thing that was not read.

    Raises:
        UnreadableError: Nothing of it can be read.
    """
    try:
        for loaded in _loaded(path, file, settings):
            if isinstance(loaded, str):
                yield from filter(None, [loaded])
            elif loaded.text.strip():
                yield replace(loaded, text=readable(loaded.text), title=encodable(loaded.title))
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # whatever a library meets in a broken file; the others can be read
        reason = " ".join(str(error).split())[:100]
        raise UnreadableError(f"cannot be read ({type(error).__name__}: {reason})") from error


def _loaded(path: Path, file: BinaryIO, settings: IndexSettings) -> Iterator[Loaded | str]:
    if path.suffix.lower() == ".gz":
        file, path = _unpacked(file.read()), path.with_suffix("")
    types = {suffix: kind for kind in FILE_TYPES.values() for suffix in kind.suffixes}
    name = re.sub(r"\.[A-Za-z]\w*$", "", path.name)
    yield from types.get(path.suffix.lower(), FILE_TYPES["text"]).load(name, file, settings)


def _unpacked(data: bytes) -> BinaryIO:
    """Unpack gzip of up to 100 times its size, or 64 MiB."""
    max_bytes = max(2**26, 100 * len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        text = file.read(max_bytes + 1)
    if len(text) > max_bytes:
        raise UnreadableError("unpacks to more than 100 times its size")
    return io.BytesIO(text)
