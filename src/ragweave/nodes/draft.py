"""The heuristic answer: what a slim proxy model says without retrieval (SlimPLM, equation 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from ragweave.nodes.ask import Ask, Reply, ask
from ragweave.nodes.necessity import NecessityOptions
from ragweave.nodes.notes import note
from ragweave.nodes.options import OptionsT
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.replies import bare_text
from ragweave.nodes.step import Step, Work
from ragweave.nodes.widen import cut
from ragweave.state import Update
from ragweave.tools.models import Models
from ragweave.tools.tasks import Task

LONGEST = 4000
"""Characters of a draft that are judged and rewritten: about twice the 512 tokens asked for."""


def draft_step(models: Models, templates: Templates, options: OptionsT) -> Step[OptionsT]:
    """Return the node `draft`: the proxy answers from memory, close to greedily."""

    def prompt(state: Mapping[str, Any], opts: Any) -> Prompt:
        task: Task = {
            "task": "recall",
            "question": state["question"],
            "answer_type": state["answer_kind"],
        }
        values = {"question": state["question"]}
        return Prompt(templates["draft"], task, values, settings=settings(opts))

    def update(_state: Mapping[str, Any], _opts: Any, reply: Reply) -> Update:
        return {"heuristic_answer": cut(bare_text(reply.text), LONGEST)}

    question = Ask[OptionsT](name="draft", role="proxy", prompt=prompt, update=update)

    def body(state: Mapping[str, Any], opts: OptionsT, config: RunnableConfig) -> Work:
        told = yield from ask(question, models, state, opts, config)
        if not told["heuristic_answer"]:
            told["notes"] = [*told["notes"], note(config, "draft", "draft_empty")]
        return told

    return Step("draft", body, options)


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
