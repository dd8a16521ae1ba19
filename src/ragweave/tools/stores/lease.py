"""The right to write to a collection of a store: one writer at a time, on whatever machine.

Stores have no lock that all of them know, but each can keep a record and list records. A writer
puts a record of its own, lists those of all, and begins only if it is alone; two that come at once
see each other and both give way, so that never both begin. A writer renews its record while it
works. One that died blocks others until its record is too old, unless it ran on this machine, where
its process can be looked for.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.stores.passage_store import PassageStore

PREFIX = "writer/"
_BOOT, _SPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
SECONDS = 90.0
"""Age at which the record of a writer that no longer renews it counts for nothing."""


class Lease:
    """A writer's record, renewed by a thread of its own."""

    def __init__(self, store: PassageStore) -> None:
        """Take the store; `hold` asks for the right."""
        self._store = store
        self.name = f"{PREFIX}{uuid.uuid4().hex}"
        self._done = threading.Event()
        self._renewed = 0.0

    def check(self) -> None:
        """Raise KnowledgeBaseError if the record was not renewed in time, as after a long sleep."""
        if time.monotonic() - self._renewed > SECONDS / 2:
            raise KnowledgeBaseError(
                f"{self._store.address} could not be told in time that it is still being written; "
                "its index is unchanged: try again"
            )

    def renew(self) -> None:
        """Say that the writer is alive."""
        now = time.monotonic()
        values = {"machine": _machine(), "host": socket.gethostname(), "process": os.getpid()}
        values["time"] = time.time()
        self._store.put_record(self.name, values)
        self._renewed = now

    def begin(self) -> None:
        """Take the right to write.

        Raises:
            KnowledgeBaseError: Another writer has it.
        """
        self.renew()
        for name in self._store.records(PREFIX):
            held = None if name == self.name else self._store.record(name)
            if held is None:
                continue
            if _is_dead(held):
                self._store.drop_records([name])
                continue
            self._store.drop_records([self.name])
            raise KnowledgeBaseError(
                f"{self._store.address} is being written by process {held.get('process')} of "
                f"{held.get('host')}; try again when it has finished"
            )

    def keep(self) -> None:
        """Renew the record until `stop`; a store that does not answer is asked again."""
        while not self._done.wait(SECONDS / 6):
            try:
                self.renew()
            except KnowledgeBaseError:
                continue  # `check` sees that it is too old

    def stop(self) -> None:
        """End the renewing."""
        self._done.set()


@contextmanager
def writing_to(store: PassageStore) -> Iterator[Lease]:
    """Hold the right to write.

    Raises:
        KnowledgeBaseError: Another writer, on this machine or another, has it.
    """
    lease = Lease(store)
    lease.begin()
    keeper = threading.Thread(target=lease.keep, name="ragweave-writer", daemon=True)
    keeper.start()
    try:
        yield lease
    finally:
        lease.stop()
        keeper.join()
        store.drop_records([lease.name])


@cache
def _machine() -> str:
    """Name what process numbers are counted in: a machine since its start, or a container of it."""
    told = [socket.gethostname()]
    try:
        told += [_BOOT.read_text("ascii").strip(), str(_SPACE.readlink())]
    except OSError:  # no Linux
        told.append(str(uuid.getnode()))
    return " ".join(told)


def _is_dead(held: Mapping[str, Any]) -> bool:
    if time.time() - float(held.get("time", 0)) > SECONDS:
        return True
    if held.get("machine") != _machine():
        return False
    try:
        os.kill(int(held.get("process", 0)), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    return False
