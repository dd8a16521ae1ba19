"""Registries: declarations by name, ours from a list, other packages' from their entry points.

A method, a metric, a data set format, … is one declaration in its own file: a frozen dataclass
with a `name`. A package that provides one names the declaration in its `pyproject.toml`:

    [project.entry-points."ragweave.methods"]
    draft_check = "my_package:METHOD"

The entry point's name is the declaration's name, so that a package is imported only when one of
its declarations is used.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Protocol, TypeVar

from ragweave.errors import UsageError

OURS = "ragweave"
"""The result of `package` for ragweave's own declarations."""

SESSION = "this session"
"""The result of `package` for declarations added by `register`."""

_LOGGER = logging.getLogger("ragweave")


class Named(Protocol):
    """A declaration that a registry can hold."""

    @property
    def name(self) -> str:
        """The name that users select it by."""
        ...


ThingT = TypeVar("ThingT", bound=Named)


class Registry(Mapping[str, ThingT], Generic[ThingT]):
    """The declarations of one kind by name: ours in order of the list, then other packages'.

    A mapping. Looking a name up imports the package that provides it, and no other; iterating
    imports every package, and skips one that can't be loaded with a warning.
    """

    def __init__(self, group: str, kind: type[ThingT], word: str, ours: Callable[[], Iterable[ThingT]]) -> None:
        """Describe the registry; nothing is loaded yet.

        Args:
            group: The entry-point group, such as `ragweave.methods`.
            kind: The class of the declarations.
            word: What messages call one of them, such as `method`.
            ours: Returns ragweave's own declarations, in the order in which they are listed.
        """
        self.group = group
        self.word = word
        self._kind = kind
        self._list = ours
        self._ours: dict[str, ThingT] | None = None
        self._session: dict[str, ThingT] = {}
        self._loaded: dict[str, ThingT] = {}
        self._broken: dict[str, str] = {}
        self._warned: set[str] = set()
        self._seen: dict[str, list[EntryPoint]] = {}
        """The entry points that the three above are about."""
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> ThingT:
        """Return the declaration called `name`.

        Raises:
            KeyError: There is none.
            UsageError: Its package can't be loaded, or two packages provide the name.
        """
        with self._lock:
            self._check_taken(name)
            for known in (self._own, self._session, self._loaded):
                if name in known:
                    return known[name]
            if name not in self._points:
                raise KeyError(name)
            reason = self._load(name)
            if reason:
                raise UsageError(f"{self.word} {reason}")
            return self._loaded[name]

    def __str__(self) -> str:
        """Return a short table: each name with what it is."""
        rows = [(name, str(getattr(one, "summary", ""))) for name, one in self.items()]
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(f"{name:<{width}}  {summary}".rstrip() for name, summary in rows)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a declaration of this name; its package is not loaded."""
        return name in self._own or name in self._session or name in self._points

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all that can be loaded.

        Raises:
            UsageError: Two packages provide the same name.
        """
        for name in self._points:
            self._check_taken(name)
            with self._lock:
                if self._load(name) and name not in self._warned:
                    self._warned.add(name)
                    _LOGGER.warning("%s %s; it is skipped", self.word, self._broken[name])
        yield from list(self._own)
        yield from [name for name in self._session if name not in self._own]
        yield from [name for name in self._points if name in self._loaded]

    def __len__(self) -> int:
        """Return how many there are."""
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        """Return the names that are known without loading anything."""
        return f"<Registry {self.group}: {', '.join(self.names())}>"

    def names(self) -> list[str]:
        """Return every name, including those whose package is broken or not loaded yet."""
        return list(dict.fromkeys([*self._own, *self._session, *self._points]))

    def ours(self) -> list[ThingT]:
        """Return ragweave's own declarations."""
        return list(self._own.values())

    def package(self, name: str) -> str:
        """Return the package that provides `name`, with its version; `ragweave` for ours."""
        if name in self._own:
            return OURS
        if name in self._session:
            return SESSION
        return _package(self._points[name][0])

    def others(self) -> dict[str, str]:
        """Return the names that other packages provide, each with its package."""
        return {name: self.package(name) for name in self if name not in self._own}

    def named(self, name: str) -> ThingT:
        """Return the declaration called `name`.

        Raises:
            UsageError: There is none (the text has the closest name), its package can't be loaded,
                or two packages provide the name.
        """
        if name in self:
            return self[name]
        kind = self.group.rpartition(".")[2]
        command = "ragweave methods" if kind == "methods" else f"ragweave methods --kind {kind}"
        raise UsageError(f"unknown {self.word} {name!r}{closest(name, self.names())}; `{command}` lists them")

    def register(self, thing: ThingT) -> ThingT:
        """Add a declaration for this process only, and return it: for notebooks and scripts.

        Registering a name again replaces its declaration, so that a notebook cell can be rerun.

        Raises:
            UsageError: ragweave or another package provides a declaration of this name.
        """
        self._check_kind(thing)
        taken = [OURS] * (thing.name in self._own)
        taken += [_package(point) for point in self._points.get(thing.name, ())]
        if taken:
            raise UsageError(self._twice(thing.name, [*taken, SESSION]))
        self._session[thing.name] = thing
        return thing

    def unregister(self, name: str) -> None:
        """Remove what `register` added; a name that it did not add is ignored."""
        self._session.pop(name, None)

    @property
    def _own(self) -> dict[str, ThingT]:
        if self._ours is None:
            with self._lock:
                listed: dict[str, ThingT] = {}
                for thing in self._list():
                    if thing.name in listed:
                        raise UsageError(self._twice(thing.name, [OURS, OURS]))
                    listed[thing.name] = thing
                self._ours = listed
        return self._ours

    @property
    def _points(self) -> dict[str, list[EntryPoint]]:
        found = _entry_points(self.group)
        if found is not self._seen:
            with self._lock:
                self._seen = found
                for known in (self._loaded, self._broken, self._warned):
                    known.clear()
        return found

    def _check_taken(self, name: str) -> None:
        packages = [OURS] * (name in self._own) + [SESSION] * (name in self._session)
        packages += [_where(point) for point in self._points.get(name, ())]
        if len(packages) > 1:
            raise UsageError(self._twice(name, packages))

    def _twice(self, name: str, packages: list[str]) -> str:
        return (
            f"the {self.word} name {name!r} is taken twice, by {' and by '.join(packages)}: "
            "rename one, or uninstall its package"
        )

    def _load(self, name: str) -> str:
        """Load the entry point called `name` once; return what is wrong with it, or ""."""
        if name not in self._loaded and name not in self._broken:
            point = self._points[name][0]
            try:
                thing = point.load()
                self._check_kind(thing)
                if thing.name != name:
                    raise UsageError(f"it is declared as {thing.name!r}")
            except Exception as error:  # noqa: BLE001 - anything may be wrong in another's package
                text = " ".join(str(error).split()) or "no message"
                self._broken[name] = (
                    f"{name!r} of the package {_where(point)} can't be loaded: {type(error).__name__}: {text}"
                )
            else:
                self._loaded[name] = thing
        return self._broken.get(name, "")

    def _check_kind(self, thing: object) -> None:
        if not isinstance(thing, self._kind):
            raise UsageError(f"a {self.word} must be declared as a {self._kind.__name__}, not {type(thing).__name__}")


def closest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the name of `known` that is closest, or ""."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def forget_packages() -> None:
    """Look up installed packages again, after one was installed while the process runs.

    What could not be loaded is tried again, for it may have lacked that package.
    """
    importlib.invalidate_caches()
    _entry_points.cache_clear()
    _installed.cache_clear()


@cache
def _installed() -> Any:
    """Return the entry points of every package, whose files are thus read once for all groups.

    Their class differs between Python 3.11 and later versions; both have `select`.
    """
    return entry_points()


@cache
def _entry_points(group: str) -> dict[str, list[EntryPoint]]:
    """Return a group's entry points by name; a package that is found twice on the path counts once."""
    found: dict[str, list[EntryPoint]] = {}
    chosen: Iterable[EntryPoint] = _installed().select(group=group)
    for point in sorted(chosen, key=lambda one: (one.name, _package(one))):
        same = found.setdefault(point.name, [])
        if all(_package(one) != _package(point) or one.value != point.value for one in same):
            same.append(point)
    return found


def _package(point: EntryPoint) -> str:
    dist = point.dist
    return "an unknown package" if dist is None else f"{dist.name} {dist.version}"


def _where(point: EntryPoint) -> str:
    return f"{_package(point)} ({point.value})"
