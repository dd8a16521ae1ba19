"""One web page by its address, within bounds of time and size; nothing is followed but redirects.

The address that the user names may be anywhere. A redirect to another host may not lead to a private
address, so that no page can make a server of ours read its neighbours: the address is checked on the
connection itself, after the name was looked up and before anything is asked, which leaves a name
that changes its address no gap.
"""

from __future__ import annotations

import codecs
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

from ragweave import __version__
from ragweave.errors import UsageError
from ragweave.tools.knowledge.decoding import as_browsers_read
from ragweave.tools.knowledge.markup import UnreadableError

SECONDS = 30.0
"""Longest time that a page may take, redirects included."""
MOST_BYTES = 20_000_000
"""Longest page."""
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_SUFFIXES = {
    "text/html": ".html",
    "application/xhtml+xml": ".xhtml",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "application/pdf": ".pdf",
}
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Page:
    """What an address gave."""

    url: str
    """The address that was asked for, without its fragment."""
    data: bytes
    suffix: str
    """The suffix of files of its type, such as `.html`."""

    @property
    def file_name(self) -> str:
        """Return a name for a file of it: the last part of its path, else its host."""
        parts = urlsplit(self.url)
        last = parts.path.rstrip("/").rpartition("/")[2] or parts.hostname or ""
        name = "".join(one if one.isalnum() or one in "-_." else "_" for one in last)[:80]
        return f"{name.removesuffix(self.suffix).lstrip('.') or 'page'}{self.suffix}"


def is_url(path: str) -> bool:
    """Return whether a path is the address of a web page."""
    return path.lower().startswith(("https://", "http://"))


def clean_url(url: str) -> str:
    """Return an address without its fragment.

    Raises:
        UsageError: It is no address, or holds a password.
    """
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise UsageError(f"{url}: is no address ({error})") from None
    if not named or parts.scheme not in _PORTS:
        raise UsageError(f"{url}: is no address of a web page")
    if parts.username or parts.password:
        raise UsageError("an address with a password is not read: sources are stored as plain text")
    return urlunsplit(parts._replace(fragment=""))


def fetch(
    url: str,
    *,
    private: bool = False,
    seconds: float = SECONDS,
    most_bytes: int = MOST_BYTES,
) -> Page:
    """Read a web page.

    Args:
        url: The address.
        private: Whether redirects may lead to private addresses of other hosts.
        seconds: Longest time, redirects included.
        most_bytes: Longest page.

    Raises:
        UsageError: `url` is no address.
        UnreadableError: It cannot be reached, is refused, too long, too slow, or of a type that is
            not read.
    """
    asked = clean_url(url)
    end = time.monotonic() + seconds
    here, first = asked, urlsplit(asked)
    for _ in range(_MOST_REDIRECTS + 1):
        parts = urlsplit(here)
        trusted = private or _place(parts) == _place(first) or _secured(first, parts)
        try:
            with _answer(parts, end, trusted=trusted) as answer:
                if answer.status not in _REDIRECTS:
                    return Page(asked, _body(answer, end, most_bytes), _suffix(answer))
                target = answer.headers.get("Location") or ""
        except TimeoutError:
            raise UnreadableError(f"took longer than {seconds:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() >= end:
                raise UnreadableError(f"took longer than {seconds:g} s") from None
            raise UnreadableError(f"cannot be reached ({_line(error)})") from error
        try:
            here = clean_url(urljoin(here, target))
        except (UsageError, ValueError):
            raise UnreadableError(f"redirects to what is no web page: {target[:100]!r}") from None
    raise UnreadableError(f"redirects more than {_MOST_REDIRECTS} times")


def _place(parts: SplitResult) -> tuple[str | None, int]:
    return parts.hostname, parts.port or _PORTS[parts.scheme]


def _secured(first: SplitResult, now: SplitResult) -> bool:
    """Return whether a redirect goes from a host's http to its https."""
    standard = {_place(first)[1], _place(now)[1]} == {80, 443}
    return first.hostname == now.hostname and standard and now.scheme == "https"


@contextmanager
def _answer(parts: SplitResult, end: float, *, trusted: bool) -> Iterator[http.client.HTTPResponse]:
    host, port = _place(parts)
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    if parts.scheme == "https":
        context = ssl.create_default_context()
        link: http.client.HTTPConnection = http.client.HTTPSConnection(
            host or "", port, timeout=left, context=context
        )
    else:
        link = http.client.HTTPConnection(host or "", port, timeout=left)
    # Each read may take `left`, and a slow server can cause many: the connection ends in time.
    clock = threading.Timer(left, _hang_up, (link,))
    clock.daemon = True
    clock.start()
    try:
        link.connect()
        _check_peer(link, trusted=trusted)
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
        headers = {"User-Agent": f"ragweave/{__version__}", "Accept-Encoding": "identity"}
        link.request("GET", f"{path}?{query}" if query else path, headers=headers)
        yield link.getresponse()
    finally:
        clock.cancel()
        link.close()


def _hang_up(link: http.client.HTTPConnection) -> None:
    try:
        if link.sock is not None:
            link.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended by itself


def _check_peer(link: http.client.HTTPConnection, *, trusted: bool) -> None:
    peer = link.sock.getpeername()[0]
    address = ipaddress.ip_address(peer.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if not trusted and not address.is_global:
        raise UnreadableError(
            f"redirects to {link.host}, a private address; --allow-private reads it all the same"
        )


def _body(answer: http.client.HTTPResponse, end: float, most: int) -> bytes:
    if answer.status != http.client.OK:
        raise UnreadableError(f"the server says {answer.status} {answer.reason}"[:100])
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(65_536):
        size += len(part)
        if size > most:
            raise UnreadableError(f"longer than {most} bytes")
        if time.monotonic() >= end:
            raise TimeoutError
        parts.append(part)
    if time.monotonic() >= end:  # hung up on, it looks complete
        raise TimeoutError
    if answer.length:
        raise UnreadableError("broke off before its end")
    return _decoded(answer, b"".join(parts))


def _decoded(answer: http.client.HTTPResponse, data: bytes) -> bytes:
    """Return text as UTF-8 that says so, where the server names an encoding: a file has no headers.

    The server's word counts more than that of the page, but where it says ASCII of valid UTF-8.
    """
    charset = answer.headers.get_content_charset()
    if charset is None or answer.headers.get_content_maintype() != "text":
        return data
    if charset in ("us-ascii", "ascii") and _is_utf8(data):
        charset = "utf-8"
    text = as_browsers_read(data, charset)
    encoded = data if text is None else text.encode("utf-8", "replace")
    if text is None or (encoded == data and data.isascii()):
        return data
    return codecs.BOM_UTF8 + encoded


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _suffix(answer: http.client.HTTPResponse) -> str:
    kind = answer.headers.get_content_type()
    if kind not in _SUFFIXES:
        raise UnreadableError(f"of the type {kind}, which is not read")
    return _SUFFIXES[kind]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__
