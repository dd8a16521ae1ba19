"""Web pages by their addresses, within limits on time and size."""

from __future__ import annotations

import codecs
import ipaddress
import mimetypes
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import httpx

from ragweave.errors import UsageError
from ragweave.tools.knowledge.passages import UnreadableError
from ragweave.tools.knowledge.settings import Notice

SECONDS = 30.0
"""Longest time that a page may take, redirects included."""
MOST_BYTES = 20_000_000
"""Longest page."""
_REDIRECTS = 5


def clean_url(url: str) -> str:
    """Return an address without its fragment.

    Raises:
        UsageError: It is not the address of a web page, or holds a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url}: not the address of a web page")
    if parts.username or parts.password:
        raise UsageError("an address with a password is not read: sources are stored as plain text")
    return urldefrag(url)[0]


def fetched(urls: Iterable[str]) -> tuple[list[tuple[str, Path, bytes]], list[Notice]]:
    """Fetch pages, each once: address, a file name of its type, bytes; and notices of what can't be fetched."""
    pages, notices = [], []
    for url in dict.fromkeys(map(clean_url, urls)):
        try:
            data, suffix = fetch(url)
        except UnreadableError as error:
            notices.append(Notice(url, str(error)))
        else:
            name = url.rstrip("/").rpartition("/")[2] or "page"
            pages.append((url, Path(name).with_suffix(suffix), data))
    return pages, notices


def fetch(url: str) -> tuple[bytes, str]:
    """Return the bytes of a page, texts in UTF-8, and the suffix of files of its type.

    The user may name any address. A redirect must not lead from there to a private address of
    another host: a page could make this machine read its neighbours.

    Raises:
        UnreadableError: The page cannot be reached, is refused, too long or too slow.
    """
    end = time.monotonic() + SECONDS

    def check(request: httpx.Request) -> None:
        if request.url.netloc != httpx.URL(url).netloc and not _is_public(request.url.host):
            raise UnreadableError(f"redirects to a private address, {request.url.host}")

    client = httpx.Client(
        timeout=10,
        trust_env=False,
        follow_redirects=True,
        max_redirects=_REDIRECTS,
        headers={"User-Agent": "ragweave", "Accept-Encoding": "gzip"},
        event_hooks={"request": [check]},
    )
    try:
        with client, client.stream("GET", url) as answer:
            data = _utf8(_body(answer, end), answer.charset_encoding)
            kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, LookupError) as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise UnreadableError(f"cannot be reached ({reason})") from error
    return data, ".html" if "html" in kind else mimetypes.guess_extension(kind) or ""


def _is_public(host: str) -> bool:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_global for one in found)


def _body(answer: httpx.Response, end: float) -> bytes:
    if answer.status_code != httpx.codes.OK:
        raise UnreadableError(f"the server says {answer.status_code} {answer.reason_phrase}")
    data = bytearray()
    for piece in answer.iter_bytes():
        data += piece
        if len(data) > MOST_BYTES:
            raise UnreadableError(f"longer than {MOST_BYTES} bytes")
        if time.monotonic() > end:
            raise UnreadableError(f"took longer than {SECONDS:g} s")
    return bytes(data)


def _utf8(data: bytes, charset: str | None) -> bytes:
    """Return a text in UTF-8 if only the server says that it is in another encoding."""
    try:
        data.decode()
    except UnicodeDecodeError:
        if charset and codecs.lookup(charset).name != "utf-8":
            charset = "cp1252" if codecs.lookup(charset).name == "iso8859-1" else charset  # as browsers do
            return data.decode(charset, "replace").encode("utf-8-sig")
    return data
