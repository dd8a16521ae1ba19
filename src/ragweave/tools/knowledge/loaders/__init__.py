"""Loaders: turn a file's bytes into texts, by suffix. A line names what cannot be read."""

import email
import email.policy
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from ragweave.tools.knowledge.chunking import Loaded, UnreadableError
from ragweave.tools.knowledge.loaders.office import load_docx, load_epub, load_pptx
from ragweave.tools.knowledge.loaders.pdf import load_image, load_pdf
from ragweave.tools.knowledge.loaders.tables import load_csv, load_json, load_json_lines, load_workbook
from ragweave.tools.knowledge.loaders.text import decode, html_markdown, load_html, markdown, readable, text_file
from ragweave.tools.knowledge.settings import Settings

Loader = Callable[[str, Any, Settings], Iterable[Loaded | str]]
"""Takes a file's name without suffix, its bytes or a text file, and the settings; yields texts, and lines
about what it leaves out."""


def load_notebook(name: str, file: TextIO, _settings: Settings) -> Iterator[Loaded]:
    """Load the text, code and printed output of a Jupyter notebook's cells, as Markdown."""
    parts = []
    for cell in json.load(file)["cells"]:
        source = "".join(cell.get("source", ""))
        parts.append(source if cell.get("cell_type") == "markdown" else f"```\n{source}\n```")
        for output in cell.get("outputs", ()):
            shown = output.get("text") or output.get("data", {}).get("text/plain") or ""
            parts.append("".join(shown))
    yield markdown("\n\n".join(part for part in parts if part.strip()), name)


def load_subtitles(name: str, file: TextIO, _settings: Settings) -> Iterator[Loaded]:
    """Load what is said in subtitles (SubRip, WebVTT), without numbers, times and tags."""
    cues = "\n".join(map(str.strip, file.read().splitlines())).split("\n\n")
    said = "\n".join(filter(None, (cue.partition("-->")[2].partition("\n")[2] for cue in cues)))
    yield Loaded(unescape(re.sub("<[^<>]*>", "", said)), name)


def load_mail(name: str, data: bytes, _settings: Settings) -> Iterator[Loaded | str]:
    """Load subject, sender, date and body of an e-mail; attachments are named, not read."""
    mail = email.message_from_bytes(data, policy=email.policy.default)
    heads: dict[str, str] = {}
    for head in ("From", "To", "Date", "Subject"):
        with suppress(Exception):  # one that the library cannot parse
            heads |= {head: str(mail[head])} if mail[head] else {}
    body, others = mail.get_body(("plain", "html")), [*mail.iter_attachments()]
    inline = [part for part in others if part.get_content_maintype() == "text" and not part.get_filename()]
    if files := [part.get_filename() or "unnamed" for part in others if part not in inline]:
        yield f"attachments are not read: {', '.join(files)[:200]}"
    texts = [_text_of(part) for part in (body, *inline) if part is not None]
    yield Loaded("\n".join([*map(": ".join, heads.items()), "", *texts]), heads.get("Subject", name))


def _text_of(part: Any) -> str:
    try:
        text = part.get_content()
    except LookupError:  # a charset that Python does not know
        text = decode(part.get_payload(decode=True))[0]
    return html_markdown(text)[1] if part.get_content_type() == "text/html" else text


TEXTS: dict[str, Loader] = {
    **dict.fromkeys((".md", ".markdown"), lambda name, file, _settings: [markdown(file.read(), name)]),
    ".csv": load_csv,
    ".tsv": partial(load_csv, separator="\t"),
    ".json": load_json,
    **dict.fromkeys((".jsonl", ".ndjson"), load_json_lines),
    ".ipynb": load_notebook,
    **dict.fromkeys((".srt", ".vtt"), load_subtitles),
}
"""Loaders of texts by suffix. Any other file is read as it is, if it holds text."""
FILES: dict[str, Loader] = {
    ".pdf": load_pdf,
    **dict.fromkeys((".html", ".htm", ".xhtml"), load_html),
    ".docx": load_docx,
    ".pptx": load_pptx,
    ".epub": load_epub,
    **dict.fromkeys((".xlsx", ".xlsm"), load_workbook),
    ".eml": load_mail,
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp"), load_image),
}
"""Loaders of bytes by suffix."""


def load(path: Path, file: BinaryIO, settings: Settings) -> Iterator[Loaded | str]:
    """Yield the texts of a file, and a line for each thing that was not read.

    Raises:
        UnreadableError: Nothing of it can be read.
    """
    try:
        for one in _loaded(path, file, settings):
            if isinstance(one, str):
                yield from filter(None, [one])
            elif one.text.strip():
                yield replace(one, text=readable(one.text))
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # whatever a library meets in a broken file; the others can be read
        reason = " ".join(str(error).split())[:100]
        raise UnreadableError(f"cannot be read ({type(error).__name__}: {reason})") from error


def _loaded(path: Path, file: BinaryIO, settings: Settings) -> Iterator[Loaded | str]:
    if path.suffix.lower() == ".gz":
        file, path = _unpacked(file.read()), path.with_suffix("")
    suffix, name = path.suffix.lower(), re.sub(r"\.[A-Za-z]\w*$", "", path.name)
    if suffix in FILES:
        yield from FILES[suffix](name, file.read(), settings)
        return
    text, note = text_file(file)
    yield note
    yield from TEXTS[suffix](name, text, settings) if suffix in TEXTS else [Loaded(text.read(), name)]


def _unpacked(data: bytes) -> BinaryIO:
    """Unpack gzip of up to 100 times its size, or 64 MiB."""
    most = max(2**26, 100 * len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise UnreadableError("unpacks to more than 100 times its size")
    return io.BytesIO(text)
