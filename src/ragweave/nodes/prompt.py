"""Prompts: a template with its values, passages and structured task, and how it is made to fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate

from ragweave.errors import UsageError
from ragweave.tools.tasks import Task, attach, task_passages
from ragweave.tools.text.untrusted import render_passages

Templates = Mapping[str, ChatPromptTemplate]
"""Prompt templates by name."""

Grammar = Callable[[Sequence[Document]], str]
"""From the passages that stand in a prompt to the GBNF grammar of its reply."""


@dataclass(frozen=True)
class Prompt:
    """What a node asks a model: rendered late, so that passages can be dropped to fit."""

    template: ChatPromptTemplate
    task: Task
    values: Mapping[str, Any] = field(default_factory=dict)
    """The template's variables, all but `passages`."""
    passages: Sequence[Document] = ()
    """Passages in prompt order; `metadata["rank"]` says which to drop first."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this call, such as `temperature`."""
    render: Callable[[Sequence[Document]], str] = render_passages
    grammar: Grammar | None = None
    """The form of the reply, where it has one that `Options.constrain` may hold it to."""

    def messages(self, passages: Sequence[Document]) -> list[BaseMessage]:
        """Render the prompt with `passages`, the task attached to its last message."""
        messages = self.template.format_messages(**self.values, passages=self.render(passages))
        task: Task = {**self.task, "passages": task_passages(passages)}
        return [*messages[:-1], attach(messages[-1], task)]


@dataclass(frozen=True)
class Fitted:
    """A prompt as it is sent, and the passages that had to go."""

    messages: list[BaseMessage]
    passages: list[Document]
    dropped: list[Document]


def fit(
    prompt: Prompt, budget: int | None, count: Callable[[Sequence[BaseMessage]], int]
) -> Fitted:
    """Render `prompt` within `budget` tokens, dropping passages from the lowest rank up.

    Passages keep their order. Where even one passage does not fit, none is left and the caller
    decides; a prompt without passages that does not fit is the caller's mistake.

    Args:
        prompt: The prompt.
        budget: Most tokens of the messages; None: no limit.
        count: Counts the tokens of messages.

    Raises:
        UsageError: The prompt is over the budget without any passage.
    """
    kept = list(prompt.passages)
    dropped: list[Document] = []
    while True:
        messages = prompt.messages(kept)
        if budget is None or (size := count(messages)) <= budget:
            return Fitted(messages, kept, dropped)
        if not kept:
            raise UsageError(
                f"the prompt takes about {size} tokens without any passage, and {budget} fit: "
                f"shorten the question or raise prompt_tokens"
            )
        lowest = max(range(len(kept)), key=lambda at: (kept[at].metadata.get("rank", at), at))
        dropped.append(kept.pop(lowest))


def with_overrides(
    own: Templates, overrides: Mapping[str, ChatPromptTemplate | str] | None
) -> dict[str, ChatPromptTemplate]:
    """Return `own` with some templates replaced by name.

    Args:
        own: The method's templates.
        overrides: Replacements; a text stands for a prompt of one human message.

    Raises:
        UsageError: A name is not one of the method's, or a replacement is malformed or asks for
            a variable that the original does not have.
    """
    templates = dict(own)
    for name, given in (overrides or {}).items():
        if name not in own:
            known = ", ".join(sorted(own)) or "none"
            raise UsageError(f"unknown prompt {name!r}: this method's prompts are {known}")
        template = _template(name, given) if isinstance(given, str) else given
        extra = set(template.input_variables) - set(own[name].input_variables)
        if extra:
            has = ", ".join(sorted(own[name].input_variables))
            raise UsageError(f"prompt {name!r} asks for {{{sorted(extra)[0]}}}, and has only {has}")
        templates[name] = template
    return templates


def _template(name: str, text: str) -> ChatPromptTemplate:
    try:
        return ChatPromptTemplate.from_template(text)
    except ValueError as error:
        raise UsageError(f"prompt {name!r}: {error} (write {{{{ and }}}} for braces)") from error
