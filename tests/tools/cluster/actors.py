"""Ray's actors as objects of this process: they begin, answer and are lost as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    pass


class ActorError(RayError):
    pass


class Reference:
    """An object reference: a future of a call."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def future(self) -> Future[Any]:
        return self._future


class Actor:
    """An actor whose methods run in the event loop of the test."""

    def __init__(self, made: Any, options: dict[str, Any]) -> None:
        self.made, self.options, self.lost = made, options, False
        self._calls: list[tuple[asyncio.Task[Any], Future[Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *args: self._call(name, *args))

    def lose(self) -> None:
        """End the actor as its node would: every call under way fails."""
        self.lost = True
        for task, future in self._calls:
            task.cancel()
            if not future.done():
                future.set_exception(ActorError("The actor died."))

    def _call(self, name: str, *args: Any) -> Reference:
        future: Future[Any] = Future()
        if self.lost:
            future.set_exception(ActorError("The actor died."))
            return Reference(future)

        async def call() -> None:
            try:
                value = await getattr(self.made, name)(*args)
            except Exception as error:  # noqa: BLE001 - as Ray passes it on
                future.set_exception(error)
            else:
                future.set_result(value)

        self._calls.append((asyncio.get_running_loop().create_task(call()), future))
        return Reference(future)


class Ray:
    """As much of the module `ray` as a pool takes."""

    exceptions = SimpleNamespace(RayActorError=ActorError, RayError=RayError)

    def __init__(self, *cpus: int, gpus: int = 0) -> None:
        self.actors: list[Actor] = []
        self._nodes = [
            {"Alive": True, "NodeID": f"{at}" * 56, "Resources": {"CPU": one, "GPU": gpus}}
            for at, one in enumerate(cpus, 1)
        ]

    def nodes(self) -> list[dict[str, Any]]:
        return self._nodes

    def remote(self, **options: Any) -> Callable[[Any], Any]:
        def decorated(kind: Any) -> Any:
            def made() -> Actor:
                self.actors.append(Actor(kind(), options))
                return self.actors[-1]

            return SimpleNamespace(remote=made)

        return decorated

    def kill(self, actor: Actor) -> None:
        actor.lose()

    @property
    def places(self) -> list[str]:
        """The nodes of the actors, by number."""
        return [one.options["scheduling_strategy"].node_id[0] for one in self.actors]
