"""What is written down of a model: its spec without keys."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

_SECRET = re.compile(r"key|token$|secret|password|passwd|credential|authorization", re.IGNORECASE)
_COUNTS = re.compile(r"(?:max|min|n)_|_(?:count|limit)$|tokens$", re.IGNORECASE)


def redacted(spec: str) -> str:
    """Return a spec without what must not be written down: keys, tokens, passwords in addresses.

    A setting that names a secret loses its value; an address loses its user and password, and its
    own settings are treated alike.
    """
    head, mark, query = spec.partition("?")
    if not mark:
        return _address(head) if "://" in head else head
    kept = [
        f"{name}={'***' if _is_secret(name) else _value(value)}"
        for name, value in parse_qsl(query, keep_blank_values=True)
    ]
    return f"{_address(head) if '://' in head else head}?{'&'.join(kept)}"


def _is_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _COUNTS.search(name)


def _value(value: str) -> str:
    shown = _address(value) if "://" in value else value
    return quote(shown, safe=":/*@,;[]{}\"'+.~-_ ")


def _address(text: str) -> str:
    parts = urlsplit(text)
    host = parts.netloc.rpartition("@")[2]
    query = "&".join(
        f"{name}={'***' if _is_secret(name) else value}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    return urlunsplit((parts.scheme, host, parts.path, query, parts.fragment))
