"""The models of a labelling: their specs without secrets, their calls, and draft answers.

A call is one of the graphs' own steps, run alone with its retries. Drafts are written by a proxy
model, or read from a field of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.nodes.ask import Ask, Prompt, Reply
from ragweave.nodes.judge import NecessityOptions
from ragweave.nodes.proxy import PROXY_PROMPTS, draft_step, settings
from ragweave.nodes.sampling import call_sampling
from ragweave.nodes.step import Context, Step
from ragweave.state import Update
from ragweave.tools.bindings import bound_settings, unbound
from ragweave.tools.models import ChatModel, Models
from ragweave.tools.models.tasks import Task
from ragweave.tools.text.reply import cut_off
from ragweave.tools.text.secrets import redacted
from ragweave.tools.text.untrusted import untrusted
from ragweave.training.labels.labeler import CachedCall
from ragweave.training.labels.source import InvalidRow, Item

OPTIONS = NecessityOptions(proxy_tokens=512)
"""SlimPLM's options with the paper's values."""


OBJECT = "object:"
"""What the name of a model begins with that was given as an object; its class follows."""

_NAMES = ("model_name", "model", "model_id", "repo_id", "path", "name")
"""Where chat models and scorers, LangChain's among them, keep what they run."""
_ADDRESSES = ("base_url", "openai_api_base")


def named_model(model: object, spec: str) -> str:
    """Return what is written down of a model: its spec, or its class and what tells it from others.

    Of an object these are the model that it runs, its server and the settings bound to it, as far
    as it says so. Keys and passwords are left out.

    Args:
        model: A chat model or a scorer.
        spec: The spec that it was made by; "": it was given as an object.
    """
    if spec:
        return redacted(spec)
    target = unbound(model)
    texts = (getattr(target, name, None) for name in _NAMES)
    runs = next((str(one) for one in texts if one and isinstance(one, str | Path)), "")
    settings = {**dict(_addresses(target)), **_bound(model)}
    name = ":".join([type(target).__name__, *([runs] if runs else [])])
    return redacted(f"{OBJECT}{name}{'?' if settings else ''}{urlencode(settings)}")


def _addresses(target: object) -> Iterator[tuple[str, str]]:
    for name in _ADDRESSES:
        if isinstance(value := getattr(target, name, None), str):
            yield "base_url", value


def _bound(model: object) -> dict[str, str | float]:
    """Return the plain settings of a model's bindings; an inner one's give way to an outer one's."""
    settings: dict[str, str | float] = {}
    for given in bound_settings(model):
        plain = {name: one for name, one in given.items() if isinstance(one, str | int | float)}
        settings = {**plain, **settings}
    return dict(sorted(settings.items()))


class _State(TypedDict, total=False):
    question: str
    resolved_answer_type: str
    heuristic_answer: str
    earlier: str
    errors: str
    reply: dict[str, Any]


class _Update(Update, total=False):
    reply: dict[str, Any]


def draft_settings(proxy: ChatModel) -> dict[str, Any]:
    """Return the settings that a proxy writes drafts with: not all take a temperature."""
    return call_sampling("proxy", settings(OPTIONS), proxy, OPTIONS)


class Drafter:
    """Writes draft answers as SlimPLM's proxy does (node `draft`)."""

    def __init__(self, proxy: ChatModel) -> None:
        """Take the proxy model."""
        models = Models(answer=proxy)
        self._graph = _single_step(draft_step(models, PROXY_PROMPTS, OPTIONS), models)

    async def draft(self, item: Item) -> dict[str, Any]:
        """Return `{"text": …}`, the draft; an empty one where the proxy said nothing."""
        kind = item.question.answer_type if item.question else "short"
        done = await self._graph.ainvoke({"question": item.text, "resolved_answer_type": kind})
        return {"text": done["heuristic_answer"]}


class Teacher:
    """Splits a draft into claims and queries under the paper's annotation rules (Table 8)."""

    def __init__(self, teacher: ChatModel) -> None:
        """Take the teacher model."""
        models = Models(answer=teacher)
        question = Ask[Any, NecessityOptions](
            name="rewrite", role="rewrite", prompt=_rewrite_prompt, update=_reply
        )
        self._graph = _single_step(question.step(models, OPTIONS), models)

    async def annotate(
        self, question: str, draft: str, earlier: str = "", errors: str = ""
    ) -> dict[str, Any]:
        """Return `{"text": …, "cut": …}`, the teacher's reply and whether it hit its limit.

        Args:
            question: The user's question.
            draft: The draft answer.
            earlier: The teacher's earlier reply, where it is asked again.
            errors: What was wrong with that reply.
        """
        given = {
            "question": question,
            "heuristic_answer": draft,
            "earlier": earlier,
            "errors": errors,
        }
        reply: dict[str, Any] = (await self._graph.ainvoke(given))["reply"]
        return reply


def _single_step(step: Step[Any, Any], models: Models) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph of one node, for its retries."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(_State)
    graph.add_node("step", step, retry_policy=models.retry)
    graph.add_edge(START, "step")
    graph.add_edge("step", END)
    return graph.compile()


def _rewrite_prompt(state: Any, _options: NecessityOptions) -> Prompt:
    draft = state["heuristic_answer"]
    task: Task = {"task": "rewrite", "question": state["question"], "draft": draft}
    values = {"question": state["question"], "draft": untrusted(draft)}
    template = PROXY_PROMPTS["rewrite"]
    if state["errors"]:
        said = [AIMessage(state["earlier"]), HumanMessage(_repair_prompt(state["errors"]))]
        template = ChatPromptTemplate([*template.messages, *said])
    return Prompt(template, task, values)


def _repair_prompt(errors: str) -> str:
    return (
        f"That breaks the rules:\n{errors}\n"
        "Write the whole reply again in the same format, with these faults mended and nothing "
        "else changed."
    )


def _reply(_state: Any, reply: Reply, _context: Context[NecessityOptions]) -> _Update:
    return {"reply": {"text": reply.text, "cut": cut_off(reply.message)}}


class Drafts:
    """Where the drafts of a labelling come from."""

    def __init__(self, proxy: ChatModel | None, spec: str, field: str | None) -> None:
        """Take a proxy model and its spec, or the name of a field.

        Raises:
            UsageError: Both or neither are given.
        """
        if (proxy is None) == (field is None):
            raise UsageError(
                "give --proxy MODEL, which writes drafts, or --draft FIELD, which has them"
            )
        self._drafter = Drafter(proxy) if proxy is not None else None
        self._field = field
        self.described: dict[str, Any] = {
            "draft": named_model(proxy, spec) if proxy is not None else f"field {field}"
        }
        """What is written down of it."""

    @property
    def asks(self) -> bool:
        """Whether a model is asked."""
        return self._drafter is not None

    def check(self, item: Item) -> InvalidRow | None:
        """Say whether a row lacks its draft; an empty one is a draft."""
        if self._field is None or isinstance(item.row.fields.get(self._field), str):
            return None
        found = ", ".join(map(str, item.row.fields))
        error = item.row.error(f"no text in {self._field!r}; found: {found}")
        return InvalidRow(item.index, item.data, "no draft", str(error))

    async def of(self, item: Item, call: CachedCall) -> str:
        """Return the draft of a question."""
        drafter = self._drafter
        if drafter is None:
            return str(item.row.fields[self._field or ""]).strip()
        reply = await call("draft", lambda: drafter.draft(item))
        return str(reply["text"]).strip()
