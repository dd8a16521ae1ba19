"""Connections to one PostgreSQL database, each used by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.stores.address import Address
from ragweave.tools.text.secrets import without_secrets

_SECONDS = 10
"""How long a server may take to answer a connection."""


class Do:
    """Runs statements on one connection."""

    def __init__(self, cursor: Any) -> None:
        """Take a cursor of psycopg's."""
        self.cursor = cursor

    def __call__(self, statement: str, values: Any = None) -> Any:
        """Run a statement; return the cursor with its result."""
        return self.cursor.execute(statement, values)


class Connections:
    """Lends connections, opened when needed."""

    def __init__(self, address: Address) -> None:
        """Take the address; nothing is opened yet."""
        self._address = address
        self._idle: list[Any] = []
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[Do]:
        """Lend a connection for one transaction.

        Raises:
            KnowledgeBaseError: The server does not answer, refuses, or fails.
        """
        with self._lent() as connection, connection.transaction(), connection.cursor() as cursor:
            yield Do(cursor)

    def vacuum(self, *tables: str) -> None:
        """Bring the planner's statistics and the map of pages that all can see up to date."""
        with self._lent() as connection:
            for table in tables:
                connection.execute(f"VACUUM (ANALYZE) {table}")

    @contextmanager
    def _lent(self) -> Iterator[Any]:
        import psycopg

        try:
            with self._lock:
                held = self._idle.pop() if self._idle else None
            connection = held or self._connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            with self._lock:
                self._idle.append(connection)
        except psycopg.OperationalError as error:
            raise KnowledgeBaseError(
                f"{self._address} cannot be reached: {one_line(error)}"
            ) from error
        except psycopg.Error as error:
            raise KnowledgeBaseError(
                f"{self._address} cannot be used: {one_line(error)}"
            ) from error

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def _connect(self) -> Any:
        import psycopg

        place = self._address.place
        more: dict[str, Any] = {}
        if "connect_timeout" not in place:
            more["connect_timeout"] = _SECONDS
        return psycopg.connect(
            place, autocommit=True, application_name="ragweave", client_encoding="utf8", **more
        )


def one_line(error: BaseException) -> str:
    """Return the text of an error on one line, without secrets."""
    return without_secrets(" ".join(str(error).split())[:300])
