"""The keys that callers of a server bring."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from ragweave.errors import UsageError


class Keys:
    """Keys, one of which every call must bring as a bearer token; none: anyone may call."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Take the keys.

        Raises:
            UsageError: One is empty, as of a variable that is not set, or they are no list.
        """
        if isinstance(keys, str):
            raise UsageError("API keys must be a list, not one text: each letter would be a key")
        if not all(key.strip() for key in keys):
            raise UsageError(
                "an API key is empty, so that anyone could call: is the variable that it is read "
                "from set?"
            )
        self._allowed = [key.strip().encode() for key in keys]

    def admit(self, authorization: bytes) -> bool:
        """Return whether a call with this `Authorization` header (empty: none) is let through.

        The scheme is `Bearer` in any case, with one or more blanks behind it (RFC 9110, section 11).
        """
        scheme, _, token = authorization.partition(b" ")
        matches = [secrets.compare_digest(token.lstrip(b" "), key) for key in self._allowed]
        return not self._allowed or (scheme.lower() == b"bearer" and any(matches))
