"""E-mails and mailboxes with their attachments, ZIP archives, pages saved by a browser."""

import email
import email.policy
import mimetypes
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from ragweave.tools.knowledge.chunking import Loaded, UnreadableError
from ragweave.tools.knowledge.loaders.text import dated, decode, html_markdown, markdown
from ragweave.tools.knowledge.settings import IndexSettings

_FROM = re.compile(rb"From .*\d:\d\d")
"""The line before each mail of a mailbox, after a blank line."""
_NEW_WORDS = 0.25
"""The HTML of a mail is read if a larger share of its words is not in the plain text."""
_MAX_HEADER = 4_000
"""Longest header of an e-mail, in characters."""


class _ShortHeaders(email.policy.EmailPolicy):
    """Reads the beginning of a header: the library's time grows with the square of its length."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return super().header_fetch_parse(name, value[:_MAX_HEADER])


_POLICY = _ShortHeaders()


class Member(NamedTuple):
    """A file within a file, read as a document of it."""

    name: str
    """Its path in the other file."""
    size: int
    """Bytes."""
    read: Callable[[], bytes]


def load_mail(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded | Member | str]:
    """Load the subject, sender, date and body of an e-mail, then its attachments."""
    mail: Any = email.message_from_bytes(data, policy=_POLICY)
    heads: dict[str, str] = {}
    for head in ("From", "To", "Cc", "Date", "Subject"):
        with suppress(Exception):  # a header that the library cannot parse
            heads |= {head: str(mail[head])} if mail[head] else {}
    bodies = [body for kind in ("plain", "html") if (body := mail.get_body((kind,)))]
    others = [part for part in _parts(mail) if part not in bodies]
    inline = [part for part in others if part.get_content_maintype() == "text" and not part.get_filename()]
    texts = [*_told([*map(_text_of, bodies)]), *map(_text_of, inline)]
    people = {name.lower(): heads[name] for name in ("From", "To") if name in heads}
    text, sent = "\n".join([*map(": ".join, heads.items()), "", *texts]), ""
    with suppress(Exception):
        sent = mail["Date"].datetime.isoformat()
    yield dated(Loaded(text, heads.get("Subject", name), metadata=people), mail=sent)
    for number, part in enumerate((part for part in others if part not in inline), 1):
        mails: Any = part.get_payload() if part.is_multipart() else []  # of a forwarded mail
        content: Any = b"\n".join(map(bytes, mails)) or part.get_payload(decode=True) or b""
        suffix = ".eml" if mails else mimetypes.guess_extension(part.get_content_type()) or ""
        yield Member(part.get_filename() or f"attachment {number}{suffix}", len(content), partial(bytes, content))


def _parts(part: Any) -> Iterator[Any]:
    """Yield the parts of a mail, without signatures, other forms of its text, and the pictures that its HTML shows."""
    kind = part.get_content_type()
    if not (kind.startswith("multipart/") and part.is_multipart()):
        yield part
        return
    skipped = {"multipart/alternative": "text", "multipart/related": "image"}.get(kind)
    for inner in [*part.iter_parts()][: 1 if kind == "multipart/signed" else None]:
        if inner.get_content_maintype() != skipped:
            yield from _parts(inner)


def _told(bodies: list[str]) -> list[str]:
    """Return the plain text of a mail; its HTML instead, or as well, if that says something else."""
    if not bodies[1:]:
        return bodies
    plain, page = ({*re.findall(r"\w+", body.lower())} for body in bodies)
    if len(page - plain) <= _NEW_WORDS * len(page):
        return bodies[:1]
    return bodies[1:] if len(plain - page) <= _NEW_WORDS * len(plain) else bodies


def _text_of(part: Any) -> str:
    text = _decoded(part)
    return html_markdown(text)[1] if part.get_content_type() == "text/html" else text


def _decoded(part: Any) -> str:
    """Return the text of a part of an e-mail; one without a known charset is decoded as files are."""
    with suppress(LookupError):  # a charset that Python does not know
        if part.get_content_charset():
            return str(part.get_content())
    return decode(part.get_payload(decode=True))[0]


def load_mailbox(name: str, file: BinaryIO, settings: IndexSettings) -> Iterator[Loaded | Member | str]:
    """Load the mails of a mailbox (mbox), one text each."""
    lines: list[bytes] = []
    blank = True
    for line in file:
        if blank and _FROM.match(line):
            if lines:
                yield from load_mail(name, b"".join(lines), settings)
            lines = []
        else:
            lines.append(re.sub(rb"^>(>*From )", rb"\1", line))
        blank = not line.strip()
    if lines:
        yield from load_mail(name, b"".join(lines), settings)


def load_saved_page(name: str, data: bytes, _settings: IndexSettings) -> Iterator[Loaded]:
    """Load a page that a browser saved with its pictures (MHTML)."""
    mail: Any = email.message_from_bytes(data, policy=_POLICY)
    page = mail.get_body(("html",))
    if page is None:
        raise UnreadableError("no page is in it")
    title, text = html_markdown(_decoded(page))
    yield markdown(text, name, title)


def load_zip(_name: str, file: BinaryIO, _settings: IndexSettings) -> Iterator[Member]:
    """Load the files of a ZIP archive, without hidden files and lock files."""
    with zipfile.ZipFile(file) as package:
        for entry in package.infolist():
            parts = PurePosixPath(entry.filename).parts
            if not entry.is_dir() and not any(part.startswith((".", "~$", "__MACOSX")) for part in parts):
                yield Member(entry.filename, entry.file_size, partial(package.read, entry))
