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
            connection = self._idle_one() or self._connect()
            try:
                yield connection
            except BaseException:
                if connection.closed:
                    self.close()  # the server has gone: for the others too
                connection.close()
                raise
            with self._lock:
                self._idle.append(connection)
        except psycopg.Error as error:
            verb = "cannot be reached" if _is_away(error) else "cannot be used"
            raise KnowledgeBaseError(
                f"{self._address} {verb}: {one_line(error, self._address)}"
            ) from error

    def _idle_one(self) -> Any:
        """Return an idle connection that the server has not closed meanwhile, or None."""
        with self._lock:
            while self._idle:
                held = self._idle.pop()
                if _is_alive(held):
                    return held
                held.close()
        return None

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


def _is_alive(connection: Any) -> bool:
    """Return whether a connection is open, as far as is known here: nothing is sent."""
    import psycopg

    try:
        connection.pgconn.consume_input()  # what a server says when it closes
        connection.pgconn.consume_input()  # the end behind it
    except psycopg.Error:
        return False
    return not connection.closed


def _is_away(error: Any) -> bool:
    """Return whether a server did not answer, is starting or shutting down, or hung up."""
    import psycopg

    state = error.sqlstate
    return isinstance(error, psycopg.OperationalError) and (
        state is None or state.startswith(("08", "57P"))
    )


def one_line(error: BaseException, address: Address) -> str:
    """Return the text of an error on one line, without secrets."""
    return " ".join(without_secrets(str(error), address.passwords).split())[:300]
