"""The connection to a Ray cluster: one that is running, or one started on this machine.

Ray sends no usage statistics, starts no dashboard and prints nothing: what its nodes report would
mix with a command's output.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from ragweave.errors import MissingExtraError, UsageError

LOCAL = "local"
"""The address that stands for a Ray started on this machine, and ended with the work."""
ADDRESS = f"{LOCAL}, auto, HOST:PORT, or ray://HOST:PORT"
"""What an address may be, in words."""
_ADDRESS = re.compile(r"auto|local|(ray://)?(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+(/.*)?")
_SECONDS = 10.0
"""How long a cluster may take to accept a connection."""


def is_address(text: str) -> bool:
    """Say whether a text is the address of a cluster, or `local`."""
    return _ADDRESS.fullmatch(text) is not None


def check_address(address: str) -> None:
    """Check what can be told of an address without a connection.

    Raises:
        MissingExtraError: Ray is not installed.
        UsageError: The text is no address.
    """
    if not is_address(address):
        raise UsageError(f"--ray {address}: is no address; give {ADDRESS}")
    if find_spec("ray") is None:
        raise MissingExtraError("--ray", "ray")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a Ray cluster; yield the module `ray`.

    A connection that the process has already is used, and left open.

    Args:
        address: `local` starts a Ray on this machine with all its cores; `auto` takes the cluster
            that this machine belongs to (or that RAY_ADDRESS names), `HOST:PORT` one by the
            address of its head, `ray://HOST:PORT` one that this machine does not belong to.

    Raises:
        MissingExtraError: Ray is not installed.
        UsageError: The text is no address, or no cluster answers there.
    """
    check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = importlib.import_module("ray")
    if ray.is_initialized():
        yield ray
        return
    _check_reachable(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
    with _quiet():
        _init(ray, address)
        try:
            yield ray
        finally:
            ray.shutdown()


def _init(ray: Any, address: str) -> None:
    own = {"include_dashboard": False} if address == LOCAL else {}
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if in_main else None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="CRITICAL", **own)
    except (ConnectionError, RuntimeError, ValueError, SystemExit) as error:
        why = " ".join(str(error).split())[:200]
        advice = "" if own else "; start one with `ray start --head`, or give --ray alone"
        raise UsageError(
            f"--ray {address}: no Ray cluster could be used ({why}){advice}"
        ) from error
    finally:
        if handler is not None:  # Ray's own would end the process at once
            signal.signal(signal.SIGTERM, handler)


def _check_reachable(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself would wait for minutes."""
    if ":" not in address:
        return
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), _SECONDS):
            return
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--ray {address}: no Ray cluster answers there within {_SECONDS:.0f} seconds ({error})"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Ray prints of its nodes out of standard output; there is no setting for it."""
    worker = importlib.import_module("ray._private.worker")
    printed = getattr(worker, "print_to_stdstream", None)
    if printed is not None:
        worker.print_to_stdstream = lambda *_args, **_settings: None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if printed is not None:
            worker.print_to_stdstream = printed  # type: ignore[attr-defined]
