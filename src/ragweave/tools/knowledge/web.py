"""Web pages by their addresses, within limits on time and size.

The user may name any address. A redirect must not lead from there to a private address of another host:
a page could make this machine read its neighbours. Each name is looked up once, and the connection goes
to the address that was checked.
"""

from __future__ import annotations

import codecs
import contextlib
import ipaddress
import mimetypes
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx

from ragweave.errors import UsageError
from ragweave.tools.knowledge.passages import UnreadableError
from ragweave.tools.knowledge.settings import Notice

SECONDS = 30.0
"""Longest time that a page may take, redirects included."""
MOST_BYTES = 20_000_000
"""Longest page."""
_REDIRECTS = 5
_HEADERS = {"User-Agent": "ragweave", "Accept-Encoding": "gzip"}


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

    Raises:
        UnreadableError: The page cannot be reached, is refused, too long or too slow.
    """
    here = clean_url(url)
    home = ""  # the host of `url`, if its address is private
    end = time.monotonic() + SECONDS
    try:
        with httpx.Client(timeout=10, trust_env=False) as client:
            for number in range(_REDIRECTS + 1):
                target = httpx.URL(here)
                address = _look_up(target)
                if not _is_public(address):
                    home = home if number else here
                    if urlsplit(here).netloc != urlsplit(home).netloc:
                        raise UnreadableError(f"redirects to a private address, {target.host}")
                request = client.build_request(
                    "GET",
                    target.copy_with(host=address),
                    headers={**_HEADERS, "Host": target.netloc.decode()},
                    extensions={"sni_hostname": target.raw_host.decode()},
                )
                with contextlib.closing(client.send(request, stream=True)) as answer:
                    if not answer.is_redirect:
                        return _body(answer, end), _suffix(answer)
                    here = clean_url(urljoin(here, answer.headers["Location"]))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, LookupError) as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise UnreadableError(f"cannot be reached ({reason})") from error
    raise UnreadableError(f"redirects more than {_REDIRECTS} times")


def _look_up(url: httpx.URL) -> str:
    """Return the address of a URL's host."""
    found = socket.getaddrinfo(url.raw_host.decode(), url.port or url.scheme, type=socket.SOCK_STREAM)
    found.sort(key=lambda one: one[0] != socket.AF_INET)  # IPv6 has no route on many machines
    return str(found[0][4][0])


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
    return (inner or address).is_global


def _body(answer: httpx.Response, end: float) -> bytes:
    if answer.status_code != httpx.codes.OK:
        raise UnreadableError(f"the server says {answer.status_code} {answer.reason_phrase}")
    coding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("gzip", "identity"):  # others may unpack one block to gigabytes
        raise UnreadableError(f"compressed by {coding}, which was not asked for")
    data = bytearray()
    for piece in answer.iter_bytes():
        data += piece
        if len(data) > MOST_BYTES:
            raise UnreadableError(f"longer than {MOST_BYTES} bytes")
        if time.monotonic() > end:
            raise UnreadableError(f"took longer than {SECONDS:g} s")
    return _utf8(bytes(data), answer.charset_encoding)


def _utf8(data: bytes, charset: str | None) -> bytes:
    """Return a text in UTF-8 if only the server says that it is in another encoding."""
    try:
        data.decode()
    except UnicodeDecodeError:
        if charset and codecs.lookup(charset).name != "utf-8":
            charset = "cp1252" if codecs.lookup(charset).name == "iso8859-1" else charset  # as browsers do
            return data.decode(charset, "replace").encode("utf-8-sig")
    return data


def _suffix(answer: httpx.Response) -> str:
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return ".html" if "html" in kind else mimetypes.guess_extension(kind) or ""
