"""Addresses of knowledge bases behind a server: `pg:postgresql://host/db#papers`.

An address is a store's name, where it is, and a collection; anything else is a folder. A password
may stand in it, and is never printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from ragweave.errors import UsageError
from ragweave.tools.text.secrets import redacted

DEFAULT_COLLECTION = "ragweave"
_COLLECTION = re.compile(r"[a-z][a-z0-9_]{0,39}")
_STORE = re.compile(r"(?P<store>[a-z][a-z0-9_-]+):(?P<place>.*)", re.DOTALL)


@dataclass(frozen=True)
class Address:
    """Where a knowledge base is, if not in a folder; its text leaves out user and password."""

    store: str
    """Name of the store: one of `STORES`."""
    place: str
    """A URL, or the folder of a store that runs embedded; it may contain a password."""
    collection: str = DEFAULT_COLLECTION

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `STORE:PLACE#COLLECTION`.

        Raises:
            UsageError: The place is missing, or the collection's name cannot be used.
        """
        found = _STORE.fullmatch(text.strip())
        if found is None:
            raise UsageError(
                f"an address must look like STORE:URL#COLLECTION, not {hidden(text)!r}"
            )
        place, mark, collection = found["place"].partition("#")
        if not place:
            raise UsageError(f"{found['store']}: needs a URL: {found['store']}:URL#COLLECTION")
        if mark and not _COLLECTION.fullmatch(collection):
            raise UsageError(
                f"a collection's name has small letters, digits and underscores, at most 40, and "
                f"begins with a letter, not {collection!r}"
            )
        return cls(found["store"], place, collection or DEFAULT_COLLECTION)

    @property
    def name(self) -> str:
        """The collection, as reports call the knowledge base."""
        return self.collection

    @property
    def spec(self) -> str:
        """The address as it was given, with its password."""
        return f"{self.store}:{self.place}#{self.collection}"

    @property
    def has_password(self) -> bool:
        """Whether the address holds a password or key."""
        parts = urlsplit(self.place)
        named = dict(parse_qsl(parts.query, keep_blank_values=True))
        return bool(parts.password) or any(
            word in name.lower() for name in named for word in ("password", "key", "token")
        )

    def __str__(self) -> str:
        """Return the address without user, password and keys."""
        return f"{self.store}:{redacted(self.place)}#{self.collection}"

    __repr__ = __str__


def hidden(text: str) -> str:
    """Return a text that may be a misspelt address without its user and password."""
    return re.sub(r"://[^\s/]*@", "://", text)


Place = Path | Address
"""Where a knowledge base is: a folder, or behind an address."""


def without_slash(url: str) -> str:
    """Return a URL without the slash at its end, so that paths can be put behind it."""
    return url.rstrip("/")
