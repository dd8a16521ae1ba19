"""Addresses of knowledge bases behind a server: `pg:postgresql://host/db#papers`.

An address is a store's name, where it is, and a collection; anything else is a folder. A password
may stand in it, and is never printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from ragweave.errors import UsageError
from ragweave.registry import closest
from ragweave.tools.text.secrets import redacted

DEFAULT_COLLECTION = "ragweave"
_COLLECTION = re.compile(r"[a-z][a-z0-9_]{0,39}")
_STORE = re.compile(r"(?P<store>[a-z][a-z0-9_-]+):(?P<place>.*)", re.DOTALL)
_LOGIN = re.compile(r"://(?P<login>.*)@", re.DOTALL)
"""All that may be user and password, for hiding: a password may hold `@`, `/`, `?` or `#`."""
_HOST = re.compile(r"(?:\[[0-9a-f:.]*\]|[\w.%-]*)(?::\d+)?", re.IGNORECASE)
_SETTING = re.compile(r"[^@=]+=.*", re.DOTALL)
_POSTGRESQL = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class Address:
    """Where a knowledge base is, if not in a folder; its text leaves out user and password."""

    store: str
    """Name of the store: one of `STORES`."""
    place: str
    """A URL, or the folder of a store that runs embedded; it may contain a password."""
    collection: str = DEFAULT_COLLECTION

    def __post_init__(self) -> None:
        """Check a URL of HTTP.

        Raises:
            UsageError: Its host or port cannot be read, or cannot be told from its password.
        """
        if not self.place.startswith(("http://", "https://")):
            return
        unclear = UsageError(
            f"{self}: in user, password and path write @ as %40, / as %2F, ? as %3F and # as %23"
        )
        if not self.login_is_clear:
            raise unclear
        try:
            _ = urlsplit(self.bare).port
        except ValueError as error:
            if self.may_quote_password:
                raise unclear from None
            raise UsageError(
                f"{self}: must look like {self.store}:https://HOST:PORT#COLLECTION ({error})"
            ) from error

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
        place, mark, collection = found["place"].rpartition("#")
        if not mark:
            place, collection = found["place"], DEFAULT_COLLECTION
        if not place:
            raise UsageError(f"{found['store']}: needs a URL: {found['store']}:URL#COLLECTION")
        if not _COLLECTION.fullmatch(collection):
            # A # may stand in a password.
            secret = "@" in collection or bool(_passwords(place))
            shown = "" if secret else f", not {collection!r}"
            raise UsageError(
                "a collection's name has small letters, digits and underscores, at most 40, and "
                f"begins with a letter{shown}; it is what stands behind the last #"
            )
        return cls(found["store"], place, collection)

    @property
    def name(self) -> str:
        """The collection, as reports call the knowledge base."""
        return self.collection

    @property
    def spec(self) -> str:
        """The address as it was given, with its password."""
        return f"{self.store}:{self.place}#{self.collection}"

    @property
    def login(self) -> str:
        """User and password as a client reads them in the place, or an empty text."""
        return _split(self.place)[0]

    @property
    def bare(self) -> str:
        """The place without user and password."""
        login, host, rest = _split(self.place)
        return f"{self.place.partition('://')[0]}://{host}{rest}" if login else self.place

    @property
    def login_is_clear(self) -> bool:
        """Whether no `@` leaves it open where user and password end and the host begins."""
        login, host, rest = _split(self.place)
        early = re.split("[?#]", login, maxsplit=1)[0]
        if early != login and _is_hosts(early):
            return False
        if "@" not in rest:
            return True
        path, _, settings = rest.partition("?")
        in_path = "@" in path and (":" in login or "#" in path)
        odd = any("@" in one and not _SETTING.fullmatch(one) for one in settings.split("&"))
        return _is_hosts(host) and not (in_path or odd or "#" in settings)

    @property
    def may_quote_password(self) -> bool:
        """Whether an error about the URL may quote part of what is perhaps a password."""
        return "@" in _split(self.place)[2]

    @property
    def passwords(self) -> list[str]:
        """Passwords and keys in the address, as they stand there and decoded, the longest first."""
        found = _passwords(self.place)
        return sorted({*found, *map(unquote, found)}, key=len, reverse=True)

    @property
    def has_password(self) -> bool:
        """Whether the address holds a password or key, or what may be one."""
        return bool(self.passwords)

    @property
    def sends_password(self) -> bool:
        """Whether a client finds a password or key in the address."""
        return bool(self.login.partition(":")[2] or _of_settings(self.place))

    def settings(self, *known: str) -> dict[str, str]:
        """Return the settings of a URL of HTTP, which stand behind its `?`.

        Args:
            *known: The names that there are.

        Raises:
            UsageError: There is another one; the text names it, the closest one, and no value.
        """
        given = parse_qs(urlsplit(self.bare).query, keep_blank_values=True)
        for name in given:
            if name not in known:
                shown = "" if self.may_quote_password else f" {name!r}{closest(name, known)}"
                takes = f"the only ones are: {', '.join(known)}" if known else "there are none"
                raise UsageError(f"{self.store}: unknown setting{shown} in the URL; {takes}")
        return {name: values[0] for name, values in given.items()}

    def __str__(self) -> str:
        """Return the address without user, password and keys."""
        return f"{self.store}:{hidden(self.place)}#{self.collection}"

    __repr__ = __str__


def hidden(text: str) -> str:
    """Return a place, or a text that may be a misspelt address, without user, password and keys."""
    login, bare = _parted(text)
    try:
        if not _of_settings(login):
            return _marked(redacted(bare)) if "@" in _split(text)[2] else redacted(bare)
    except ValueError:  # no URL
        pass
    # A setting with an @ in it: where it ends cannot be told.
    return f"{text.partition('://')[0]}://***"


def _marked(shown: str) -> str:
    """Return a URL that says that something is left out: what follows may not be the host."""
    return shown.replace("://", "://***@", 1)


def _parted(text: str) -> tuple[str, str]:
    """Return all of a URL that may be user and password, and the URL without it."""
    found = _LOGIN.search(text)
    if found is None:
        return "", text
    return found["login"], f"{text[: found.start()]}://{text[found.end() :]}"


def _split(place: str) -> tuple[str, str, str]:
    """Return user and password, host and port, and what follows, as clients read them."""
    rest = place.partition("://")[2]
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" not in authority and place.startswith(_POSTGRESQL):
        # libpq takes ? and # within a password.
        longer = rest.partition("/")[0]
        authority = longer if "@" in longer else authority
    login, _, host = authority.rpartition("@")
    return login, host, rest[len(authority) :]


def _is_hosts(text: str) -> bool:
    """Return whether a text can be hosts with their ports."""
    return all(map(_HOST.fullmatch, text.split(",")))


def _passwords(place: str) -> list[str]:
    """Return what may be passwords and keys of a place, as they stand there."""
    logins = (_parted(place)[0], _split(place)[0])
    found = [login.partition(":")[2] for login in logins]
    return [one for one in (*found, *_of_settings(place)) if one]


def _of_settings(text: str) -> list[str]:
    """Return the values of a URL's settings that name a password or key."""
    settings = (part.partition("=") for part in text.partition("?")[2].split("&"))
    secret = ("password", "key", "token")
    return [
        value for name, _, value in settings if any(one in unquote(name).lower() for one in secret)
    ]


Place = Path | Address
"""Where a knowledge base is: a folder, or behind an address."""


def without_slash(url: str) -> str:
    """Return a URL without the slash at its end, so that paths can be put behind it."""
    return url.rstrip("/")
