"""Registries: declarations by name, ours from a list, other packages' from their entry points.

A method, a metric, a data set format, … is one declaration in its own file: a frozen dataclass
with a `name`. A package that provides one names the declaration in its `pyproject.toml`:

    [project.entry-points."ragweave.methods"]
    draft_check = "my_package:METHOD"

The entry point's name is the declaration's name, so that a package is imported only when one of
its declarations is used.
"""

import difflib
import importlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from itertools import groupby
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from ragweave.errors import UsageError, one_line_of

OURS = "ragweave"
"""The result of `package` for ragweave's own declarations."""

SESSION = "this session"
"""The result of `package` for declarations added by `register`."""

_LOGGER = logging.getLogger("ragweave")


class Named(Protocol):
    """A declaration in a registry."""

    @property
    def name(self) -> str:
        """The name that users select it by."""


ThingT = TypeVar("ThingT", bound=Named)


class Registry(Mapping[str, ThingT], Generic[ThingT]):
    """The declarations of one kind by name: ours in order of the list, then those of the session and other packages.

    A mapping. Looking up a name imports only the package that provides it; iterating imports every
    package, and skips declarations that can't be used, with a warning. Of several with one name, ours counts, then the
    session's, then the first package's.
    """

    def __init__(self, group: str, kind: type[ThingT], word: str, ours: Callable[[], Iterable[ThingT]]) -> None:
        """Describe the registry; nothing is loaded yet.

        `group` is the entry-point group, such as `ragweave.methods`, and `word` what messages call a declaration. `ours`
        returns ragweave's own declarations, in the order of listings.
        """
        self.group, self.word = group, word
        self._kind, self._list = kind, ours
        self._session: dict[str, ThingT] = {}

    def __getitem__(self, name: str) -> ThingT:
        """Return the declaration called `name`.

        Raises:
            KeyError: There is none.
            UsageError: Its package can't be loaded.
        """
        return self._own.get(name) or self._session.get(name) or self._loaded(_entry_points(self.group)[name])

    def __contains__(self, name: object) -> bool:
        """Return whether there is a declaration with this name; its package is not loaded."""
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the declarations that can be used."""
        for name in self.names():
            try:
                self[name]
            except UsageError as error:
                _warn(f"{error}; it is skipped")
            else:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        """Return the names, without loading anything."""
        return f"<Registry {self.group}: {', '.join(self.names())}>"

    def names(self) -> list[str]:
        """Return every name, including those whose package is broken or not loaded yet."""
        return list(dict.fromkeys([*self._own, *self._session, *_entry_points(self.group)]))

    def ours(self) -> list[ThingT]:
        """Return ragweave's own declarations."""
        return list(self._own.values())

    def package(self, name: str) -> str:
        """Return the package that provides `name`, with its version; `ragweave` for ours."""
        if name in self._own:
            return OURS
        return SESSION if name in self._session else _package(_entry_points(self.group)[name])

    def others(self) -> dict[str, str]:
        """Return the names that other packages provide, each with its package."""
        return {name: self.package(name) for name in self if name not in self._own}

    def named(self, name: str) -> ThingT:
        """Return the declaration called `name`.

        Raises:
            UsageError: There is none (the text has the closest name), or its package can't be loaded.
        """
        if name in self:
            return self[name]
        kind = self.group.rpartition(".")[2]
        command = "ragweave methods" if kind == "methods" else f"ragweave methods --kind {kind}"
        close = difflib.get_close_matches(name, self.names(), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise UsageError(f"unknown {self.word} {name!r}{hint}; `{command}` lists them")

    def register(self, thing: ThingT) -> ThingT:
        """Add a declaration for this process only, and return it: for notebooks and scripts.

        Registering a name again replaces its declaration, so that a notebook cell can be rerun.

        Raises:
            UsageError: ragweave or another package provides a declaration with this name.
        """
        self._check_kind(thing)
        if thing.name in self and thing.name not in self._session:
            raise UsageError(
                f"the {self.word} name {thing.name!r} is taken by {self.package(thing.name)}: choose another"
            )
        self._session[thing.name] = thing
        return thing

    def unregister(self, name: str) -> None:
        """Remove a declaration that `register` added; other names are ignored."""
        self._session.pop(name, None)

    @cached_property
    def _own(self) -> dict[str, ThingT]:
        return {declaration.name: declaration for declaration in self._list()}

    def _loaded(self, point: EntryPoint) -> ThingT:
        try:
            thing: ThingT = _load(point)
            self._check_kind(thing)
            if thing.name != point.name:
                raise UsageError(f"it is declared as {thing.name!r}")
        except Exception as error:
            raise UsageError(
                f"{self.word} {point.name!r} of the package {_package(point)} ({point.value}) can't be loaded: "
                f"{type(error).__name__}: {one_line_of(error)}"
            ) from error
        return thing

    def _check_kind(self, thing: object) -> None:
        if not isinstance(thing, self._kind):
            raise UsageError(f"a {self.word} must be declared as a {self._kind.__name__}, not {type(thing).__name__}")


def forget_packages() -> None:
    """Look up installed packages again, after one was installed while the process runs."""
    importlib.invalidate_caches()
    for cached in (_entry_points, _installed, _load):
        cached.cache_clear()


@cache
def _warn(text: str) -> None:
    """Log a warning once."""
    _LOGGER.warning(text)


@cache
def _load(point: EntryPoint) -> Any:
    return point.load()


@cache
def _installed() -> Any:
    """Return the entry points of all packages; cached, so that their files are read once for all groups."""
    return entry_points()


@cache
def _entry_points(group: str) -> dict[str, EntryPoint]:
    """Return a group's entry points by name, in order; the first package's of several."""
    points = sorted(_installed().select(group=group), key=lambda point: (point.name, _package(point)))
    return {name: next(same) for name, same in groupby(points, key=attrgetter("name"))}


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
