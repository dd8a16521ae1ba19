"""The right to write to a collection of a store: one writer at a time, on whatever machine.

Stores have no lock that all of them know, but each can keep a record and list records. A writer
puts a record of its own, lists those of all, and begins only if it is alone; two that come at once
see each other and both give way, so that never both begin. A writer renews its record while it
works. One that died blocks others until its record is too old and does not change while they watch
it (clocks differ), unless it ran on this machine, where its process can be looked for (not on
Windows, where looking for a process with a signal interrupts it).

A writer that was only asleep may wake up when another has taken over. So it looks at its record
before it stores anything, and takes back what it had stored where the record is gone.
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
_WINDOWS = os.name == "nt"
_RENEWED = SECONDS / 6
"""How often a writer renews its record."""


class LostLeaseError(KnowledgeBaseError):
    """Another writer took the right to write over: what this one stored must not stay."""


class Lease:
    """A writer's record, renewed by a thread of its own."""

    def __init__(self, store: PassageStore) -> None:
        """Take the store; `begin` asks for the right."""
        self._store = store
        self.token = uuid.uuid4().hex
        """Names this writer; no other has it."""
        self.name = f"{PREFIX}{self.token}"
        self._done = threading.Event()
        self._renewed = 0.0

    def check(self) -> None:
        """Make sure that this writer still has the right to write.

        Raises:
            LostLeaseError: Another writer dropped the record, for it was too old.
            KnowledgeBaseError: The record was not renewed in time, as after a long sleep.
        """
        if self._store.record(self.name) is None:
            raise LostLeaseError(
                f"{self._store.address} was taken over by another writer, which had not heard from "
                "this one in time; nothing of this write was kept: try again"
            )
        if time.monotonic() - self._renewed > SECONDS / 2:
            raise KnowledgeBaseError(
                f"{self._store.address} could not be told in time that it is still being written; "
                "its index is unchanged: try again"
            )

    def renew(self) -> None:
        """Say that the writer is alive; a record that another writer dropped stays dropped."""
        if self._store.record(self.name) is not None:
            self._put()

    def _put(self) -> None:
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
        self._put()
        try:
            self._give_way()
            if time.monotonic() - self._renewed > _RENEWED:  # nobody renews it before `keep`
                self.renew()
        except BaseException:
            self._store.drop_records([self.name])
            raise

    def _give_way(self) -> None:
        """Drop the records of writers that have died; raise KnowledgeBaseError for a living one."""
        others = self._others()
        silent = {name for name, held in others.items() if _is_silent(held)}
        if silent:  # or its machine's clock is wrong: then it renews its record meanwhile
            self._watch()
        for name, held in others.items():
            still = name in silent and self._store.record(name) in (held, None)
            if not (still or _has_ended(held)):
                raise KnowledgeBaseError(
                    f"{self._store.address} is being written by process {held.get('process')} of "
                    f"{held.get('host')}; try again when it has finished"
                )
            self._store.drop_records([name])

    def _watch(self) -> None:
        """Give others the time to renew their records twice; renew this one as often."""
        for _ in range(2):
            self._done.wait(_RENEWED)
            self.renew()

    def _others(self) -> dict[str, dict[str, Any]]:
        names = [name for name in self._store.records(PREFIX) if name != self.name]
        held = {name: self._store.record(name) for name in names}
        return {name: values for name, values in held.items() if values is not None}

    def keep(self) -> None:
        """Renew the record until `stop`; a store that does not answer is asked again."""
        while not self._done.wait(_RENEWED):
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


def _is_silent(held: Mapping[str, Any]) -> bool:
    """Return whether a record was last renewed too long ago, by this machine's clock."""
    return abs(time.time() - float(held.get("time", 0))) > SECONDS and not _has_ended(held)


def _has_ended(held: Mapping[str, Any]) -> bool:
    """Return whether the writer was a process of this machine that is no more."""
    if held.get("machine") != _machine() or _WINDOWS:
        return False
    try:
        os.kill(int(held.get("process", 0)), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    return False
