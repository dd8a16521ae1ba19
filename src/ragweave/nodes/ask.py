"""The model step: the one place that calls a chat model.

A node that asks a model is two pure functions: state → prompt, reply → update. This step chooses
the model by role, makes the prompt fit, makes the call (sync or async, from one body), and keeps
the ledger. Retries and backoff are LangGraph's, by the node's retry policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, cast

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from ragweave.nodes.notes import note
from ragweave.nodes.options import Options, OptionsT
from ragweave.nodes.prompt import Fitted, Prompt, fit
from ragweave.nodes.step import Call, Step, Work
from ragweave.state import Note, Update, Usage
from ragweave.tools.models import ChatModel, Models, Role
from ragweave.tools.models.bindings import unbound
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


PromptOf = Callable[[Mapping[str, Any], OptionsT], Prompt]
UpdateOf = Callable[[Mapping[str, Any], OptionsT, Reply], Update]


@dataclass(frozen=True, kw_only=True)
class Ask(Generic[OptionsT]):
    """A model question: its node name, the role that answers, and the two pure functions."""

    name: str
    role: Role
    prompt: PromptOf[OptionsT]
    update: UpdateOf[OptionsT]

    def step(self, models: Models, options: OptionsT) -> Step[OptionsT]:
        """Return the node that asks `models` this question."""

        def body(state: Mapping[str, Any], opts: OptionsT, config: RunnableConfig) -> Work:
            return ask(self, models, state, opts, config)

        return Step(self.name, body, options)


def ask(
    question: Ask[OptionsT],
    models: Models,
    state: Mapping[str, Any],
    options: OptionsT,
    config: RunnableConfig,
) -> Work:
    """Ask once: prompt, call, update. The body of a model step, also for use inside a longer one.

    The update holds what the question's own `update` returns, and the call's usage and notes.
    """
    model = models.by_role(question.role)
    prompt = question.prompt(state, options)
    fitted = fit(prompt, _budget(model, options), estimate_message_tokens)
    notes = [_dropped(question.name, fitted, config)] if fitted.dropped else []
    if fitted.dropped and not fitted.passages:
        return {**question.update(state, options, Reply("", [])), "notes": notes}
    settings = {**prompt.settings, **_form(model, prompt, fitted, options)}
    call = Call(model, fitted.messages, settings, _labelled(question, state, config))
    message = cast("BaseMessage", (yield call))
    text = message.text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates break JSON
    reply = Reply(text.strip(), fitted.passages, message)
    if not reply.text:
        notes.append(note(config, question.name, "empty_reply"))
    update = question.update(state, options, reply)
    return {
        **update,
        "usage": _usage(question, fitted, message),
        "notes": [*notes, *update.get("notes", [])],
    }


def context_of(model: ChatModel) -> int | None:
    """Return the most input tokens that `model` is known to take, by LangChain's model profile."""
    target = unbound(model)
    profile = target.profile if isinstance(target, BaseChatModel) else None
    return (profile or {}).get("max_input_tokens")


def _form(model: ChatModel, prompt: Prompt, fitted: Fitted, options: Options) -> dict[str, str]:
    """Return the grammar as a setting of the call, where it is wanted and the model offers it."""
    offered = getattr(unbound(model), "offers_grammar", False) is True
    if prompt.grammar is None or not options.constrain or not offered:
        return {}
    return {"grammar": prompt.grammar(fitted.passages)}


def _budget(model: ChatModel, options: Options) -> int | None:
    if options.prompt_tokens is not None:
        return options.prompt_tokens
    context = context_of(model)
    return None if context is None else max(context - options.reply_tokens, 1)


def _labelled(
    question: Ask[Any], state: Mapping[str, Any], config: RunnableConfig
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


def _dropped(name: str, fitted: Fitted, config: RunnableConfig) -> Note:
    ids = [doc.id for doc in fitted.dropped]
    return note(config, name, "passages_dropped", dropped=ids, kept=len(fitted.passages))


def _usage(question: Ask[Any], fitted: Fitted, message: BaseMessage) -> Usage:
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
