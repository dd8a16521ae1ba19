"""Model calls of a run: what identifies a call, what it cost, and the cache of replies.

A `ModelCall` carries digests of what identifies it, a `Ledger` counts calls and tokens by role
(paid for, or answered by the cache), and `ReplyCache` (`--cache replies.sqlite`) keeps replies by
model, settings and messages across runs.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict, messages_to_dict
from langchain_core.runnables import RunnableConfig

from ragweave.errors import UsageError
from ragweave.evaluation.runs.database import shared_database
from ragweave.state import Tokens
from ragweave.tools.bindings import unbound
from ragweave.tools.models.specs import takes_temperature
from ragweave.tools.models.tasks import KEY
from ragweave.tools.text.normalize import estimate_message_tokens, estimate_tokens
from ragweave.tools.text.reply import reply_text, reported_tokens


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call: its prompt, its model, and the question that it is made for."""

    spec: str
    """The model's spec string."""
    role: str
    thread: str
    """The question and system that it is made for."""
    position: str
    """Digest of its place in the graph, its prompt and which sample it is: the same again after a
    restart."""
    key: str
    """Digest of model, settings and messages, and for sampled calls of the sample: the same in
    every run."""
    messages: Any


def model_call(
    spec: str,
    sampled: bool,
    messages: Any,
    config: RunnableConfig | None,
    settings: Any,
    *,
    shared: bool = True,
    role: str = "",
) -> ModelCall:
    """Return a call with its digests.

    Args:
        spec: The model's spec string.
        sampled: Whether the model draws its words at random (temperature above 0).
        messages: The prompt: messages, or a text.
        config: The run configuration that LangGraph handed down.
        settings: Settings of this call, such as a temperature.
        shared: Whether runs share replies; else the reply's digest is "".
        role: Whose the call is; "": what the node says.
    """
    about: Mapping[str, Any] = (config or {}).get("metadata") or {}
    step, node = about.get("langgraph_step"), about.get("ragweave_node")
    path, sample = about.get("langgraph_path"), about.get("ragweave_sample")
    prompt = [_plain(messages), sorted((str(key), value) for key, value in settings.items())]
    place = [step, node, path, prompt]
    if sample:  # one node may ask several times; earlier versions left the number out
        place.append(sample)
    drawn = [node, path if sample is None else sample] if sampled else None
    return ModelCall(
        spec=spec,
        role=role or str(about.get("ragweave_role", "answer")),
        thread=str(((config or {}).get("configurable") or {}).get("thread_id", "")),
        position=_digest(place),
        key=_digest([spec, prompt, drawn]) if shared else "",
        messages=messages,
    )


def temperature_of(model: object, settings: Mapping[str, Any] = MappingProxyType({})) -> float:
    """Return the temperature that a model decodes a call with; 0 where it has none.

    A model that takes none, such as OpenAI's o3, draws its words all the same. Ollama's take theirs
    in a table of the call's settings, `options`.
    """
    for table in (settings, settings.get("options") or {}):
        if (told := table.get("temperature")) is not None:
            return float(told)
    own = getattr(unbound(model), "temperature", None)
    return float(own or 0.0) if takes_temperature(model) else 1.0


def dump(message: BaseMessage) -> str:
    """Return a message as JSON; half a character, which a reply cut short may end in, as "?"."""
    return _json(messages_to_dict([message])[0]).decode()


def load(text: str) -> BaseMessage:
    """Read what `dump` made."""
    return messages_from_dict([json.loads(text)])[0]


def tokens_of(message: BaseMessage, messages: Any) -> Tokens:
    """Return the tokens of a reply to `messages`, as reported, or estimated from characters."""
    reported = reported_tokens(message)
    if reported is None:
        listed = [one for one in messages if isinstance(one, BaseMessage)]
        reported = estimate_message_tokens(listed), estimate_tokens(reply_text(message))
    given, made = reported
    return {"calls": 1, "input_tokens": given, "output_tokens": made}


def _plain(messages: Any) -> Any:
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return str(messages)
    return [
        [one.type, one.content, {k: v for k, v in one.additional_kwargs.items() if k != KEY}]
        if isinstance(one, BaseMessage)
        else one
        for one in messages
    ]


def _digest(value: Any) -> str:
    return hashlib.sha256(_json(value)).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")


def no_tokens() -> Tokens:
    """Return zeros."""
    return {"calls": 0, "input_tokens": 0, "output_tokens": 0}


def _add(table: dict[str, Tokens], role: str, tokens: Mapping[str, Any], times: int = 1) -> None:
    entry = table.setdefault(role, no_tokens())
    entry["calls"] += times * tokens["calls"]
    entry["input_tokens"] += times * tokens["input_tokens"]
    entry["output_tokens"] += times * tokens["output_tokens"]


@dataclass(slots=True)
class Ledger:
    """Calls and tokens by role."""

    paid: dict[str, Tokens] = field(default_factory=dict)
    """What a model answered."""
    cached: dict[str, Tokens] = field(default_factory=dict)
    """What the cache answered."""

    def pay(self, role: str, tokens: Tokens) -> None:
        """Count a call that a model answered."""
        _add(self.paid, role, tokens)

    def hit(self, role: str, tokens: Tokens) -> None:
        """Count a call that the cache answered."""
        _add(self.cached, role, tokens)

    def add(self, plain: Mapping[str, Any], times: int = 1) -> None:
        """Add what `plain` of another ledger gave; `times=-1` takes off what was added before."""
        for role, tokens in plain["paid"].items():
            _add(self.paid, role, tokens, times)
        for role, tokens in plain["cached"].items():
            _add(self.cached, role, tokens, times)

    def only(self, role: str) -> Ledger:
        """Return what was spent in one role."""
        return Ledger(
            {name: one for name, one in self.paid.items() if name == role},
            {name: one for name, one in self.cached.items() if name == role},
        )

    def without(self, role: str) -> Ledger:
        """Return what was spent in all roles but one."""
        return Ledger(
            {name: one for name, one in self.paid.items() if name != role},
            {name: one for name, one in self.cached.items() if name != role},
        )

    def plain(self) -> dict[str, Any]:
        """Return JSON values, the roles in order of their names."""
        return {
            "paid": dict(sorted(self.paid.items())),
            "cached": dict(sorted(self.cached.items())),
        }

    @property
    def paid_tokens(self) -> int:
        """Input and output tokens paid for."""
        return sum(one["input_tokens"] + one["output_tokens"] for one in self.paid.values())

    @property
    def paid_calls(self) -> int:
        """Calls paid for."""
        return sum(one["calls"] for one in self.paid.values())

    @property
    def cached_calls(self) -> int:
        """Calls that the cache answered."""
        return sum(one["calls"] for one in self.cached.values())


_TABLE = """CREATE TABLE IF NOT EXISTS ragweave_replies (
    key TEXT PRIMARY KEY, model TEXT, message TEXT) WITHOUT ROWID"""


class ReplyCache:
    """Replies in a SQLite file, which several processes may share; a context manager."""

    def __init__(self, path: Path) -> None:
        """Open or make the file.

        Raises:
            UsageError: The file is something else, or cannot be written.
        """
        self.path = path
        try:
            self._file = shared_database(path, _TABLE, isolation_level=None)
        except sqlite3.Error as error:
            raise UsageError(f"--cache {path}: cannot be used ({error})") from error

    def __enter__(self) -> ReplyCache:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def get(self, key: str) -> str | None:
        """Return the message kept under `key`, as JSON, or None."""
        row = self._file.execute(
            "SELECT message FROM ragweave_replies WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else row[0]

    def put(self, key: str, model: str, message: str) -> None:
        """Keep a message; the first one kept under a key stays."""
        self._file.execute(
            "INSERT OR IGNORE INTO ragweave_replies VALUES (?, ?, ?)", (key, model, message)
        )

    def __len__(self) -> int:
        """Return how many replies are kept."""
        return int(self._file.execute("SELECT COUNT(*) FROM ragweave_replies").fetchone()[0])
