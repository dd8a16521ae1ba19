"""API keys, and what each may see and spend: `ragweave serve --keys keys.yaml`.

    keys:
      - name: hr
        key: ${HR_KEY}
        filter: {folder: /docs/hr}
        limits: {calls: 500, tokens: 1000000, dollars: 5}
      - name: admin
        key: ${ADMIN_KEY}
        filter: all
    usage: usage.sqlite3
    audit: audit.jsonl

Each key has an app of its own, over a view of the knowledge base. No object of that app leads to a passage that does not
pass the key's filter, so there is no check that a method, a tool or a later feature could forget. `limits` are for a
day (UTC); what all processes spent is counted in the file `usage`. `audit` gets a line a request: who asked which
method, and the ids of the passages that were read, but no text.
"""

import asyncio
import json
import logging
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragweave.errors import UsageError, fault_of
from ragweave.serving.guard import AccessLimits, ApiError, Guard, caller_id
from ragweave.tools.files import read_yaml
from ragweave.tools.knowledge.filters import ALL, Condition, matches, parse
from ragweave.tools.models.budget import Budget, Limits
from ragweave.tools.models.messages import counted_calls, tokens_of
from ragweave.tools.prices import Price, price_of
from ragweave.tools.retrieval.base import PassageRetriever, ReadThrough

_LOG = logging.getLogger("ragweave.serving")
_BARE: tuple[dict[str, Any], ...] = ({}, {"source": "/any folder/any file"})
"""Metadata of passages about which nothing is said."""


class DayLimits(BaseModel):
    """What a key may spend in a day; None: any amount."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: PositiveInt | None = None
    """Requests."""
    tokens: PositiveInt | None = None
    """Tokens that models read and wrote."""
    dollars: PositiveFloat | None = None
    """US dollars, by `ragweave.tools.prices`."""


class Caller(BaseModel):
    """A key, and what it may see and spend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    """Who it is, for the audit; the key itself is never written down."""
    key: str
    filter: dict[str, Any] | Literal["all"]
    limits: DayLimits = DayLimits()

    def condition(self) -> Condition:
        """Return what it may see."""
        return ALL if self.filter == "all" else parse(self.filter)


class KeyFile(BaseModel):
    """A file of keys."""

    model_config = ConfigDict(extra="forbid")

    keys: list[Caller] = Field(min_length=1)
    usage: str = ""
    """An SQLite file, beside the file of keys unless said otherwise; "": the file of keys with `.usage.sqlite3`."""
    audit: str = ""
    """A file that gets a JSON line a request; "": standard error."""


def read_keys(path: Path) -> KeyFile:
    """Read a file of keys. It fails closed: what could show a caller more than was meant is an error.

    Raises:
        UsageError: It cannot be read, a key or name is given twice, a variable is not set, or a filter is missing, not
            a filter, or one that a passage without metadata passes.
    """
    fields = read_yaml(path)
    try:
        file = KeyFile.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"{path}: {fault_of(error)}") from None
    callers = [caller.model_copy(update={"key": _secret(path, caller)}) for caller in file.keys]
    for what in ("key", "name"):
        if len({getattr(caller, what) for caller in callers}) < len(callers):
            raise UsageError(f"{path}: a {what} is given twice")
    for caller in callers:
        if caller.filter == "all":
            continue
        condition = caller.condition()
        if any(matches(condition, bare) for bare in _BARE):
            raise UsageError(
                f"{path}: {caller.name} would see passages without metadata: add what they must have, such as "
                "{folder: /docs/hr}, or say filter: all"
            )
    return file.model_copy(update={"keys": callers})


def _secret(path: Path, caller: Caller) -> str:
    missing = [name for name in re.findall(r"\$\{(\w+)\}", caller.key) if not os.environ.get(name)]
    key = re.sub(r"\$\{(\w+)\}", lambda name: os.environ.get(name[1], ""), caller.key).strip()
    if missing or not key:
        why = f"the variable {missing[0]} is not set" if missing else "it is empty"
        raise UsageError(f"{path}: the key of {caller.name}: {why}")
    return key


class Ledger:
    """What each key spent on each day, in one SQLite file for all processes."""

    def __init__(self, path: Path) -> None:
        """Open or make the file.

        Raises:
            UsageError: It cannot be written.
        """
        self._path = path
        try:
            self._write(
                "CREATE TABLE IF NOT EXISTS spent (day TEXT, name TEXT, calls INTEGER NOT NULL, tokens INTEGER NOT NULL, "
                "dollars REAL NOT NULL, PRIMARY KEY (day, name)) WITHOUT ROWID"
            )
        except sqlite3.Error as error:
            raise UsageError(
                f"{path}: what keys spend cannot be counted here ({error}): name a file as `usage`"
            ) from error

    def _write(self, sql: str, *values: Any) -> None:
        with closing(sqlite3.connect(self._path, timeout=30)) as db, db:
            db.execute(sql, values)

    def take(self, caller: Caller) -> str:
        """Count a request, and return ""; or the name of the limit that is reached."""
        day = datetime.now(UTC).date().isoformat()
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            sql = "SELECT calls, tokens, dollars FROM spent WHERE day = ? AND name = ?"
            spent = db.execute(sql, (day, caller.name)).fetchone() or (0, 0, 0.0)
            limits = caller.limits.model_dump()
            pairs = zip(limits, spent, strict=True)
            reached = next((name for name, n in pairs if limits[name] is not None and n >= limits[name]), "")
            if not reached:
                db.execute(_ADD, (day, caller.name, 1, 0, 0.0))
            db.execute("COMMIT")
        return reached

    def add(self, caller: Caller, tokens: int, dollars: float) -> None:
        """Count what a request cost."""
        self._write(_ADD, datetime.now(UTC).date().isoformat(), caller.name, 0, tokens, dollars)


_ADD = (
    "INSERT INTO spent VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, "
    "tokens = tokens + excluded.tokens, dollars = dollars + excluded.dollars"
)


class Account:
    """Records what a key's app answers: what it cost, in the ledger, and what was read, in the audit."""

    def __init__(self, caller: Caller, ledger: Ledger, audit: Path | None) -> None:
        """Record for one caller; where `audit` is None, on standard error.

        Raises:
            UsageError: The audit cannot be written.
        """
        self._caller, self._ledger, self._audit = caller, ledger, audit
        try:
            if audit:
                audit.open("a").close()
        except OSError as error:
            raise UsageError(f"{audit}: no audit can be written here ({error}): name a file as `audit`") from error

    def recorded(self, method: str, runnable: Any) -> Any:
        """Return a graph or a chat model whose `ainvoke` is recorded under the name of a method."""
        return _Recorded(self, method, runnable)

    def recorded_search(self, retriever: Any) -> PassageRetriever | None:
        """Return a retriever whose searches and readings are recorded; None for None."""
        return None if retriever is None else ReadThrough.over(retriever, self._read)

    @contextmanager
    def recording(self, method: str) -> Iterator[tuple[Budget, list[str]]]:
        """Write down what happens meanwhile: what it spends, even if it fails, and the ids that are put into the list."""
        spent, status, ids = Budget(Limits()), "failed", list[str]()
        try:
            with spent.holding():
                yield spent, ids
            status = "answered"
        finally:  # the caller may have left: what was spent counts
            self.write(method, status, ids, spent.tokens, spent.usd)

    def _read(self, method: str, read: Callable[[], list[Document]]) -> list[Document]:
        with self.recording(method) as (spent, ids), counted_calls() as counter:
            try:
                docs = read()
            finally:  # what reranks has no node that would count it
                tokens = sum(sent + received for sent, received, _ in counter.tokens)
                spent.spend(len(counter.tokens), tokens, sum(usd for usd, _ in counter.dollars))
            ids += [str(doc.id) for doc in docs]
            return docs

    def write(
        self, method: str, status: str, passages: Sequence[str] = (), tokens: int = 0, dollars: float = 0
    ) -> None:
        """Write down a request."""
        if tokens or dollars:
            self._ledger.add(self._caller, tokens, dollars)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": at, "key": self._caller.name, "method": method, "status": status}
        text = json.dumps({**line, "passages": [*dict.fromkeys(passages)]})
        if self._audit is None:
            print(text, file=sys.stderr, flush=True)  # noqa: T201
        else:
            with self._audit.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    def take(self) -> str:
        """Count a request, and return ""; or the name of the limit that is reached."""
        return self._ledger.take(self._caller)


class _Recorded:
    def __init__(self, account: Account, method: str, runnable: Any) -> None:
        self._account, self._method, self._runnable = account, method, runnable

    async def ainvoke(self, values: Any, config: Any = None, **more: Any) -> Any:
        with self._account.recording(self._method) as (spent, ids):
            out = await self._runnable.ainvoke(values, config, **more)
            if not isinstance(out, AIMessage):
                candidates = (out.get("candidates") or {}).values()
                read = [str(doc.id) for doc in out["passages"]] + [name for c in candidates for name in c["passages"]]
                results = {doc.id for doc in out["passages"] if "sql" in doc.metadata}  # which no store has
                ids += [name for name in read if name not in results]
            else:  # no node made this call, which would have counted it
                sent, received, _ = tokens_of(out, values)
                price = price_of(self._runnable) or Price(0, 0)
                spent.spend(1, sent + received, price.of(sent, received))
            return out


class _Keyed:
    """The app of a key, which is started and stopped while others run."""

    def __init__(self, made_of: tuple[Caller, Path, Path | None], account: Account, app: ASGIApp) -> None:
        """Name what the app is made of: the caller, the file that counts and the one that gets a line a request."""
        self.made_of, self.caller, self.account, self.app = made_of, made_of[0], account, app
        self._messages, self._answers = asyncio.Queue[Message](), asyncio.Queue[Message]()

    async def start(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        self._task = asyncio.ensure_future(self.app(scope, self._messages.get, self._answers.put))
        await self._messages.put({"type": "lifespan.startup"})
        await self._answers.get()

    async def stop(self) -> None:
        await self._messages.put({"type": "lifespan.shutdown"})
        await self._task


async def _stop(apps: Iterable[_Keyed], calls: Iterable[asyncio.Event] = ()) -> None:
    """Stop apps, once some calls have ended."""
    for ended in calls:
        await ended.wait()
    for keyed in apps:
        await keyed.stop()


class KeyedApp:
    """An ASGI app that hands each call to the app of its key, and reads the file of keys again when it changes.

    A file that became wrong changes nothing: the log says so, and the keys stay as they were.
    """

    def __init__(self, path: Path, make: Callable[[Caller, Account], ASGIApp], limits: AccessLimits) -> None:
        """Read the keys, and make their apps.

        Args:
            path: The file of keys.
            make: Returns the app of a key; what it answers is to be recorded by the account.
            limits: The limits of all keys together; its own keys are not used.

        Raises:
            UsageError: The file is wrong.
        """
        self._path, self._make = path, make
        self._guard = Guard(self._dispatch, limits)
        self._apps: dict[str, _Keyed] = {}
        """By the id of the caller."""
        self._calls, self._stopping = set[asyncio.Event](), set[asyncio.Task[None]]()
        self._lock = asyncio.Lock()
        self._state = self._stat()
        self._admit(self._made(read_keys(path)))

    def _stat(self) -> object:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _made(self, file: KeyFile) -> dict[str, _Keyed]:
        apps, folder = {}, self._path.parent
        usage = folder / (file.usage or f"{self._path.stem}.usage.sqlite3")
        ledger, audit = Ledger(usage), folder / file.audit if file.audit else None
        for caller in file.keys:
            name, made_of = caller_id(caller.key.encode()), (caller, usage, audit)
            keyed = self._apps.get(name)
            if keyed is None or keyed.made_of != made_of:
                account = Account(caller, ledger, audit)
                keyed = _Keyed(made_of, account, self._make(caller, account))
            apps[name] = keyed
        return apps

    def _admit(self, apps: dict[str, _Keyed]) -> None:
        self._apps = apps
        self._guard.limits = replace(self._guard.limits, api_keys=[keyed.caller.key for keyed in apps.values()])

    async def _reload(self) -> None:
        async with self._lock:
            state = self._stat()
            if state == self._state:
                return
            self._state = state
            try:
                apps = await asyncio.to_thread(lambda: self._made(read_keys(self._path)))
            except UsageError as error:
                _LOG.error("the keys stay as they were: %s", error)
                return
            before = self._apps
            for name, keyed in apps.items():
                if before.get(name) is not keyed:
                    await keyed.start()
            self._admit(apps)
            replaced = [keyed for name, keyed in before.items() if apps.get(name) is not keyed]
            stopping = asyncio.create_task(_stop(replaced, [*self._calls]))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a call on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["path"] != "/health" and self._stat() != self._state:
            await self._reload()
        scope["keyed"] = self._apps  # as they are now, when the guard checks the key
        self._calls.add(ended := asyncio.Event())
        try:
            await self._guard(scope, receive, send)
        finally:
            self._calls.remove(ended)
            ended.set()

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        keyed: _Keyed = scope["keyed"][scope["caller"]]
        account = keyed.account
        if scope["path"] == "/metrics" and keyed.caller.filter != "all":
            raise ApiError(404, "this key may not see the metrics")
        shows_quote = "/sources/" in scope["path"]  # and the lines around it
        reached = await asyncio.to_thread(account.take) if scope["method"] == "POST" or shows_quote else ""
        if reached:
            account.write(scope["path"], f"limit of {reached}")
            now = datetime.now(UTC)
            tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
            seconds = str(ceil((tomorrow - now).total_seconds()))
            message = f"this key has reached its limit of {reached} for today (UTC)"
            raise ApiError(429, message, code="insufficient_quota", retry_after=seconds, x_should_retry="false")
        if shows_quote:
            account.write(scope["path"], "asked for")
        await keyed.app(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        for keyed in self._apps.values():
            await keyed.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.gather(_stop(self._apps.values()), *self._stopping)
        await send({"type": "lifespan.shutdown.complete"})
