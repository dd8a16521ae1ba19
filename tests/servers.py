"""Servers in processes of their own on 127.0.0.1."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def free_port() -> int:
    """Return a port on which no server listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def wait_for(port: int, server: subprocess.Popen[Any], log: Callable[[], object] = str) -> None:
    """Wait until a process listens on a port; if it ends before, `log` says why."""
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert server.poll() is None, log()
        time.sleep(0.1)


@contextmanager
def ragweave_served(*args: str) -> Iterator[tuple[str, list[str]]]:
    """Run `ragweave serve`; yield its address, once it listens, and what it has printed."""
    command = [sys.executable, "-m", "ragweave", "serve", *args, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            lines = [server.stderr.readline()]
            while lines[-1] and not (match := re.match(r"serving .* at (http://\S+:(\d+))/v1$", lines[-1])):
                lines.append(server.stderr.readline())
            assert match, lines
            wait_for(int(match[2]), server, server.stderr.read)
            yield match[1], lines
        finally:
            server.terminate()
    assert server.returncode in (0, -15)
