"""Rows made on the nodes of a Ray cluster.

The driver has the journal: a node asks it for replies that are kept, and hands each new one over
before the row goes on. A lost node costs the calls that it was just making.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ragweave.tools.cluster import Ask, Pool, Work, connected
from ragweave.tools.models import chat_model
from ragweave.tools.models.specs import loads_weights
from ragweave.tools.process_errors import KINDS, PlainError, ProcessError, plain_error, raised_again
from ragweave.tools.scorers.specs import scorer_of_spec
from ragweave.training.labels.failures import is_model_error
from ragweave.training.labels.labeler import CachedCall, DroppedRow, Labeler, LabelledRow
from ragweave.training.labels.source import Item

_SCORER = "scorer"


@dataclass(frozen=True)
class LabelerSpec:
    """How a labeler is made, its models named by spec; every process makes its own.

    Example:
        >>> from ragweave.training.labels import JudgeLabeler
        >>> spec = LabelerSpec(JudgeLabeler, {"proxy": "extractive"}, {"theta": 0.4})
        >>> spec.make().role
        'judge'
    """

    kind: Callable[..., Labeler]
    """The labeler's class, or a function that makes one."""
    models: Mapping[str, str | None] = field(default_factory=dict)
    """Specs by argument: `proxy`, `teacher`, `scorer`; None: there is no such model."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The other arguments."""

    def make(self) -> Labeler:
        """Open the models and make the labeler.

        Raises:
            UsageError: A spec or an option is wrong.
        """
        given: dict[str, Any] = {}
        for name, spec in self.models.items():
            opened = scorer_of_spec if name == _SCORER else chat_model
            given[name] = opened(spec) if spec else None
            given[f"{name}_spec"] = spec or ""
        return self.kind(**given, **self.options)

    @property
    def loads_weights(self) -> bool:
        """Whether a model holds its weights in the process, of which a node has room for one."""
        return bool(self.models.get(_SCORER)) or any(
            loads_weights(one) for one in self.models.values() if one
        )

    async def __call__(self) -> Work:
        """Make ready on a node."""
        return _NodeRows(self.make())


@dataclass(frozen=True, slots=True)
class _Kept:
    """A row's call of this name is about to be made."""

    name: str


@dataclass(frozen=True, slots=True)
class _Keep:
    """A call's reply."""

    name: str
    reply: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Failed:
    """A row that failed."""

    error: PlainError
    by_model: bool


class RemoteModelError(ProcessError):
    """A model call failed on a node."""


class _NotKeptError(Exception):
    pass


@dataclass(frozen=True)
class _NodeRows:
    """Makes rows on a node."""

    labeler: Labeler

    async def __call__(self, item: Item, ask: Ask) -> LabelledRow | DroppedRow | _Failed:
        async def call(name: str, make: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
            kept: dict[str, Any] | None = await ask(_Kept(name))
            if kept is None:
                kept = await make()
                await ask(_Keep(name, kept))
            return kept

        try:
            return await self.labeler.make(item, call)
        except Exception as error:  # noqa: BLE001 - the driver decides what it means
            return _Failed(plain_error(error), is_model_error(error))


@asynccontextmanager
async def rows_on_ray(
    spec: LabelerSpec, address: str, concurrency: int
) -> AsyncIterator[Callable[[Item, CachedCall], Awaitable[LabelledRow | DroppedRow]]]:
    """Yield what has a row made by the nodes of a Ray cluster, as `Labeler.make` makes one.

    Args:
        spec: What each process makes its labeler by.
        address: The cluster's address (`connected`).
        concurrency: Rows under way at once.
    """
    with connected(address) as ray:
        async with Pool(ray, spec, jobs=concurrency, whole_nodes=spec.loads_weights) as pool:

            async def make(item: Item, call: CachedCall) -> LabelledRow | DroppedRow:
                async def serve(request: _Kept | _Keep) -> dict[str, Any] | None:
                    try:
                        return await call(request.name, _given(request))
                    except _NotKeptError:
                        return None

                made: LabelledRow | DroppedRow | _Failed
                made = await pool.do(lambda _attempt: item, serve)
                if isinstance(made, _Failed):
                    other = RemoteModelError if made.by_model else ProcessError
                    raise raised_again(made.error, "a node", KINDS, other)
                return made

            yield make


def _given(request: _Kept | _Keep) -> Callable[[], Awaitable[dict[str, Any]]]:
    """Return what gives a call's reply: the one that a node hands over."""

    async def make() -> dict[str, Any]:
        if isinstance(request, _Kept):
            raise _NotKeptError
        return request.reply

    return make
