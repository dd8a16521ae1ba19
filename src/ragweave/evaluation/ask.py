"""Asking a chat model outside of a graph: for a form, as judges and teachers are, or for a draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage

from ragweave.nodes import proxy, read
from ragweave.nodes.forms import Form
from ragweave.nodes.prompts import template_of
from ragweave.nodes.read import cut
from ragweave.tools.models import ChatModel, calls
from ragweave.tools.models.messages import text_of

FormT = TypeVar("FormT", bound=Form)

DRAFT: Mapping[str, Any] = {"temperature": 0.01, "top_p": 0.85, "max_tokens": 512}
"""How SlimPLM's proxy drafts (released code)."""
_LONGEST = 4000
"""The most characters of a draft."""


async def ask(model: ChatModel, form: type[FormT], messages: Sequence[BaseMessage]) -> FormT | None:
    """Ask for a form; None if the reply cannot be read.

    A model with structured output is constrained to the form; of any other the text is read.
    """
    if calls.constraint_of(model) != "none":
        constrained = model.with_structured_output(form, include_raw=True)  # type: ignore[attr-defined]
        try:
            output = await constrained.ainvoke(list(messages))
        except Exception as error:
            if not (calls.refuses_form(error) or calls.is_unparsed(error)):
                raise
            calls.learn_constraint(model, "none")
        else:
            found: FormT | None = output["parsed"]
            return found or form.from_text(_text(output["raw"]))
    return form.from_text(_text(await model.ainvoke(list(messages))))


async def draft(model: ChatModel, question: str) -> str:
    """Return a model's answer from memory, as SlimPLM's proxy drafts it (section 3.1)."""
    settings = dict(DRAFT)
    messages = template_of(proxy.PROMPTS["draft"]).format_messages(question=question)
    while True:
        try:
            reply = await calls.with_settings(model, settings).ainvoke(messages)
        except Exception as error:
            if not (name := calls.learn_refusal(model, error, settings)):
                raise
            del settings[name]
        else:
            return cut(_text(reply), _LONGEST)


def _text(message: BaseMessage) -> str:
    return read.plain(text_of(message))
