"""The heuristic answer: what a slim proxy model says without retrieval (SlimPLM, equation 1)."""

from __future__ import annotations

from typing import Any

from ragweave.nodes.ask import Ask, Reply
from ragweave.nodes.necessity import NecessityOptions
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.replies import bare_text
from ragweave.nodes.step import Context, Step
from ragweave.nodes.widen import cut
from ragweave.state import RAGState, Update
from ragweave.tools.models import Models
from ragweave.tools.tasks import Task

LONGEST = 4000
"""Characters of a draft that are judged and rewritten: about twice the 512 tokens asked for."""


def draft_step(
    models: Models, templates: Templates, options: NecessityOptions
) -> Step[RAGState, NecessityOptions]:
    """Return the node `draft`: the proxy answers from memory, close to greedily."""

    def prompt(state: RAGState, opts: NecessityOptions) -> Prompt:
        task: Task = {
            "task": "recall",
            "question": state["question"],
            "answer_type": state["resolved_answer_type"],
        }
        values = {"question": state["question"]}
        return Prompt(templates["draft"], task, values, settings=settings(opts))

    def update(_state: RAGState, reply: Reply, context: Context[NecessityOptions]) -> Update:
        draft = cut(bare_text(reply.text), LONGEST)
        if not draft:
            context.note("draft_empty")
        return {"heuristic_answer": draft}

    question = Ask[RAGState, NecessityOptions](
        name="draft", role="proxy", prompt=prompt, update=update
    )
    return question.step(models, options)


def settings(options: NecessityOptions) -> dict[str, Any]:
    """Return the sampling settings of the draft.

    The authors also set top_k 1 and a repetition penalty of 1.05, which OpenAI-type servers don't
    take; with a temperature of 0.01 the first changes nothing.
    """
    wanted = {
        "temperature": options.proxy_temperature,
        "top_p": options.proxy_top_p,
        "max_tokens": options.proxy_tokens,
    }
    return {name: value for name, value in wanted.items() if value is not None}
