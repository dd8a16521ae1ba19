"""Loaders: turn a file's bytes into texts, by suffix. What cannot be read becomes a notice."""

from __future__ import annotations

import email
import email.policy
import gzip
import io
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from ragweave.tools.knowledge.passages import Heading, Loaded, Table, UnreadableError
from ragweave.tools.knowledge.settings import Notice, Settings
from ragweave.tools.knowledge.loaders.html import html_markdown, load_html
from ragweave.tools.knowledge.loaders.office import load_docx, load_epub, load_pptx
from ragweave.tools.knowledge.loaders.pdf import load_pdf
from ragweave.tools.knowledge.loaders.tables import load_csv, load_json, load_workbook
from ragweave.tools.knowledge.loaders.text import decode, load_markdown, load_text, markdown, utf8

MOST_BYTES = 2**30
"""Bytes of a file that are read."""
_DATA_URI = re.compile(
    r"data:[\w.+-]{0,80}/?[\w.+-]{0,80};base64,[A-Za-z0-9+/=%\s]{64,}?(?=[^A-Za-z0-9+/=%\s]|$)"
)
_RUN = re.compile(r"[!-~]{2000,}")
"""Characters without a blank that no one reads: keys, pictures in base64, minified code."""

Loader = Callable[..., Iterator[Loaded | Notice]]


def load_notebook(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load the text, code and printed output of a Jupyter notebook's cells, as Markdown."""
    cells = json.loads(decode(data)[0])["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell.get("source", ""))
        parts.append(source if cell.get("cell_type") == "markdown" else f"```\n{source}\n```")
        for output in cell.get("outputs", ()):
            shown = output.get("text") or output.get("data", {}).get("text/plain") or ""
            parts.append("".join(shown))
    yield markdown("\n\n".join(part for part in parts if part.strip()), path.stem)


def load_mail(path: Path, data: bytes) -> Iterator[Loaded | Notice]:
    """Load subject, sender, date and body of an e-mail; attachments are named, not read."""
    mail = email.message_from_bytes(data, policy=email.policy.default)
    heads = [f"{name}: {mail[name]}" for name in ("From", "To", "Date", "Subject") if mail[name]]
    body = mail.get_body(("plain", "html"))
    text = body.get_content() if body is not None else ""
    if body is not None and body.get_content_type() == "text/html":
        text = html_markdown(text)[1]
    files = [part.get_filename() or "unnamed" for part in mail.iter_attachments()]
    if files:
        yield Notice(str(path), f"attachments are not read: {', '.join(files)[:200]}", partly=True)
    yield Loaded("\n".join([*heads, "", text]), str(mail["Subject"] or path.stem))


LOADERS: dict[str, Loader] = {
    ".md": load_markdown,
    ".markdown": load_markdown,
    ".pdf": load_pdf,
    **dict.fromkeys((".html", ".htm", ".xhtml"), load_html),
    ".docx": load_docx,
    ".pptx": load_pptx,
    ".epub": load_epub,
    **dict.fromkeys((".csv", ".tsv"), load_csv),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), load_json),
    **dict.fromkeys((".xlsx", ".xlsm"), load_workbook),
    ".ipynb": load_notebook,
    ".eml": load_mail,
}
"""Loaders by suffix. A file of any other is read as text, where it is text."""
_MARKS = (b"{\\rtf", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b")
"""How files begin that may look like text and are none."""
_ROWS = (load_csv, load_json, load_workbook)


def load(path: Path, data: bytes, settings: Settings) -> Iterator[Loaded | Notice]:
    """Yield the texts of a file, and a line for each part that was not read.

    Raises:
        UnreadableError: Nothing of it can be read.
    """
    if path.suffix.lower() == ".gz":
        data, path = _unpacked(data), path.with_suffix("")
    loader = LOADERS.get(path.suffix.lower(), load_text)
    if loader is load_text and data.startswith(_MARKS):
        raise UnreadableError(f"no loader for {path.suffix or 'such'} files")
    extra: tuple[Any, ...] = (settings,) if loader in _ROWS else ()
    try:
        for one in loader(path, data, *extra):
            if isinstance(one, Notice):
                yield one
            elif one.text.strip():
                cleaned, cut = clean(one)
                yield cleaned
                if cut:
                    told = f"{cut} characters without a blank are cut out (base64 or the like)"
                    yield Notice(str(path), told, partly=True)
    except (UnreadableError, MemoryError):
        raise
    except ImportError as error:
        raise UnreadableError(f'needs another package: pip install "{error.name}"') from error
    except Exception as error:  # a loader met what it does not expect: the other files can be read
        told = " ".join(str(error).split())[:100] or type(error).__name__
        raise UnreadableError(f"cannot be read ({type(error).__name__}: {told})") from error


def _unpacked(data: bytes) -> bytes:
    """Unpack gzip that grows no more than text does, 100 times or to 64 MiB."""
    most = max(2**26, 100 * len(data))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(most + 1)
    except (OSError, EOFError) as error:
        raise UnreadableError(f"damaged .gz file ({error})") from error
    if len(text) > most:
        raise UnreadableError("unpacks to more than 100 times its size")
    return text


def clean(loaded: Loaded) -> tuple[Loaded, int]:
    """Return a text without long unbroken runs and lone surrogates, and how much was cut out."""
    text = utf8(loaded.text).replace("\0", "\ufffd")
    spans = [(*one.span(), "data:…") for one in _DATA_URI.finditer(text)]
    for one in _RUN.finditer(text):
        inside = any(start < one.end() and one.start() < end for start, end, _ in spans)
        if not inside:
            spans.append((*one.span(), f"[{len(one.group())} characters left out]"))
    if not spans:
        return (loaded if text == loaded.text else replace(loaded, text=text)), 0
    spans.sort()

    ends = [end for _, end, _ in spans]
    shifts = [0, *accumulate(len(said) - (end - start) for start, end, said in spans)]

    def moved(offset: int) -> int:
        return offset + shifts[bisect_right(ends, offset)]

    pieces, done = [], 0
    for start, end, said in spans:
        pieces += [text[done:start], said]
        done = end
    made = "".join([*pieces, text[done:]])
    cut = sum(end - start for start, end, _ in spans)
    return replace(
        loaded,
        text=made,
        title=loaded.title[:400],
        pages=tuple(map(moved, loaded.pages)),
        headings=tuple(
            Heading(moved(one.start), one.level, one.text[:400]) for one in loaded.headings
        ),
        tables=tuple(Table(*map(moved, one)) for one in loaded.tables),
    ), cut
