"""Qdrant's clients, one for each server or folder that this process uses."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

API_KEY = "QDRANT_API_KEY"
"""The environment's variable with a server's key."""
_SECONDS = 60
_DAMAGE = (
    sqlite3.DatabaseError,
    pickle.PickleError,
    json.JSONDecodeError,
    UnicodeDecodeError,
    EOFError,
)
"""What the local mode raises where its files can no longer be read."""
_FOREIGN = (LookupError, TypeError, AttributeError, ImportError)
"""What it raises where they are not as it wrote them: damaged, or of another version."""


class Client:
    """One Qdrant client a place and process: the local mode locks its folder."""

    def __init__(self, place: str) -> None:
        """Take a URL or a folder; it is opened at first use."""
        self.place = place
        self.users = 0
        self.lock = threading.RLock()
        self._open: Any = None

    def get(self) -> Any:
        """Return the open client; to be called under `lock`."""
        if self._open is None:
            from qdrant_client import QdrantClient

            if is_url(self.place):
                self._open = QdrantClient(
                    url=self.place,
                    api_key=os.environ.get(API_KEY) or None,
                    timeout=_SECONDS,
                    check_compatibility=False,
                )
            else:
                self._open = _local(QdrantClient, self.place)
        return self._open

    def release(self) -> None:
        """Close the client if nobody else uses it."""
        with _clients_lock:
            self.users -= 1
            if self.users == 0:
                _clients.pop(self.place, None)
                self.close()  # before another one may open the folder, which this one locks

    def close(self) -> None:
        """Close the client; it is opened again at its next use."""
        with self.lock:
            if self._open is not None:
                self._open.close()
            self._open = None


_clients: dict[str, Client] = {}
_clients_lock = threading.Lock()


@atexit.register
def _close_all() -> None:
    """Close the folders of local modes, which the interpreter no longer can at its very end."""
    for client in list(_clients.values()):
        client.close()


def shared(place: str) -> Client:
    """Return the client of a place, for one more user, who must release it."""
    with _clients_lock:
        client = _clients.setdefault(place, Client(place))
        client.users += 1
        return client


def is_url(place: str) -> bool:
    """Return whether a place is a server, and no folder."""
    return place.startswith(("http://", "https://"))


def _local(make: Callable[..., Any], folder: str) -> Any:
    """Open a folder; raise ValueError where its files cannot be opened, or are damaged."""
    try:
        return make(path=folder)
    except (sqlite3.OperationalError, OSError) as error:
        # Of healthy files too: no permission, a lock, a full disk.
        raise ValueError(f"its files cannot be opened: {error}") from error
    except _DAMAGE as error:
        raise ValueError(
            f"its files are damaged ({_named(error)}); delete the folder, and index again"
        ) from error
    except _FOREIGN as error:
        raise ValueError(
            "its files cannot be opened: they are damaged, or of another version of qdrant-client "
            f"({_named(error)})"
        ) from error


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
