"""What models are asked and reply: a callback handler that takes down every model call.

`Calls` follows one run of a graph. `CallLog` follows all runs at once that begin while it is open,
whoever begins them, and writes each step's calls, with the notes of the step, as the step ends.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO, cast
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.reply_readers import read_record

from ragweave.tools.models.tasks import task_of

Notes = Mapping[str, list[dict[str, Any]]]
"""The notes of steps, by their executions."""


class Calls(AsyncCallbackHandler):
    """The model calls of one run."""

    run_inline = True

    def __init__(self, passages: Mapping[str, str], method: str = "") -> None:
        self.passages, self.method = passages, method
        self.open: dict[UUID, dict[str, Any]] = {}
        self.done: list[dict[str, Any]] = []

    async def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take the prompt."""
        known, asked = metadata or {}, kwargs.get("invocation_params") or {}
        task = task_of(messages[0]) or cast("Any", {})
        names = [one["id"] for one in task.get("passages", ())]
        self.open[run_id] = {
            "method": self.method,
            "node": known.get("ragweave_node", ""),
            "role": known.get("ragweave_role", ""),
            "execution": execution_of(known),
            "grammar": bool(asked.get("grammar")),
            "max_tokens": asked.get("max_tokens"),
            "question": task.get("question", ""),
            "answer_type": task.get("answer_type", "short"),
            "titles": [one["title"] for one in task.get("passages", ())],
            "passages": names,
            "prompt": [[one.type, str(one.text)] for one in messages[0]],
            "began": time.perf_counter(),
        }

    async def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Read the reply."""
        record = self._closed(run_id)
        generation = response.generations[0][0]
        record["reply"] = generation.text
        message = generation.message if isinstance(generation, ChatGeneration) else None
        record["finish"] = (message.response_metadata if message else {}).get("finish_reason")
        spent = getattr(message, "usage_metadata", None) or {}
        record["tokens"] = [spent.get("input_tokens"), spent.get("output_tokens")]
        try:
            record["read"] = read_record(record)
        except Exception as error:  # noqa: BLE001 - a parser that fails is what is looked for
            record["parser_failed"] = f"{type(error).__name__}: {error}"

    async def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Take down that the call failed."""
        if run_id in self.open:
            self._closed(run_id)["error"] = f"{type(error).__name__}: {error}"

    def _closed(self, run_id: UUID) -> dict[str, Any]:
        record = self.open.pop(run_id)
        record["seconds"] = round(time.perf_counter() - record.pop("began"), 3)
        self.done.append(record)
        return record

    def lines(self, notes: Notes) -> Iterator[dict[str, Any]]:
        """Yield the calls, each with its step's notes and its number in the step."""
        numbers: dict[str, int] = {}
        for record in self.done:
            name = record.pop("execution")
            record["turn"] = numbers[name] = numbers.get(name, -1) + 1
            record["notes"] = notes.get(name, [])
            record["prompt"] = [[kind, self._short(text, record)] for kind, text in record["prompt"]]
            yield record

    def _short(self, text: str, record: dict[str, Any]) -> str:
        for name in record["passages"]:
            passage = self.passages.get(name, "")
            text = text.replace(passage, f"⟦{name}⟧") if passage else text
        return text


def execution_of(metadata: Mapping[str, Any]) -> str:
    """Return the execution of a step that a call is made in."""
    return str(metadata.get("langgraph_checkpoint_ns", "")).rpartition(":")[2]


def plain_notes(found: object) -> list[dict[str, Any]]:
    """Return the notes of a step's update as JSON values."""
    update = found.get("notes") if isinstance(found, dict) else None
    return [
        {"event": one["event"], **{key: _plain(value) for key, value in one["detail"].items()}}
        for one in (update if isinstance(update, list) else ())
    ]


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str) else str(value)[:300]


class CallLog(Calls):
    """The model calls of many runs, whose threads are named `QUESTION/METHOD`."""

    def __init__(self, out: TextIO, about: Mapping[str, Any], models: Mapping[str, str]) -> None:
        """Start without a call.

        Args:
            out: Where the lines go.
            about: What each line says besides, such as the data set.
            models: The models' names by role; the other roles are played by that of `answer`.
        """
        super().__init__({})
        self._out, self._about, self._models = out, dict(about), models
        self._threads: dict[str, str] = {}
        self._steps: dict[UUID, str] = {}

    async def on_chain_start(
        self,
        serialized: dict[str, Any] | None,  # noqa: ARG002
        inputs: Any,  # noqa: ARG002
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        name: str = "",
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Note which step begins, and for which thread."""
        known = metadata or {}
        execution = execution_of(known)
        if execution and name == known.get("langgraph_node"):
            self._steps[run_id] = execution
            self._threads[execution] = str(known.get("thread_id", ""))

    async def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Write the calls of a step that has ended."""
        if (execution := self._steps.pop(run_id, None)) is not None:
            self._write(execution, plain_notes(outputs))

    async def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Write the calls of a step that has failed."""
        if (execution := self._steps.pop(run_id, None)) is not None:
            self._write(execution, [])

    def _write(self, execution: str, notes: list[dict[str, Any]]) -> None:
        index, _, method = self._threads.pop(execution).partition("/")
        mine = [one for one in self.done if one["execution"] == execution]
        self.done = [one for one in self.done if one["execution"] != execution]
        one = Calls({})
        one.done = mine
        for record in one.lines({execution: notes}):
            model = self._models.get(record["role"], self._models["answer"])
            about = {**self._about, "id": index, "model": model, "constrain": "auto"}
            line = {**record, **about, "method": method}
            self._out.write(json.dumps(line, ensure_ascii=False) + "\n")
        if mine:
            self._out.flush()


_LOG: ContextVar[CallLog | None] = ContextVar("call_log", default=None)
register_configure_hook(_LOG, inheritable=True)


@contextmanager
def logged(path: Path | None, about: Mapping[str, Any], models: Mapping[str, str]) -> Iterator[None]:
    """Write what is asked and replied meanwhile to a gzip file of JSON lines; None: to nothing."""
    if path is None:
        yield
        return
    with gzip.open(path, "wt", encoding="utf-8") as out:
        token = _LOG.set(CallLog(out, about, models))
        try:
            yield
        finally:
            _LOG.reset(token)
