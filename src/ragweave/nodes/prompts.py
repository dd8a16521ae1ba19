"""How a prompt is declared: as a text, which is the user's message, or as turns of a role and a text."""

from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

from langchain_core.prompts import ChatPromptTemplate

Turns: TypeAlias = list[tuple[str, str]]
PromptText: TypeAlias = str | Turns | ChatPromptTemplate
Prompts: TypeAlias = Mapping[str, PromptText]


def template_of(prompt: PromptText) -> ChatPromptTemplate:
    """Return a prompt's template."""
    if isinstance(prompt, ChatPromptTemplate):
        return prompt
    return _made((("human", prompt),) if isinstance(prompt, str) else tuple((role, text) for role, text in prompt))


@cache  # most prompts belong to every method, and a template takes a while to make
def _made(turns: tuple[tuple[str, str], ...]) -> ChatPromptTemplate:
    return ChatPromptTemplate(list(turns))


def few_shot(ask: str, *examples: tuple[str | Mapping[str, str], str], system: str = "") -> Turns:
    """Return the turns of the prompt `ask` after worked examples: the values, or the question alone, and the reply."""
    turns = [("system", system)] if system else []
    for values, reply in examples:
        shown = ask.format(question=values) if isinstance(values, str) else ask.format(**values)
        turns += [("human", shown), ("ai", reply)]
    return [*turns, ("human", ask)]
