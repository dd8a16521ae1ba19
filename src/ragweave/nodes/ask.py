"""The model step: the one place that calls a chat model.

A model node is a function that yields a prompt, gets the reply, and returns an update of the state:

    @model_node("judge")
    def grade(state: Grading, options: CragOptions) -> Asking[Grade, CragState]:
        reply = yield Prompt("grade", passages=[state["passage"]], form=Grade)
        return {"grades": {str(state["passage"].id): reply.form.grade if reply.form else "Ambiguous"}}

    graph.add_node("grade", grade(components))

In between, this module chooses the model by role, fits the prompt to its context, constrains the reply to its
form where the model supports that, and counts tokens. LangGraph retries (`set_node_defaults`).

A decision model in the role (`langchain_core.decisions.BaseDecisionModel`) reads no prompt: it gets the
question, the draft and the passages as its state, and the form's own question (`Form.decides`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from inspect import isgeneratorfunction
from itertools import chain
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar, cast

from langchain_core.decisions import BaseDecisionModel, NoulAnswer
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.runtime import get_runtime
from pydantic import ValidationError

from ragweave.errors import BrokenReplyError, PromptTooLongError, UsageError
from ragweave.nodes import read
from ragweave.nodes.forms import Form, Ids
from ragweave.nodes.options import Options, OptionsT
from ragweave.nodes.prompts import Asking, FormT, Prompt, Reply, Templates, UpdateT
from ragweave.nodes.runner import Caller, Components, FunctionNode, Node
from ragweave.roles import RoleName
from ragweave.state import Note, Tokens, Usage, add_usage, no_usage, note, running
from ragweave.state.passages import lowest_ranked
from ragweave.tools.models import calls
from ragweave.tools.models.budget import BudgetSpent, current_budget
from ragweave.tools.models.calls import Endpoint
from ragweave.tools.models.decisions import LOGPROBS, log_odds, sigmoid
from ragweave.tools.models.messages import (
    Ending,
    StreamReport,
    Task,
    attach,
    ending_of,
    reason_of,
    task_passage,
    text_of,
    tokens_of,
    tool_calls_of,
    without_echo,
)
from ragweave.tools.prices import Price, check_priced, price_of
from ragweave.tools.text.untrusted import title_of
from ragweave.tools.text.words import estimate_message_tokens, estimate_tokens

_LOGGER = logging.getLogger("ragweave")

StateT = TypeVar("StateT", bound=Mapping[str, Any])


def model_node(
    role: RoleName | Callable[[Any], RoleName],
) -> Callable[[Callable[[StateT, OptionsT], Asking[FormT, UpdateT]]], Callable[[Components], Node]]:
    """Make a node of the decorated function, which asks the model of a role, or of the role that the options choose.

    The function gets the state and the options. If there is nothing to ask, it returns an update at once.

    Raises:
        UsageError: The function yields nothing; in a run, it yields something other than a `Prompt`, or does not return an update.
    """

    def decorate(asking: Callable[[StateT, OptionsT], Asking[FormT, UpdateT]]) -> Callable[[Components], Node]:
        name = getattr(asking, "__name__", "ask")
        if not isgeneratorfunction(asking):
            raise UsageError(f"the model node {name} must yield its prompt: reply = yield Prompt(…)")

        def node(components: Components) -> Node:
            async def ask(state: Any, config: RunnableConfig, caller: Caller) -> dict[str, Any]:
                options: Any = get_runtime(Options).context
                chosen = role(options) if callable(role) else role
                steps, answered = asking(state, options), list[_Answered]()
                try:
                    prompt = next(steps)
                    while True:
                        answered += await _ask(prompt, chosen, components, state, config, caller)
                        prompt = steps.send(answered[-1].reply)
                except StopIteration as end:
                    return _with_costs(end.value, answered)

            return FunctionNode(ask, name)

        return node

    return decorate


class _Answered(NamedTuple):
    """A call that a model has replied to, or that the budget refused (`refused`)."""

    reply: Reply[Any]
    usage: Usage
    notes: list[Note]
    refused: bool = False
    broken: str = ""
    """Why the provider broke off the reply; "": it didn't."""


def _with_costs(update: Any, answered: Sequence[_Answered]) -> dict[str, Any]:
    """Return an update, with what all calls cost and what is to be noted."""
    if not isinstance(update, Mapping):
        fault = f"returned a {type(update).__name__}, not an update of the state (a dict)"
        raise UsageError(f"the node {running()[1]} {fault}") from None
    usage = reduce(add_usage, (call.usage for call in answered), update.get("usage", no_usage()))
    notes = [*chain.from_iterable(call.notes for call in answered), *update.get("notes", ())]
    spent = {"truncated": True} if any(call.refused for call in answered) else {}
    return {**update, **spent, "usage": usage, "notes": notes}


async def _ask(
    prompt: Any, role: RoleName, components: Components, state: Any, config: RunnableConfig, caller: Caller
) -> list[_Answered]:
    """Ask the model of the prompt's role, else of the node's; the last reply counts, those before it were broken off."""
    if not isinstance(prompt, Prompt):
        raise UsageError(f"the node {running()[1]} yielded a {type(prompt).__name__}, not a Prompt")
    role = prompt.role or role
    known = {name: state[name] for name in ("question", "answer_type") if name in state}
    prompt = replace(prompt, values={**known, **prompt.values})
    endpoint, options = Endpoint(components.models.for_role(role)), get_runtime(Options).context
    if options.max_cost_usd is not None:
        check_priced(endpoint.model)
    if isinstance(endpoint.client, BaseDecisionModel):
        return [await _ask_decision_model(prompt, role, endpoint, config, caller)]
    call = _prepared(prompt, role, endpoint, components.prompts, state, options)
    return await _ask_chat_model(call, _labelled(config, role, call.sample), caller)


@dataclass(frozen=True)
class _Call:
    """A model call: what is sent, to which model, and how its reply is read."""

    endpoint: Endpoint
    role: RoleName
    prompt: Prompt[Any]
    template: ChatPromptTemplate
    sample: int
    form: type[Form] | None
    """What the reply is constrained to; None: free text."""
    messages: Sequence[BaseMessage] = ()
    turns: int = 0
    """How many of the messages follow the template."""
    dropped: Sequence[Document] = ()
    learned: calls.Constraint | None = None
    """What to remember of the model if this call succeeds after a stricter one was refused."""
    refused: Sequence[str] = ()
    """Settings that the server refused."""

    @property
    def continues(self) -> bool:
        """Whether the model goes on with a turn of its own."""
        return self.prompt.own_turn and self.turns > 0 and self.endpoint.continues

    @property
    def given(self) -> list[BaseMessage]:
        """The messages, of which those after the template are one if the model goes on with it."""
        if not self.continues:
            return list(self.messages)
        own = "".join(str(message.text) for message in self.messages[-self.turns :])
        last = AIMessage(own, additional_kwargs=self.messages[-1].additional_kwargs)
        return [*self.messages[: -self.turns], last]

    def runnable(self) -> Any:
        """Return the model with this call's settings, constrained to the form."""
        model = self.endpoint.with_settings(self.prompt.settings)
        if self.form:
            return calls.with_form(model, self.form)
        if self.prompt.tools:
            return calls.with_tools(model, self.prompt.tools)
        if self.prompt.stop and self.endpoint.takes("stop"):
            return model.bind(stop=[*dict.fromkeys([*self.endpoint.own_stops, *self.prompt.stop])])
        return model

    def fitted(self, limit: int | None) -> Self:
        """Return the call rendered, without its lowest-ranked passages if the prompt is longer than `limit` tokens.

        Raises:
            PromptTooLongError: The prompt is too long without any passage.
        """
        prompt, dropped = self.prompt, list(self.dropped)
        while True:
            passages = list(prompt.passages)
            turns = list(prompt.turns(passages))
            messages = _rendered(self.template, prompt, turns, self.sample)
            if limit is None or (size := estimate_message_tokens(messages)) <= limit or (dropped and not passages):
                return replace(self, prompt=prompt, messages=messages, turns=len(turns), dropped=dropped)
            if not passages:
                raise PromptTooLongError(
                    f"the prompt takes about {size} tokens without any passage, but only {limit} fit: shorten the "
                    "question or raise prompt_tokens"
                )
            dropped.append(passages.pop(lowest_ranked(passages)))
            prompt = replace(prompt, passages=passages)

    def relaxed(self, error: Exception) -> Self:
        """Return the call without what the model or its server refused: passages, a setting, a form.

        Any other error is raised.
        """
        if calls.is_overflow(error) and self.prompt.passages:
            limit = int(_SHRINK * estimate_message_tokens(self.messages))
            shorter = self.fitted(limit)
            if shorter.prompt.passages or estimate_message_tokens(shorter.messages) <= limit:
                return shorter  # else it is the question that does not fit
        stop = {"stop"} if self.prompt.stop and not self.form else set()
        sent = self.prompt.settings.keys() | stop | ({"continue_final_message"} if self.continues else set())
        if name := self.endpoint.learn_refusal(error, sent - set(self.refused)):
            settings = {other: value for other, value in self.prompt.settings.items() if other != name}
            return replace(self, refused=[*self.refused, name], prompt=replace(self.prompt, settings=settings))
        if self.form and calls.refuses_form(error) and not calls.is_overflow(error):
            looser = self.form.unbounded() if self.form.bounded else None
            return replace(self, form=looser, learned="unbounded" if looser else "none")
        if calls.is_overflow(error) and not isinstance(error, PromptTooLongError):
            raise PromptTooLongError(
                f"the model's server refused the prompt as too long: {calls.server_text(error)}"
            ) from error
        if self.form and calls.is_unparsed(error):
            ignored = isinstance(error, ValidationError)  # a server that enforces forms writes JSON
            return replace(self, form=None, learned="none" if ignored else None)
        raise error

    def dropped_notes(self) -> list[Note]:
        return [note("passages_dropped", dropped=[doc.id for doc in self.dropped])] if self.dropped else []

    def read(self, output: Any, report: StreamReport) -> _Answered:
        """Return the reply, what it cost and what is to be noted."""
        message, form = (output["raw"], output["parsed"]) if self.form else (output, None)
        if not isinstance(message, BaseMessage):
            raise UsageError(
                f"the model replied with a {type(message).__name__}, not a message: leave out the output parser"
            )
        message = report.corrected(message)
        sent, received, estimated = tokens_of(message, self.messages)
        free, model = self.endpoint.is_free(message), self.endpoint.named(report.asked[1])
        dollars = _dollars(model, 1, sent, received, free=free)
        usage = cost_of(self.role, 1, sent, received, estimated=estimated, dollars=dollars)
        ending = ending_of(message)
        if fault := self._fault(message, ending, report):
            return _broken(fault, usage)
        if self.learned:
            self.endpoint.learned.constraint = self.learned
        offered = self.form is not None or bool(self.prompt.tools)
        full = text_of(message, called=offered)
        own = without_echo(full, self.messages, self._quotable())
        text = _before((read.whole if self.prompt.asks_long else read.plain)(own), self.prompt.stop)
        if form is None and self.prompt.form and text:
            form = self.prompt.form.from_text(text)
        notes = [*self.dropped_notes(), *(note("setting_refused", setting=name) for name in self.refused)]
        expected = estimate_message_tokens(self.messages)
        cut = expected > _LONG and not estimated and sent < expected / 2
        if cut:
            warning = "the server read %d of about %d tokens: raise its context, or set prompt_tokens"
            _LOGGER.warning(warning, sent, expected)
        events = {
            "input_cut": cut,
            "reply_limit_reached": ending == "length" and not self.prompt.probability,
            "content_filtered": ending == "content_filter",
            "ending_unknown": report.streamed and not ending,
            "prompt_echoed": own != full,
            "tool_not_offered": not offered and bool(tool_calls_of(message)),
            "empty_reply": not text and form is None and not (offered and tool_calls_of(message)),
            "reply_unreadable": bool(text) and self.prompt.form is not None and form is None,
        }
        notes += [note(event) for event, happened in events.items() if happened]
        chance = sigmoid(log_odds(message)) if self.prompt.probability and text else None
        return _Answered(Reply(text, form, self.prompt.passages, message, probability=chance), usage, notes)

    def _fault(self, message: BaseMessage, ending: Ending, report: StreamReport) -> str:
        """Return how the provider broke off a reply; "" if it didn't.

        A stream without an ending was broken off if the model has ever said how a reply ended. Before that it counts as
        whole, since it has been shown and paid for.
        """
        if ending == "failed":
            return reason_of(message)
        say_ending = self.endpoint.learned.say_ending
        if report.streamed and ending:
            say_ending.add(report.asked)
        cut = report.streamed and not ending and report.asked in say_ending
        return "the stream ended without a reason" if cut else ""

    def _quotable(self) -> list[str]:
        """Return the texts of the prompt that a reply may repeat."""
        passages = [f"{title_of(doc)} {doc.page_content}" for doc in self.prompt.passages]
        return [*(value for value in self.prompt.values.values() if isinstance(value, str)), *passages]


async def _ask_chat_model(call: _Call, config: RunnableConfig, caller: Caller) -> list[_Answered]:
    """Make a call, again if its model refuses a part of it or breaks off its reply."""
    answered = list[_Answered]()
    while call.prompt.passages or not call.dropped:  # once all passages are dropped, there is nothing to ask
        try:
            outcome = await _outcome(call, config, caller)
        except BudgetSpent as spent:
            return [*answered, _refused(spent)]
        if isinstance(outcome, _Call):
            call = outcome
            continue
        answered.append(outcome)
        if not outcome.broken:
            return answered
        if len(answered) == _TRIES:
            raise BrokenReplyError(f"the model's provider broke off its reply {_TRIES} times: {outcome.broken}")
    return [*answered, _Answered(Reply(), no_usage(), call.dropped_notes())]


async def _outcome(call: _Call, config: RunnableConfig, caller: Caller) -> _Call | _Answered:
    """Return what the model answered, or the call without what it refused."""
    endpoint, report = call.endpoint, StreamReport()
    if pause := endpoint.pause():
        left = current_budget().seconds_left()
        await caller.sleep(pause if left is None else min(pause, max(left, 0.0)))
    async with current_budget().call(awaits=caller.awaits):
        try:
            watched = merge_configs(config, {"callbacks": [report]})
            output = await caller.call(call.runnable(), call.given, watched, is_sync=endpoint.is_sync)
        except Exception as error:  # noqa: BLE001 - `relaxed` raises what is not about the call
            endpoint.learn_pause(error)
            return _broken("the stream was empty") if calls.is_empty_stream(error) else call.relaxed(error)
        return call.read(output, report)


_TRIES = 3
"""How often a model is asked whose provider breaks off its replies."""


def _broken(fault: str, usage: Usage | None = None) -> _Answered:
    """Return what is left of a call whose reply was broken off."""
    return _Answered(Reply(), usage or no_usage(), [note("reply_broken_off", reason=fault)], broken=fault)


def _refused(spent: BudgetSpent) -> _Answered:
    """Return what is left of a call that the run's budget refused."""
    return _Answered(Reply(), no_usage(), [note("budget_spent", limit=str(spent))], refused=True)


def _labelled(config: RunnableConfig, role: RoleName, sample: int) -> RunnableConfig:
    labels = {"ragweave_role": role, "ragweave_sample": sample}
    tags = [*(config.get("tags") or ()), f"role:{role}"]
    return {**config, "tags": tags, "metadata": {**(config.get("metadata") or {}), **labels}}


Dollars: TypeAlias = tuple[float, int]
"""What calls cost in US dollars, and the number of those whose price is known."""


def _dollars(model: Any, count: int, sent: int, received: int, *, free: bool = False) -> Dollars:
    price = Price(0, 0) if free else price_of(model)
    return (price.of(sent, received), count) if price else (0.0, 0)


def cost_of(role: str, count: int, sent: int, received: int, *, estimated: bool, dollars: Dollars = (0.0, 0)) -> Usage:
    """Return the usage of calls of a role; the run's budget counts them."""
    tokens: Tokens = {"calls": count, "input_tokens": sent, "output_tokens": received}
    tables = {"by_role": {role: tokens}, "by_node": {running()[1]: tokens}}
    usd, priced = dollars
    current_budget().spend(count, sent + received, usd)
    cost = {"usd": usd, "priced_calls": priced} if priced else {}
    return cast("Usage", {**tokens, **cost, "estimated": estimated, **tables})


async def _ask_decision_model(
    prompt: Prompt[Any], role: RoleName, endpoint: Endpoint, config: RunnableConfig, caller: Caller
) -> _Answered:
    """Ask a decision model: once, or once for each passage where passages are chosen."""
    form, requests = prompt.form, _requests(prompt, role)
    if not requests or form is None:
        return _Answered(Reply(), no_usage(), [])
    labelled = _labelled(config, role, 0)
    try:
        async with current_budget().call(len(requests), awaits=caller.awaits):
            responses = await caller.call(endpoint.model.map(), requests, labelled, is_sync=endpoint.is_sync)
    except BudgetSpent as spent:
        return _refused(spent)
    answers = [response.answers["answer"] for response in responses]
    chances = [answer.noul if isinstance(answer, NoulAnswer) else answer.probabilities for answer in answers]
    threshold = 0.5 if (stated := getattr(endpoint.client, "threshold", None)) is None else stated
    if issubclass(form, Ids):
        best = sorted(enumerate(chances, prompt.values.get("first", 1)), key=lambda numbered: -numbered[1])
        filled: Any = form.model_construct(ids=[number for number, chance in best if chance > threshold])
        chance = None
    else:
        filled, chance = form.from_answer(answers[0], threshold), getattr(answers[0], "noul", None)
    reported = [response.usage for response in responses if response.usage]
    estimated = len(reported) < len(responses)
    sent = [counts["input_tokens"] for counts in reported]
    if estimated:
        sent = [estimate_tokens(str(request["state"])) for request in requests]
    written = sum(counts["output_tokens"] for counts in reported)
    dollars = _dollars(endpoint.client, len(responses), sum(sent), written)
    usage = cost_of(role, len(responses), sum(sent), written, estimated=estimated, dollars=dollars)
    reply = Reply(form=filled, passages=prompt.passages, probability=chance)
    return _Answered(reply, usage, [note("decided", probabilities=chances)])


def _requests(prompt: Prompt[Any], role: RoleName) -> list[dict[str, Any]]:
    """Return what a decision model is asked: a state of question, draft and passages, and the form's own question.

    Raises:
        UsageError: The step has no form that a decision can fill in.
    """
    if prompt.form is None or prompt.form.decides is None:
        raise UsageError(
            f"the step {prompt.name!r} needs a chat model, and the {role} is a decision model: name another"
        )
    values = {name: value for name, value in prompt.values.items() if name in _STATE_VALUES and isinstance(value, str)}
    given = {name: value for name, value in values.items() if value}
    texts = [f"{doc.metadata.get('title') or ''}\n{doc.page_content}".lstrip("\n") for doc in prompt.passages]
    contexts: list[dict[str, Any]] = [{"passage": text} for text in texts]
    if not issubclass(prompt.form, Ids) and len(texts) != 1:
        contexts = [{"passages": texts} if texts else {}]
    return [{"state": {**given, **context}, "questions": {"answer": prompt.form.decides}} for context in contexts]


_STATE_VALUES = ("question", "draft", "summary", "first", "second")
"""The values of a prompt that a decision model reads; a passage or passages are added."""
_SHRINK = 0.75
"""The share of a prompt that is sent again after a server refused it as too long."""
_LONG = 1_000
"""Prompts with fewer tokens are too short for our estimate to show that a server cut them."""


def _prepared(
    prompt: Prompt[Any],
    role: RoleName,
    endpoint: Endpoint,
    templates: Templates,
    state: Mapping[str, Any],
    options: Options,
) -> _Call:
    """Choose the template and the settings, and drop the lowest-ranked passages until the prompt fits."""
    sample = state.get("sample", 0)
    template = templates.get(f"{prompt.name}@{options.paper}") or templates[prompt.name]
    limit = options.prompt_tokens
    if limit is None and (context := endpoint.profile.get("max_input_tokens")):
        limit = max(context - options.reply_tokens, 1)
    settings = _settings(prompt, endpoint, role, sample, options)
    prompt = replace(prompt, settings={**settings, **LOGPROBS} if prompt.probability else settings)
    constrained = options.constrain and prompt.constrain and not prompt.probability
    constraint = endpoint.constraint if constrained else "none"
    form = prompt.form if constraint != "none" else None
    if form and constraint == "unbounded":
        form = form.unbounded() or form
    return _Call(endpoint, role, prompt, template, sample, form).fitted(limit)


def _rendered(
    template: ChatPromptTemplate, prompt: Prompt[Any], turns: Sequence[BaseMessage], sample: int
) -> list[BaseMessage]:
    """Render the messages, the last of which carries the task that the `extractive` model reads."""
    passages = prompt.passages
    *before, last = [*template.format_messages(**prompt.values, passages=prompt.show(passages)), *turns]
    known = {name: prompt.values[name] for name in _TASK_VALUES & prompt.values.keys()}
    numbered = {"sample": sample} if sample else {}
    task = {"task": prompt.task, **known, "passages": [*map(task_passage, passages)], **numbered}
    return [*before, attach(last, cast("Task", task))]


_TASK_VALUES = {"question", "answer_type", "earlier", "draft", "first"}


def _settings(prompt: Prompt[Any], endpoint: Endpoint, role: RoleName, sample: int, options: Options) -> dict[str, Any]:
    """Return a call's settings: its own, the paper's sampling, a seed for each sample, its reply limit."""
    sampling = options.sampling if options.paper or (role == "generator" and options.top_p is not None) else {}
    settings = {**sampling, **prompt.settings}
    seed = getattr(endpoint.client, "seed", None)
    if sample and isinstance(seed, int):
        settings["seed"] = seed + sample  # with one seed for all, every sample would be the same draw
    if endpoint.profile.get("reasoning_output"):
        return settings  # thoughts count towards the limit, so that a short one leaves no answer
    limits = [prompt.max_tokens] if prompt.max_tokens else []
    is_papers = options.paper and role != "generator"  # a paper's limit is that of answers
    if not limits or (options.is_set("reply_tokens") and not is_papers):
        limits.append(options.reply_tokens)
    return {**settings, "max_tokens": min(limits)}


def _before(text: str, stops: Sequence[str]) -> str:
    """Cut a text at the first stop sequence, as not every model accepts them."""
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(ends)].strip() if ends else text
