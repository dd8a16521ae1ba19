"""Web pages by their addresses, within bounds of time and size, and not from private networks.

An address that the user names may be anywhere. A redirect may lead to a private address only on the
same host, and only where that host was private to begin with; otherwise a page could make a server
read its neighbours. Each name is looked up once, and the connection goes to the address that was
checked: nothing is sent before the check, and a name cannot change its address after it.
"""

from __future__ import annotations

import codecs
import contextlib
import ipaddress
import socket
import time
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx

from ragweave.errors import UsageError
from ragweave.tools.knowledge.passages import UnreadableError

SECONDS = 30.0
"""Longest time that a page may take, redirects included."""
MOST_BYTES = 20_000_000
"""Longest page."""
_REDIRECTS = 5
_HEADERS = {"User-Agent": "ragweave", "Accept-Encoding": "gzip"}
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SUFFIXES = {
    "text/html": ".html",
    "application/xhtml+xml": ".xhtml",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "application/json": ".json",
    "application/pdf": ".pdf",
}


def clean_url(url: str) -> str:
    """Return an address without its fragment.

    Raises:
        UsageError: It not the address of a web page, or holds a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url}: not the address of a web page")
    if parts.username or parts.password:
        raise UsageError("an address with a password is not read: sources are stored as plain text")
    return urldefrag(url)[0]


def fetch(url: str, *, allow_private: bool = False) -> tuple[bytes, str]:
    """Return the bytes of a page and the suffix of files of its type.

    Args:
        url: The address.
        allow_private: Whether redirects may lead to private addresses of other hosts.

    Raises:
        UsageError: `url` is no address.
        UnreadableError: It cannot be reached, is refused, too long, too slow or of another type.
    """
    here = clean_url(url)
    home = ""  # the host of `url`, where its address is private
    end = time.monotonic() + SECONDS
    with httpx.Client(timeout=10, follow_redirects=False, trust_env=False) as client:
        for number in range(_REDIRECTS + 1):
            try:
                target = httpx.URL(here)
                address = _look_up(target)
                if not _is_public(address):
                    if number == 0:
                        home = urlsplit(here).netloc
                    elif not allow_private and urlsplit(here).netloc != home:
                        raise UnreadableError(f"redirects to a private address, {target.host}")
                request = client.build_request(
                    "GET",
                    target.copy_with(host=address),
                    headers={**_HEADERS, "Host": target.netloc.decode("ascii")},
                    extensions={"sni_hostname": target.raw_host.decode("ascii")},
                )
                with contextlib.closing(client.send(request, stream=True)) as answer:
                    if not answer.is_redirect:
                        return _utf8(_body(answer, end), answer), _suffix(answer)
                    here = clean_url(urljoin(here, answer.headers["Location"]))
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, KeyError) as error:
                reason = " ".join(str(error).split())[:100] or type(error).__name__
                raise UnreadableError(f"cannot be reached ({reason})") from error
    raise UnreadableError(f"redirects more than {_REDIRECTS} times")


def _look_up(url: httpx.URL) -> str:
    """Return the address of a URL's host."""
    port = url.port or (443 if url.scheme == "https" else 80)
    found = socket.getaddrinfo(url.raw_host.decode("ascii"), port, type=socket.SOCK_STREAM)
    found.sort(key=lambda one: one[0] != socket.AF_INET)  # IPv6 has no route on many machines
    return str(found[0][4][0])


def _is_public(text: str) -> bool:
    """Return whether an address is on the public internet, and so is one that it stands for."""
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.is_global if inner is None else inner.is_global


def _body(answer: httpx.Response, end: float) -> bytes:
    if answer.status_code != httpx.codes.OK:
        raise UnreadableError(f"the server says {answer.status_code} {answer.reason_phrase}")
    coding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("gzip", "identity"):  # others may unpack one block to gigabytes
        raise UnreadableError(f"compressed by {coding}, which was not asked for")
    parts, size = [], 0
    for part in answer.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise UnreadableError(f"longer than {MOST_BYTES} bytes")
        if time.monotonic() > end:
            raise UnreadableError(f"took longer than {SECONDS:g} s")
    return b"".join(parts)


def _utf8(data: bytes, answer: httpx.Response) -> bytes:
    """Return a text in UTF-8 where the server alone says what its encoding is."""
    try:
        charset = codecs.lookup(answer.charset_encoding or "utf-8").name
        charset = "cp1252" if charset in ("iso8859-1", "ascii") else charset
        data.decode()
    except LookupError:
        return data
    except UnicodeDecodeError:
        if charset != "utf-8":
            return codecs.BOM_UTF8 + data.decode(charset, "replace").encode()
    return data


def _suffix(answer: httpx.Response) -> str:
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in _SUFFIXES:
        raise UnreadableError(f"of the type {kind or 'unknown'}, which is not read")
    return _SUFFIXES[kind]
