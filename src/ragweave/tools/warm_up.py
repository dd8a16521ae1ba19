"""Loading what runs on this machine before anything is timed or asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable


@runtime_checkable
class WarmsUp(Protocol):
    """A model or retriever that loads something at its first use."""

    def warm_up(self) -> None:
        """Load it now; calls no server and costs nothing."""
        ...


def warm_up(things: Iterable[object]) -> None:
    """Warm up those of `things` that know how to, so that none pays for it in its first answer."""
    for thing in things:
        if isinstance(thing, WarmsUp):
            thing.warm_up()
