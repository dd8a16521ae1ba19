"""What a run asked and searched: every model call and every retrieval, by the node's visit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from typing_extensions import TypedDict


class Said(TypedDict):
    """A message of a prompt."""

    role: str
    text: str


class Asked(TypedDict):
    """A model call."""

    role: str
    """The role that the model played: answer, proxy, judge, rewrite, filter."""
    model: str
    prompt: list[Said]
    reply: str
    error: str


class Searched(TypedDict):
    """A retrieval."""

    query: str
    found: int
    error: str


class Calls(BaseCallbackHandler):
    """Collects model calls and retrievals, by LangGraph's task id."""

    run_inline = True

    def __init__(self) -> None:
        """Start with none."""
        self.asked: dict[str, list[Asked]] = {}
        self.searched: dict[str, list[Searched]] = {}
        self._open: dict[UUID, Any] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - LangChain's signature, as below
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Take a prompt."""
        known = metadata or {}
        asked: Asked = {
            "role": str(known.get("ragweave_role", "")),
            "model": str(known.get("ls_model_name") or ""),
            "prompt": [{"role": one.type, "text": str(one.text)} for one in messages[0]],
            "reply": "",
            "error": "",
        }
        self.asked.setdefault(_task(known), []).append(asked)
        self._open[run_id] = asked

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Take the reply."""
        if run_id in self._open:
            self._open.pop(run_id)["reply"] = response.generations[0][0].text

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Take a call's fault."""
        if run_id in self._open:
            self._open.pop(run_id)["error"] = _line(error)

    def on_retriever_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        query: str,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Take a query."""
        searched: Searched = {"query": query, "found": 0, "error": ""}
        self.searched.setdefault(_task(metadata or {}), []).append(searched)
        self._open[run_id] = searched

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Take what a query found."""
        if run_id in self._open:
            self._open.pop(run_id)["found"] = len(documents)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Take a query's fault."""
        if run_id in self._open:
            self._open.pop(run_id)["error"] = _line(error)


def _task(metadata: dict[str, Any]) -> str:
    """Return the id of the task that a call belongs to: the namespace is `node:id|…`."""
    space = str(metadata.get("langgraph_checkpoint_ns") or "")
    return space.partition("|")[0].rpartition(":")[2]


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
