"""Web pages by their addresses, within limits on time and size."""

from __future__ import annotations

import ipaddress
import mimetypes
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import httpx

from ragweave.errors import UsageError
from ragweave.tools.knowledge.settings import Notice

SECONDS = 30.0
"""Longest time that a page may take, redirects included."""
MOST_BYTES = 20_000_000
"""Longest page."""


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
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            notices.append(Notice(url, f"cannot be fetched ({reason})"))
        else:
            name = url.rstrip("/").rpartition("/")[2] or "page"
            pages.append((url, Path(name).with_suffix(suffix), data))
    return pages, notices


def fetch(url: str) -> tuple[bytes, str]:
    """Return the bytes of a page, and the suffix of files of its type.

    The user may name any address. A redirect must not lead from there to a private address of
    another host: a page could make this machine read its neighbours.

    Raises:
        httpx.HTTPError: The page cannot be reached, or is refused.
        ValueError: It is too long or too slow, or redirects to a private address.
    """
    end = time.monotonic() + SECONDS

    def check(request: httpx.Request) -> None:
        if request.url.netloc != httpx.URL(url).netloc and not _is_public(request.url.host):
            raise ValueError(f"it redirects to a private address, {request.url.host}")

    data = bytearray()
    client = httpx.Client(
        timeout=10,
        trust_env=False,
        follow_redirects=True,
        max_redirects=5,
        headers={"User-Agent": "ragweave", "Accept-Encoding": "gzip"},
        event_hooks={"request": [check]},
    )
    with client, client.stream("GET", url) as answer:
        answer.raise_for_status()
        for piece in answer.iter_bytes():
            data += piece
            if len(data) > MOST_BYTES or time.monotonic() > end:
                raise ValueError(f"longer than {MOST_BYTES} bytes, or took longer than {SECONDS:g} s")
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return bytes(data), ".html" if "html" in kind else mimetypes.guess_extension(kind) or ""


def _is_public(host: str) -> bool:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_global for one in found)
