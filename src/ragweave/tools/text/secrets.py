"""Keys and passwords: kept out of files, logs and traces.

A model's spec may carry a secret (`api_key=…`, `http://user:password@host`), and so may an error's
text, when a server or client quotes an address or a header in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

_SECRET = re.compile(r"key|token$|secret|password|passwd|credential|authorization", re.IGNORECASE)
_COUNTS = re.compile(r"(?:max|min|n)_|_(?:count|limit)$|tokens$", re.IGNORECASE)
_IN_TEXT = re.compile(
    r"(?P<before>://)[^\s/@]{1,300}@"
    r"|(?P<name>[?&;][\w.-]{0,40}(?:key|token|secret|password|passwd)[\w.-]{0,40}=)[^\s&\"'<>]+"
    r"|(?P<kind>\b(?:Bearer|Basic) )[\w.~+/=-]{6,}"
    r"|\bsk-[\w-]{8,}",
    re.IGNORECASE,
)
_SHORTEST = 8
"""Characters that the value of a variable must have to be looked for in texts."""


def spec_settings(query: str) -> list[tuple[str, str]]:
    """Read `a=1&b=C%2B%2B`; a plus is a plus, as keys in base64 have it, and no space."""
    return parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)


def redacted(spec: str) -> str:
    """Return a spec without what must not be written down: keys, tokens, passwords in addresses.

    A setting that names a secret loses its value; an address loses its user and password, and its
    own settings are treated alike.
    """
    head, mark, query = spec.partition("?")
    if not mark:
        return _address(head) if "://" in head else head
    kept = [f"{name}={'***' if _is_secret(name) else _value(value)}" for name, value in spec_settings(query)]
    return f"{_address(head) if '://' in head else head}?{'&'.join(kept)}"


def without_secrets(text: str, known: Collection[str] = ()) -> str:
    """Return a text without keys and passwords, those `known` among them.

    Covers the values of the environment's variables of keys (`…_KEY`, `…_TOKEN`, …), passwords
    and settings of addresses, `Authorization` headers, and OpenAI's form of keys.
    """
    for value in known:
        text = text.replace(value, "***")
    for name, value in os.environ.items():
        if _is_secret(name) and len(value) >= _SHORTEST and value in text:
            text = text.replace(value, "***")
    return _IN_TEXT.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    if found["before"]:
        return "://***@"
    return f"{found['name'] or found['kind'] or ''}***"


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
