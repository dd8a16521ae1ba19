"""Keys and passwords: kept out of files, logs and traces.

A model's spec may carry a secret (`api_key=…`, `http://user:password@host`), and so may an error's
text, when a server or client quotes an address or a header in it.
"""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl

_NAME = "(?:keys?|token|secrets?|passwords?|passwd|credentials?|authorization)"
"""How the names of secrets end; `max_tokens` is none."""
_SECRET = re.compile(f"{_NAME}$", re.IGNORECASE)
_IN_TEXT = re.compile(
    r"(?P<before>://)[^\s/]{1,300}@"
    rf"|(?P<name>[?&;][\w.-]{{0,40}}{_NAME}=)[^\s&<>]+"
    r"|(?P<kind>\b(?:Bearer|Basic) )[\w.~+/=-]{6,}"
    r"|\bsk-[\w-]{8,}",
    re.IGNORECASE,
)
_SHORTEST = 8
"""Characters that the value of a variable must have to be looked for in texts."""


def spec_settings(query: str) -> list[tuple[str, str]]:
    """Read `a=1&b=C%2B%2B`; a plus is a plus, as keys in base64 have it, and no space."""
    return parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)


def redacted(text: str) -> str:
    """Return a spec or another text without what must not be written down.

    That are the values of settings that name a secret, users and passwords of addresses, `Authorization` headers, and
    OpenAI's form of keys.
    """
    return _IN_TEXT.sub(_hidden, text)


def without_secrets(text: str) -> str:
    """Return a text as `redacted`, and without the values of the environment's keys."""
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    return redacted(text)


def _hidden(found: re.Match[str]) -> str:
    return "://***@" if found["before"] else f"{found['name'] or found['kind'] or ''}***"
