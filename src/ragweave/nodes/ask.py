"""The model step: the one place that calls a chat model.

A node that asks a model is two pure functions: state → prompt, reply → update. This step chooses
the model by role, makes the prompt fit by dropping passages, makes the call (sync or async, from
one body), and counts its tokens. Retries and backoff are LangGraph's, by the node's retry policy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, cast

from langchain_core.documents import Document
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig

from ragweave.errors import PromptTooLongError
from ragweave.nodes.model_context import budget_of, learnt_context, tokens_left
from ragweave.nodes.options import Options, OptionsT
from ragweave.nodes.replies import bare_text
from ragweave.nodes.reply_form import (
    FormOf,
    before_stops,
    form_settings,
    held_tokens,
    length_settings,
    read_form,
    was_cut,
)
from ragweave.nodes.sampling import call_sampling, decodes_greedily, seed_settings
from ragweave.nodes.step import Call, Context, StateT, Step, Work
from ragweave.state import Update, Usage
from ragweave.state.passages import best_first
from ragweave.tools.models import ChatModel, Models, Role
from ragweave.tools.models.forms import cut_reply
from ragweave.tools.models.ollama import as_ollama_options
from ragweave.tools.models.roles import checked_reply, with_own_stops
from ragweave.tools.models.tasks import Task, attach, numbered, task_passages
from ragweave.tools.models.thinking import takes_stop
from ragweave.tools.prices import price_of
from ragweave.tools.text.normalize import estimate_message_tokens, estimate_tokens
from ragweave.tools.text.reply import bounded, reply_text, reported_tokens
from ragweave.tools.text.untrusted import render_passages

_LOGGER = logging.getLogger("ragweave.nodes")

Templates = Mapping[str, ChatPromptTemplate]
"""Prompt templates by name."""


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
    """Settings of this call, such as `temperature`; None leaves one to the model, whatever a paper's
    profile says."""
    render: Callable[[Sequence[Document]], str] = render_passages
    form: FormOf | None = None
    """The form of the reply, where it has one that `Options.constrain` may hold it to."""
    reply_tokens: int | None = None
    """Most tokens that the reply needs, also more than the default of the option `reply_tokens`;
    None: that option alone is the limit."""
    cuttable: str = ""
    """Name of the variable whose text may be cut at its end to fit; "": none."""

    def messages(self, passages: Sequence[Document]) -> list[BaseMessage]:
        """Render the prompt with `passages`, the task attached to its last message."""
        messages = self.template.format_messages(**self.values, passages=self.render(passages))
        task: Task = {**self.task, "passages": task_passages(passages)}
        return [*messages[:-1], attach(messages[-1], task)]

    def cut_by(self, tokens: int) -> Prompt | None:
        """Return the prompt with at most so many tokens less of what may be cut; None: nothing is.

        A token has two characters or more.
        """
        text = str(self.values.get(self.cuttable, ""))
        if len(text) < 2:
            return None
        kept = text[: max(len(text) - 2 * tokens, 0)] or "…"
        return replace(self, values={**self.values, self.cuttable: kept})


@dataclass(frozen=True)
class FittedPrompt:
    """A prompt as it is sent, and the passages that had to go."""

    messages: list[BaseMessage]
    passages: list[Document]
    dropped: list[Document]


def fit(
    prompt: Prompt, budget: int | None, count: Callable[[Sequence[BaseMessage]], int]
) -> FittedPrompt:
    """Render `prompt` within `budget` tokens, dropping passages from the lowest rank up.

    What the prompt allows to be cut is cut first. Passages keep their order. Where even one passage
    does not fit, none is left and the caller decides; a prompt without passages that does not fit is
    the caller's mistake.

    Args:
        prompt: The prompt.
        budget: Most tokens of the messages; None: no limit.
        count: Counts the tokens of messages.

    Raises:
        PromptTooLongError: The prompt is over the budget without any passage.
    """
    kept = list(prompt.passages)
    dropped: list[Document] = []
    while True:
        messages = prompt.messages(kept)
        if budget is None or (size := count(messages)) <= budget:
            return FittedPrompt(messages, kept, dropped)
        if shorter := prompt.cut_by(size - budget):
            prompt = shorter
            continue
        if not kept:
            raise PromptTooLongError(
                f"the prompt takes about {size} tokens without any passage, and {budget} fit: "
                f"shorten the question or raise prompt_tokens"
            )
        dropped.append(kept.pop(best_first(kept)[-1]))


@dataclass(frozen=True)
class Reply:
    """What a model replied."""

    text: str
    """The reply's text, bounded (`MAX_REPLY`); empty where the model said nothing or no passage
    fitted."""
    passages: Sequence[Document]
    """The passages that stood in the prompt."""
    message: BaseMessage | None = None
    """The message itself; None where no call was made."""
    prompt: Prompt | None = None
    """What was asked; None where no call was made."""


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

    What our estimate takes for short enough may be too long by the model's own count: it is asked
    with fewer passages then. Where no passage fits the prompt the model is not asked: the reply is
    empty.

    Raises:
        UsageError: The model replies with something that is no message.
        PromptTooLongError: The prompt is too long: without any passage by our estimate, or with one
            by the model's own count.
    """
    model = models.by_role(question.role)
    yield from learnt_context(model)
    prompt = question.prompt(state, context.options)
    dropped: list[Document] = []
    while True:
        fitted = fit(prompt, budget_of(model, context.options), estimate_message_tokens)
        dropped += fitted.dropped
        if dropped and not fitted.passages:
            reply = Reply("", [])
            break
        try:
            reply = yield from _asked(question, model, prompt, fitted, state, context)
            break
        except (PromptTooLongError, ContextOverflowError):
            if len(fitted.passages) < 2:
                raise
        prompt, lost = _with_fewer(prompt, fitted.passages)
        dropped += lost
    if dropped:
        ids = [doc.id for doc in dropped]
        context.note("passages_dropped", dropped=ids, kept=len(fitted.passages))
    return reply


def _with_fewer(prompt: Prompt, passages: Sequence[Document]) -> tuple[Prompt, list[Document]]:
    """Return a prompt without a fifth of its passages, of the lowest rank, and those."""
    kept = set(best_first(passages)[: len(passages) * 4 // 5])
    left = [doc for index, doc in enumerate(passages) if index in kept]
    lost = [doc for index, doc in enumerate(passages) if index not in kept]
    return replace(prompt, passages=left), lost


def _asked(
    question: Question[StateT, OptionsT],
    model: ChatModel,
    prompt: Prompt,
    fitted: FittedPrompt,
    state: StateT,
    context: Context[OptionsT],
) -> Generator[Call, Any, Reply]:
    """Make the call of a prompt that fits, and return the reply."""
    form = prompt.form(fitted.passages) if prompt.form else None
    held = yield from form_settings(model, form, context.options)
    settings = {**call_sampling(question.role, prompt.settings, model, context.options), **held}
    sample = state.get("sample", 0)
    settings = with_own_stops(model, settings | seed_settings(model, settings, sample))
    stops = [] if takes_stop(model) else settings.pop("stop", [])
    left = tokens_left(model, fitted.messages)
    wanted = _wanted(held_tokens(prompt.reply_tokens, form, held), left, context.options)
    config = _labelled(question, state, context.config)
    drawn = 0 if decodes_greedily(model, settings) else sample
    messages = numbered(fitted.messages, drawn)

    def call() -> Call:
        limit = length_settings(model, wanted, settings, context.options, left)
        # the limit holds `max_tokens`, by the name that the model knows
        others = {name: one for name, one in settings.items() if name != "max_tokens" or not limit}
        sent = as_ollama_options(model, {**others, **limit})
        return Call(model, messages, sent, config, rescue=cut_reply)

    def spend(message: BaseMessage) -> None:
        spent = _usage(question, model, fitted, message)
        context.spend(spent)
        _LOGGER.debug(
            "%s asked the model of role %s: %d tokens in, %d out%s",
            *(question.name, question.role, spent["input_tokens"], spent["output_tokens"]),
            " (estimated)" if spent["estimated"] else "",
        )

    message = yield from _message(call, spend, model, context)
    text = reply_text(message)
    _note_cuts(model, message, text, context)
    text = before_stops(read_form(text, form, settings), stops)
    reply = Reply(bounded(text.strip()), fitted.passages, message, prompt)
    if len(reply.text) < len(text.strip()):
        context.note("reply_cut", characters=len(text.strip()))
    if not reply.text:
        context.note("empty_reply")
    return reply


def _message(
    make: Callable[[], Call],
    spend: Callable[[BaseMessage], None],
    model: ChatModel,
    context: Context[Any],
) -> Generator[Call, Any, BaseMessage]:
    """Make a call; make it once more where thoughts that no room was left for took up the reply.

    That a model thinks may show in its first reply only. The first one stands where the longer one
    does not fit the model's context.

    Args:
        make: Returns the call, with room for thoughts once the model is known to have any.
        spend: Counts what a reply cost.
        model: The model.
        context: Takes a note.
    """
    call = make()
    message = checked_reply(model, (yield call))
    spend(message)
    text = reply_text(message)
    longer = make() if was_cut(model, message, text) else call
    if bare_text(text) or longer.settings == call.settings:
        return message
    try:
        again = checked_reply(model, (yield longer))
    except (PromptTooLongError, ContextOverflowError):
        return message
    spend(again)
    context.note("asked_again")
    return again


def reply_again(
    question: Question[StateT, OptionsT],
    models: Models,
    state: StateT,
    context: Context[OptionsT],
) -> Generator[Call, Any, Reply | None]:
    """Ask for what a first reply lacks, as `reply_to` does, noted `asked_again`.

    None where the prompt with that reply in it does not fit, by our estimate or by the model's own
    count: the first reading stands then.
    """
    try:
        reply = yield from reply_to(question, models, state, context)
    except (PromptTooLongError, ContextOverflowError):
        return None
    if reply.message is None:
        return None
    context.note("asked_again")
    return reply


def _note_cuts(model: ChatModel, message: BaseMessage, text: str, context: Context[Any]) -> None:
    """Note a reply that ended at its limit, and an input that a local model read in part."""
    if was_cut(model, message, text):
        context.note("reply_limit_reached")
    if message.response_metadata.get("input_cut"):
        context.note("input_cut")


def _wanted(wanted: int | None, left: int | None, options: Options) -> int | None:
    """Return what a reply needs: more than `budget_of` kept free only as far as the context goes."""
    if wanted is None or left is None or wanted <= options.reply_tokens:
        return wanted
    return min(wanted, max(left, options.reply_tokens))


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


def _usage(
    question: Question[Any, Any], model: ChatModel, fitted: FittedPrompt, message: BaseMessage
) -> Usage:
    reported = reported_tokens(message)
    spent = reported or (
        estimate_message_tokens(fitted.messages),
        estimate_tokens(reply_text(message)),
    )
    tokens = {"calls": 1, "input_tokens": spent[0], "output_tokens": spent[1]}
    price = price_of(model)
    priced = {} if price is None else {"usd": price.of(*spent), "priced_calls": 1}
    return cast(
        "Usage",
        {
            **tokens,
            "estimated": reported is None,
            "retrievals": 0,
            "by_role": {question.role: tokens},
            "by_node": {question.name: tokens},
            **priced,
        },
    )
