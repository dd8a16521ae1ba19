"""The HTTP server of `ragweave serve` and of the app that `ragweave new` makes."""

import asyncio
import errno
import socket
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragweave.errors import UsageError

HEAD_SECONDS = 10.0
"""Maximum seconds until the head of a request has arrived; after them, its connection is closed."""


class TimedHeads(H11Protocol):
    """A connection that is closed if the head of a request does not arrive in time; a head has at most 64 KiB."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._time_head()

    def data_received(self, data: bytes) -> None:
        """Read on; stop waiting once a head is complete."""
        super().data_received(data)
        self._time_head()

    def _time_head(self) -> None:
        waits = self.conn.their_state is h11.IDLE
        if waits and self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        elif not waits and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def free_address(host: str, port: int) -> tuple[int, str]:
    """Return the port to listen on, a free one if `port` is 0, and the server's URL.

    Raises:
        UsageError: The address is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as listening:
            port = listening.getsockname()[1]
    except OSError as error:
        taken = "another program is listening; choose another port with --port (an app: PORT), 0 for any"
        reason = taken if error.errno == errno.EADDRINUSE else error.strerror or error
        raise UsageError(f"cannot listen on {host}, port {port}: {reason}") from error
    return port, f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run_server(app: ASGIApp | str, host: str, port: int, workers: int = 1) -> None:
    """Serve an app until it is stopped; for several workers, `app` is the import path of a function that each calls."""
    uvicorn.run(
        app,
        factory=isinstance(app, str),
        host=host,
        port=port,
        workers=workers,
        http=TimedHeads,
        ws="none",
        timeout_keep_alive=15,  # longer than the clients', so that none sends into a connection that is being closed
        log_level="warning",
    )
