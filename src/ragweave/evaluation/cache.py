"""Every reply that was paid for, in one SQLite file behind LangChain's cache hook.

    cache = ReplyCache("run/replies.sqlite")
    model = cache.attach(model, "openai:gpt-4o-mini")
    with asking():                                      # one question
        await graph.ainvoke(...)

The key of a call is its model, server, settings and messages, and its number: the n-th time that one question
makes the same call it gets the n-th reply, so that five samples stay five samples. Replies are numbered when
they are stored, not when they are looked up: a call that failed and is made again leaves no gap. Each row is a
call that was paid for, so the table also says what a run has cost.
"""

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
from langchain_core.runnables.base import RunnableBindingBase

from ragweave.tools.files import ClosingConnection
from ragweave.tools.models.decisions import LogprobDecisions
from ragweave.tools.models.extractive import ExtractiveChat
from ragweave.tools.trained.models import TrainedChat

_TABLE = """CREATE TABLE IF NOT EXISTS replies (key BLOB, number INTEGER, run TEXT, model TEXT,
    input INTEGER, output INTEGER, reply TEXT, PRIMARY KEY (key, number))"""
_STORE = """INSERT INTO replies SELECT ?, coalesce(max(number) + 1, 0), ?, ?, ?, ?, ?
    FROM replies WHERE key = ?"""
_SPENT = "SELECT model, count(*), sum(input), sum(output) FROM replies WHERE run = ? GROUP BY model"

_READ_TASKS = (ExtractiveChat, TrainedChat)
"""Models that read the task beside the prompt (`ragweave.tools.models.messages`)."""


@dataclass
class Asked:
    """The calls of one question so far."""

    numbers: Counter[bytes] = field(default_factory=Counter)
    paid: int = 0


_ASKED: ContextVar[Asked | None] = ContextVar("ragweave_asked", default=None)


@contextmanager
def asking() -> Iterator[Asked]:
    """Take the calls of this context, and of tasks and threads begun in it, for one question's."""
    asked = Asked()
    token = _ASKED.set(asked)
    try:
        yield asked
    finally:
        _ASKED.reset(token)


class ReplyCache(BaseCache):
    """A cache for LangChain's chat models; safe for threads, tasks and several processes."""

    def __init__(self, path: str | Path, run: str = "") -> None:
        """Open a file; `run` tells its calls from those of other runs that share the file."""
        self._run, self._lock = run, threading.Lock()
        self._model = self._server = ""
        self._reads_tasks = False
        self._db = sqlite3.connect(
            path, timeout=60, check_same_thread=False, isolation_level=None, factory=ClosingConnection
        )
        self._db.execute("PRAGMA journal_mode = WAL")  # a killed process loses no committed reply
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute(_TABLE)
        self.spent = {model: list(counts) for model, *counts in self._db.execute(_SPENT, (run,)).fetchall()}
        """Calls, input tokens and output tokens that this run has paid for, by model."""
        self.gate: list[Callable[[], None]] = []
        """Called before every call that has no reply yet; may raise to forbid it."""

    def attach(self, model: Any, name: str) -> Any:
        """Return a copy of a model whose replies are stored here: a chat model, its binding, or a decision model over one.

        The name is part of the key, because LangChain describes two local models alike. Streaming is off:
        `stream` and `astream` would ask the server without a look-up.
        """
        if isinstance(model, RunnableBindingBase):
            return model.model_copy(update={"bound": self.attach(model.bound, name)})
        if isinstance(model, LogprobDecisions):
            return model.model_copy(update={"chat": self.attach(model.chat, name)})
        if not isinstance(model, BaseChatModel):
            return model
        mine = copy.copy(self)
        mine._model = name
        # LangChain does not describe an address that the client has from OPENAI_BASE_URL.
        mine._server = str(getattr(getattr(model, "root_async_client", None), "base_url", ""))
        mine._reads_tasks = isinstance(model, _READ_TASKS)
        attached = model.model_copy(update={"cache": mine, "disable_streaming": True})
        vars(attached).pop("_serialized", None)  # LangChain's cached description of the model before it was changed
        return attached

    def lookup(self, prompt: str, llm_string: str) -> list[ChatGeneration] | None:
        """Return the reply to a call; None if it has to be made."""
        key, asked = self._key(prompt, llm_string), _ASKED.get() or Asked()
        with self._lock:
            number = asked.numbers[key]
            asked.numbers[key] += 1
            query = "SELECT reply FROM replies WHERE key = ? AND number = ?"
            found = self._db.execute(query, (key, number)).fetchone()
        if found is None:
            for check in self.gate:
                check()
            return None
        generations = []
        for one in json.loads(found[0]):
            [message] = messages_from_dict([one["message"]])
            generations.append(ChatGeneration(message=message, generation_info=one["info"]))
        return generations

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Any]) -> None:
        """Store the reply to a call, with its tokens or an estimate of them."""
        stored = [{"message": message_to_dict(one.message), "info": one.generation_info} for one in return_val]
        usage = getattr(return_val[0].message, "usage_metadata", None) or {}
        tokens = (usage.get("input_tokens", len(prompt) // 4), usage.get("output_tokens", len(return_val[0].text) // 4))
        key = self._key(prompt, llm_string)
        row = (key, self._run, self._model, *tokens, json.dumps(stored, default=_plain), key)
        with self._lock:
            self._db.execute(_STORE, row)
            (_ASKED.get() or Asked()).paid += 1
            spent = self.spent.setdefault(self._model, [0, 0, 0])
            spent[:] = [a + b for a, b in zip(spent, (1, *tokens), strict=True)]

    async def alookup(self, prompt: str, llm_string: str) -> list[ChatGeneration] | None:
        """Look up at once: LangChain's own would take a thread, which is slower than SQLite."""
        return self.lookup(prompt, llm_string)

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Any]) -> None:
        """Store at once."""
        self.update(prompt, llm_string, return_val)

    def clear(self, **_: Any) -> None:
        """Forget every reply."""
        with self._lock:
            self._db.execute("DELETE FROM replies")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _key(self, prompt: str, llm_string: str) -> bytes:
        """Return a call's key, without the tasks that only models of ours read."""
        if not self._reads_tasks and '"additional_kwargs"' in prompt:
            messages = json.loads(prompt)
            for message in messages:
                message.get("kwargs", {}).get("additional_kwargs", {}).pop("ragweave", None)
            prompt = json.dumps(messages)
        text = "\0".join((self._model, self._server, llm_string, prompt))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _plain(value: Any) -> Any:
    """Write down what a client has parsed out of a reply (`additional_kwargs["parsed"]`)."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)
