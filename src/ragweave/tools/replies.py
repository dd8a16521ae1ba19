"""Every reply that was paid for, in one SQLite file: a cache for LangChain's chat models.

    cache = ReplyCache("run/replies.sqlite")
    model = cache.attach(model, "openai:gpt-4o-mini")
    with asking():                                      # one question
        await graph.ainvoke(...)

A call's key is its model, server, settings and messages, and a number: the n-th time that a question makes the same
call, it gets the n-th reply, so that five samples stay five samples. Replies are numbered when they are stored, not when
they are looked up: a call that fails and is repeated leaves no gap. Each row is a paid call, so the table also says what
a run has cost.

A call like one that is under way, as when two methods begin with the same prompt, waits for that call's reply.
"""

import asyncio
import copy
import hashlib
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration

from ragweave.errors import UsageError
from ragweave.tools.files import ClosingConnection
from ragweave.tools.models.decisions import LogprobDecisions
from ragweave.tools.models.extractive import ExtractiveChat
from ragweave.tools.models.messages import ending_of
from ragweave.tools.models.roles import with_each
from ragweave.tools.trained.models import TrainedChat

_TABLE = """CREATE TABLE IF NOT EXISTS replies (key BLOB, number INTEGER, run TEXT, model TEXT,
    input INTEGER, output INTEGER, reply TEXT, PRIMARY KEY (key, number))"""
_STORE = """INSERT INTO replies SELECT ?, coalesce(max(number) + 1, 0), ?, ?, ?, ?, ?
    FROM replies WHERE key = ?"""
_SPENT = "SELECT model, count(*), sum(input), sum(output) FROM replies WHERE run = ? GROUP BY model"

_READ_TASKS = (ExtractiveChat, TrainedChat)
"""Models that read the task beside the prompt (`ragweave.tools.models.messages`)."""


@dataclass
class QuestionCalls:
    """The calls that one question has made."""

    numbers: Counter[bytes] = field(default_factory=Counter)
    paid: int = 0


_CALLS: ContextVar[QuestionCalls | None] = ContextVar("ragweave_asked", default=None)


@contextmanager
def asking() -> Iterator[QuestionCalls]:
    """Count the calls of this context, and of tasks and threads started in it, as one question's."""
    calls = QuestionCalls()
    token = _CALLS.set(calls)
    try:
        yield calls
    finally:
        _CALLS.reset(token)


class ReplyCache(BaseCache):
    """A cache for LangChain's chat models; safe for threads, tasks and several processes."""

    def __init__(self, path: str | Path, run: str = "") -> None:
        """Open a file; `run` distinguishes its calls from those of other runs in the file."""
        self._run, self._lock = run, threading.Lock()
        self.replays = bool(run)
        """Whether a stored reply counts as one that is paid for: a run that goes on reports what an unbroken one does."""
        self._model = self._server = ""
        self._reads_tasks = False
        self._path = path
        if not Path(path).parent.is_dir():
            raise UsageError(f"{path}: no such folder")
        self._db = sqlite3.connect(
            path, timeout=60, check_same_thread=False, isolation_level=None, factory=ClosingConnection
        )
        self._execute("PRAGMA journal_mode = WAL")  # a killed process loses no committed reply
        self._execute("PRAGMA synchronous = NORMAL")
        self._execute(_TABLE)
        self.spent = {model: list(counts) for model, *counts in self._execute(_SPENT, (run,))}
        """Calls, input tokens and output tokens that this run has paid for, by model."""
        self.gate: list[Callable[[], None]] = []
        """Functions called before each call without a stored reply; they may raise to forbid it."""
        self._under_way: dict[asyncio.Task[Any], bytes] = {}
        """The key of each call that waits for its model, by its task."""

    def attach(self, model: Any, name: str) -> Any:
        """Return a copy of a chat model, or of a decision model over one, whose replies are stored here.

        The name is part of the key, because LangChain's descriptions of two local models are equal. Streaming is off:
        `stream` and `astream` would call the server without a look-up.
        """
        return with_each(model, lambda inside, _: self._attached(inside, name))

    def _attached(self, model: Any, name: str) -> Any:
        if isinstance(model, LogprobDecisions):
            return model.model_copy(update={"chat": self.attach(model.chat, name)})
        if not isinstance(model, BaseChatModel):
            return model
        cache = copy.copy(self)
        cache._model = name
        # LangChain's description lacks an address that the client takes from OPENAI_BASE_URL.
        cache._server = str(getattr(getattr(model, "root_async_client", None), "base_url", ""))
        cache._reads_tasks = isinstance(model, _READ_TASKS)
        attached = model.model_copy(update={"cache": cache, "disable_streaming": True})
        vars(attached).pop("_serialized", None)  # LangChain's cached description of the model before it was changed
        return attached

    def lookup(self, prompt: str, llm_string: str) -> list[ChatGeneration] | None:
        """Return the stored reply to a call; None if there is none."""
        key = self._key(prompt, llm_string)
        reply = self._stored(key, self._number(key))
        if reply is None:
            self._pass_gate()
        return reply

    async def alookup(self, prompt: str, llm_string: str) -> list[ChatGeneration] | None:
        """Return the stored reply to a call, or that of a call alike that is under way; None if the caller is to ask.

        LangChain makes each call in a task of its own, which ends with its reply, its failure or its cancellation.
        """
        key = self._key(prompt, llm_string)
        number = self._number(key)
        while (reply := self._stored(key, number)) is None:
            alike = [task for task, other in self._under_way.items() if other == key]
            if number >= self._count(key) + len(alike):
                self._pass_gate()
                if task := asyncio.current_task():
                    self._under_way[task] = key
                    task.add_done_callback(self._under_way.pop)
                return None
            await asyncio.wait(alike, return_when=asyncio.FIRST_COMPLETED)
        return reply

    def _number(self, key: bytes) -> int:
        """Return how many times the question has made a call before, and count it."""
        numbers = (_CALLS.get() or QuestionCalls()).numbers
        with self._lock:
            numbers[key] += 1
            return numbers[key] - 1

    def _count(self, key: bytes) -> int:
        with self._lock:
            ((count,),) = self._execute("SELECT count(*) FROM replies WHERE key = ?", (key,))
        return int(count)

    def _stored(self, key: bytes, number: int) -> list[ChatGeneration] | None:
        query = "SELECT reply FROM replies WHERE key = ? AND number = ?"
        with self._lock:
            stored = self._execute(query, (key, number))
        if not stored:
            return None
        generations = []
        for item in json.loads(stored[0][0]):
            [message] = messages_from_dict([item["message"]])
            generations.append(ChatGeneration(message=message, generation_info=item["info"]))
        return generations

    def _pass_gate(self) -> None:
        for check in self.gate:
            check()

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Any]) -> None:
        """Store the reply to a call with its tokens, or an estimate of them; a reply that was broken off is asked for anew."""
        if ending_of(return_val[0].message) == "failed":
            return
        stored = [
            {"message": message_to_dict(generation.message), "info": generation.generation_info}
            for generation in return_val
        ]
        usage = getattr(return_val[0].message, "usage_metadata", None) or {}
        tokens = (usage.get("input_tokens", len(prompt) // 4), usage.get("output_tokens", len(return_val[0].text) // 4))
        key = self._key(prompt, llm_string)
        row = (key, self._run, self._model, *tokens, json.dumps(stored, default=_plain), key)
        with self._lock:
            self._execute(_STORE, row)
            (_CALLS.get() or QuestionCalls()).paid += 1
            spent = self.spent.setdefault(self._model, [0, 0, 0])
            spent[:] = [a + b for a, b in zip(spent, (1, *tokens), strict=True)]

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Any]) -> None:
        """Store directly: LangChain's own method uses a thread, which is slower than SQLite."""
        self.update(prompt, llm_string, return_val)

    def clear(self, **_: Any) -> None:
        """Forget every reply."""
        with self._lock:
            self._execute("DELETE FROM replies")

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.OperationalError:  # a lock, the disk
            raise
        except sqlite3.DatabaseError as error:
            raise UsageError(
                f"{self._path} is damaged ({error}): if you delete it, its replies are asked and paid for again"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _key(self, prompt: str, llm_string: str) -> bytes:
        """Return a call's key, without the tasks that only our own models read."""
        if not self._reads_tasks and '"additional_kwargs"' in prompt:
            messages = json.loads(prompt)
            for message in messages:
                message.get("kwargs", {}).get("additional_kwargs", {}).pop("ragweave", None)
            prompt = json.dumps(messages)
        text = "\0".join((self._model, self._server, llm_string, prompt))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _plain(value: Any) -> Any:
    """Return an object that a client has parsed from a reply (`additional_kwargs["parsed"]`) as JSON."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)
