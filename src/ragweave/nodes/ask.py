"""The model step: the one place that calls a chat model.

A node that asks a model is two pure functions: state → prompt, reply → update. This step chooses
the model by role, makes the prompt fit, makes the call (sync or async, from one body), and keeps
the ledger. Retries and backoff are LangGraph's, by the node's retry policy.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, cast

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase

from ragweave.nodes.options import Options, OptionsT
from ragweave.nodes.prompt import Fitted, Prompt, fit
from ragweave.nodes.step import Call, Context, StateT, Step, Work
from ragweave.state import Update, Usage
from ragweave.tools.models import ChatModel, Models, Role
from ragweave.tools.text.tokens import estimate_message_tokens, estimate_tokens


@dataclass(frozen=True)
class Reply:
    """What a model replied."""

    text: str
    """The reply's text; empty where the model said nothing or no passage fitted."""
    passages: Sequence[Document]
    """The passages that stood in the prompt."""
    message: BaseMessage | None = None
    """The message itself; None where no call was made."""


PromptOf = Callable[[StateT, OptionsT], Prompt]
UpdateOf = Callable[[StateT, Reply, Context[OptionsT]], Update]


@dataclass(frozen=True, kw_only=True)
class Question(Generic[StateT, OptionsT]):
    """A model question: its node's name, the role that answers, and how its prompt is made."""

    name: str
    role: Role
    prompt: PromptOf[StateT, OptionsT]


@dataclass(frozen=True, kw_only=True)
class Ask(Question[StateT, OptionsT]):
    """A model question with what becomes of the reply: a node's two pure functions.

    `update` gets the state, the reply and a context, which holds the options in force and takes
    notes: `context.note("step_unparsed")`.
    """

    update: UpdateOf[StateT, OptionsT]

    def step(self, models: Models, options: OptionsT) -> Step[StateT, OptionsT]:
        """Return the node that asks `models` this question."""

        def body(state: StateT, context: Context[OptionsT]) -> Work:
            return ask(self, models, state, context)

        return Step(self.name, body, options)


def ask(
    question: Ask[StateT, OptionsT], models: Models, state: StateT, context: Context[OptionsT]
) -> Work:
    """Ask once: prompt, call, update. The body of a model step, also for use inside a longer one."""
    reply = yield from reply_to(question, models, state, context)
    return question.update(state, reply, context)


def reply_to(
    question: Question[StateT, OptionsT],
    models: Models,
    state: StateT,
    context: Context[OptionsT],
) -> Generator[Call, Any, Reply]:
    """Ask once and return the reply; its usage, and what was dropped or empty, go to `context`.

    Where no passage fits the prompt the model is not asked: the reply is empty.
    """
    model = models.by_role(question.role)
    prompt = question.prompt(state, context.options)
    fitted = fit(prompt, _budget(model, context.options), estimate_message_tokens)
    if fitted.dropped:
        ids = [doc.id for doc in fitted.dropped]
        context.note("passages_dropped", dropped=ids, kept=len(fitted.passages))
        if not fitted.passages:
            return Reply("", [])
    settings = {**prompt.settings, **_form(model, prompt, fitted, context.options)}
    call = Call(model, fitted.messages, settings, _labelled(question, state, context.config))
    message = cast("BaseMessage", (yield call))
    text = message.text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates break JSON
    reply = Reply(text.strip(), fitted.passages, message)
    if not reply.text:
        context.note("empty_reply")
    context.spend(_usage(question, fitted, message))
    return reply


def context_of(model: ChatModel) -> int | None:
    """Return the most input tokens that `model` is known to take, by LangChain's model profile."""
    target = _unbound(model)
    profile = target.profile if isinstance(target, BaseChatModel) else None
    return (profile or {}).get("max_input_tokens")


def _unbound(model: ChatModel) -> object:
    target: object = model
    while isinstance(target, RunnableBindingBase):
        target = target.bound
    return target


def _form(model: ChatModel, prompt: Prompt, fitted: Fitted, options: Options) -> dict[str, str]:
    """Return the grammar as a setting of the call, where it is wanted and the model offers it."""
    offered = getattr(_unbound(model), "offers_grammar", False) is True
    if prompt.grammar is None or not options.constrain or not offered:
        return {}
    return {"grammar": prompt.grammar(fitted.passages)}


def _budget(model: ChatModel, options: Options) -> int | None:
    if options.prompt_tokens is not None:
        return options.prompt_tokens
    context = context_of(model)
    return None if context is None else max(context - options.reply_tokens, 1)


def _labelled(
    question: Question[Any, Any], state: Mapping[str, object], config: RunnableConfig
) -> RunnableConfig:
    labels = {
        "ragweave_node": question.name,
        "ragweave_role": question.role,
        "ragweave_sample": state.get("sample", 0),
    }
    return {
        **config,
        "tags": [*(config.get("tags") or ()), f"role:{question.role}"],
        "metadata": {**(config.get("metadata") or {}), **labels},
    }


def _usage(question: Question[Any, Any], fitted: Fitted, message: BaseMessage) -> Usage:
    reported = message.usage_metadata if isinstance(message, AIMessage) else None
    if reported:
        spent = reported["input_tokens"], reported["output_tokens"]
    else:
        spent = estimate_message_tokens(fitted.messages), estimate_tokens(message.text)
    tokens = {"calls": 1, "input_tokens": spent[0], "output_tokens": spent[1]}
    return cast(
        "Usage",
        {
            **tokens,
            "estimated": not reported,
            "retrievals": 0,
            "by_role": {question.role: tokens},
            "by_node": {question.name: tokens},
        },
    )
