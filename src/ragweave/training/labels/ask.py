"""Model calls of a labelling: the graphs' own steps, run one at a time with their retries."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from ragweave.nodes.ask import Ask, Reply
from ragweave.nodes.draft import draft_step, settings
from ragweave.nodes.necessity import NecessityOptions
from ragweave.nodes.prompt import Prompt
from ragweave.nodes.proxy_prompts import PROXY_PROMPTS
from ragweave.nodes.replies import cut_off
from ragweave.nodes.step import Context, Step
from ragweave.state import Update
from ragweave.tools.models import ChatModel, Models
from ragweave.tools.tasks import Task
from ragweave.tools.text.untrusted import untrusted
from ragweave.training.labels.source import Item

OPTIONS = NecessityOptions()
"""SlimPLM's options with the paper's values."""


class _State(TypedDict, total=False):
    question: str
    resolved_answer_type: str
    heuristic_answer: str
    earlier: str
    errors: str
    reply: dict[str, Any]


class _Update(Update, total=False):
    reply: dict[str, Any]


def draft_settings() -> dict[str, Any]:
    """Return the settings that drafts are written with."""
    return settings(OPTIONS)


class Drafter:
    """Writes draft answers as SlimPLM's proxy does (node `draft`)."""

    def __init__(self, proxy: ChatModel) -> None:
        """Take the proxy model."""
        models = Models(answer=proxy)
        self._graph = _alone(draft_step(models, PROXY_PROMPTS, OPTIONS), models)

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
        self._graph = _alone(question.step(models, OPTIONS), models)

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


def _alone(step: Step[Any, Any], models: Models) -> CompiledStateGraph[Any, Any, Any, Any]:
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
        said = [AIMessage(state["earlier"]), HumanMessage(_again(state["errors"]))]
        template = ChatPromptTemplate([*template.messages, *said])
    return Prompt(template, task, values)


def _again(errors: str) -> str:
    return (
        f"That breaks the rules:\n{errors}\n"
        "Write the whole reply again in the same format, with these faults mended and nothing "
        "else changed."
    )


def _reply(_state: Any, reply: Reply, _context: Context[NecessityOptions]) -> _Update:
    return {"reply": {"text": reply.text, "cut": cut_off(reply.message)}}
