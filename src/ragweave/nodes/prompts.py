"""Prompts: how one is declared, what a node asks with it, and what it gets back.

A prompt is declared as a text, which is the user's message, or as turns of a role and a text.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from typing import Any, Generic, Self, TypeAlias, TypeVar

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import BaseTool

from ragweave.nodes.forms import Form
from ragweave.roles import RoleName
from ragweave.tools.models.messages import TaskName
from ragweave.tools.text.untrusted import render_passages

Turns: TypeAlias = list[tuple[str, str]]
PromptText: TypeAlias = str | Turns | ChatPromptTemplate
Prompts: TypeAlias = Mapping[str, PromptText]
Templates: TypeAlias = Mapping[str, ChatPromptTemplate]

FormT = TypeVar("FormT", bound=Form)
UpdateT = TypeVar("UpdateT", bound=Mapping[str, Any])

SHORT_TOKENS, VERDICT_TOKENS, QUERY_TOKENS, PASSAGE_TOKENS, REASONING_TOKENS = 64, 32, 128, 256, 384
"""Reply limits in tokens. Small models tend to run on, which only costs time."""


@dataclass(frozen=True)
class Reply(Generic[FormT]):
    """What a model replied."""

    text: str = ""
    """Its text without thoughts; empty if the model said nothing or was not asked."""
    form: FormT | None = None
    """The prompt's form, filled in; None if the reply could not be read."""
    passages: Sequence[Document] = ()
    """The passages that stood in the prompt."""
    message: BaseMessage | None = None
    """The message itself, for its log-probabilities."""
    probability: float | None = None
    """The probability of yes, by a decision model, or by a chat model where the prompt asks for it (`probability`)."""

    @property
    def ids(self) -> list[str]:
        """The ids of the passages that stood in the prompt."""
        return [str(doc.id) for doc in self.passages]


@dataclass(frozen=True)
class Prompt(Generic[FormT]):
    """What a node asks. It is rendered late, so that passages can be dropped to make it fit."""

    name: str
    """The template's name; in a paper's words it is `NAME@PAPER` if there is one."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The template's variables, except `passages`; `question` and `answer_type` are the state's if they are not here."""
    passages: Sequence[Document] = ()
    _: KW_ONLY
    show: Callable[[Sequence[Document]], str] = render_passages
    form: type[FormT] | None = None
    max_tokens: int | None = None
    """The step's own reply limit; `reply_tokens` still holds."""
    task: TaskName = "answer"
    """The kind of step, for the embedded `extractive` model."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this call, such as a temperature."""
    stop: Sequence[str] = ()
    tools: Sequence[BaseTool] = ()
    """Tools that the reply may call."""
    constrain: bool = True
    """Whether the reply is constrained to the form where the model supports it; off where examples in the prompt or the
    model's training show another format."""
    turns: Callable[[Sequence[Document]], Sequence[BaseMessage]] = lambda _passages: ()
    """What follows the template: what the model wrote before, and what it was shown then, in turns."""
    own_turn: bool = False
    """Whether those are one turn of the model's, with which it goes on if it can (`Endpoint.continues`)."""
    probability: bool = False
    """Whether the probability of Yes is read from the first token's log-probabilities (`Reply.probability`)."""
    role: RoleName | None = None
    """The role of the model that is asked; None: the node's."""

    @property
    def asks_long(self) -> bool:
        """Whether the reply is a long answer, or may be: it is read uncut, with its code."""
        wanted = self.values.get("answer_type") == "long" and self.task in ("answer", "reason", "step")
        return wanted and self.form is None

    def again(self, reply: Reply[Any], request: str) -> Self:
        """Return a prompt that asks for something short after a reply to this one."""
        turns = [AIMessage(reply.text), HumanMessage(request)]
        return replace(self, passages=reply.passages, turns=lambda _passages: turns, max_tokens=SHORT_TOKENS)


Asking: TypeAlias = Generator[Prompt[FormT], Reply[FormT], UpdateT]
"""What a model node's function returns: it yields prompts, gets the replies, and returns an update."""


def template_of(prompt: PromptText) -> ChatPromptTemplate:
    """Return a prompt's template."""
    if isinstance(prompt, ChatPromptTemplate):
        return prompt
    return _template((("human", prompt),) if isinstance(prompt, str) else tuple((role, text) for role, text in prompt))


@cache  # most prompts belong to every method, and a template takes a while to make
def _template(turns: tuple[tuple[str, str], ...]) -> ChatPromptTemplate:
    return ChatPromptTemplate(list(turns))


def few_shot(ask: str, *examples: tuple[str | Mapping[str, str], str], system: str = "") -> Turns:
    """Return the turns of the prompt `ask` after worked examples: the values, or the question alone, and the reply."""
    turns = [("system", system)] if system else []
    for values, reply in examples:
        shown = ask.format(question=values) if isinstance(values, str) else ask.format(**values)
        turns += [("human", shown), ("ai", reply)]
    return [*turns, ("human", ask)]
