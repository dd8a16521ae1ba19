"""A conversation over any method: the follow-up is restated, the method answers, citations come along.

    chat = build_chat("concat_pf", model="openai:gpt-4o-mini", retriever=retriever)
    chat.invoke({"messages": [("user", "Who wrote it?")]})["messages"][-1].text

The graph takes and gives `messages`: it stands behind LangGraph's Agent Server and Studio, as an
agent's subagent, or in a graph of one's own.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any, cast, get_type_hints

from langchain_core.messages import RemoveMessage, convert_to_messages
from langchain_core.prompts import ChatPromptTemplate
from langgraph.graph import END, START
from langgraph.types import Checkpointer, RetryPolicy

from ragweave.errors import UsageError
from ragweave.graphs.build import build_graph, part_of
from ragweave.graphs.frame import MAX_CONCURRENCY, CompiledGraph, Draft, DrawnGraph
from ragweave.graphs.method import Method
from ragweave.nodes.conversation import (
    NOTHING_NEW,
    RESTATE,
    as_asked_step,
    is_answer,
    question_of,
    reply_step,
    restate_step,
    silent,
    to_restate,
    turn_step,
)
from ragweave.nodes.options import Options, at_least
from ragweave.nodes.overrides import with_overrides
from ragweave.nodes.step import Route
from ragweave.state.chat import ChatInput, ChatOutput, ChatState
from ragweave.tools.models import ChatModel, Models, chat_model

_LOGGER = logging.getLogger("ragweave.graphs")

HISTORY_TOKENS = 1_000
"""Tokens of the conversation that a follow-up is restated with, unless said otherwise."""
_LEAST_TOKENS = 4
"""Of fewer, a message's role and marks leave none for what it says."""

PROMPTS = {"restate": RESTATE}


class ChatGraph(DrawnGraph[ChatOutput]):
    """A compiled conversation.

    Every input asks something: a thread's last question is not asked again. A key of the input other
    than `messages` is an error, but for those of an earlier output, given back whole; as a node of
    another graph it is given all of that graph's state, and takes what it knows.
    """

    def _taken(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        known = _OF_STATE if given.keys() >= _OF_OUTPUT else {"messages"}
        for key in given:
            if key not in known:
                raise UsageError(
                    f"the input has a key {key!r}, and a conversation takes messages alone"
                    f"{_INSTEAD.get(key, '')}"
                )
        check_asks(given)
        return given


def check_asks(given: Mapping[str, Any]) -> None:
    """Check that an input's messages ask something; a thread that goes on is given None instead.

    Raises:
        UsageError: There is no message of the user, or none behind the last answer, or it holds
            something else than text, or no text.
    """
    raw = given.get("messages") or []
    messages = convert_to_messages(raw if isinstance(raw, list) else [raw])
    if messages and isinstance(messages[-1], RemoveMessage):
        return  # an answer may be taken back, and what it answered is asked again
    kinds = ["answer" if is_answer(one) else one.type for one in messages]
    asked = max((at for at, kind in enumerate(kinds) if kind == "human"), default=-1)
    if asked < 0 or "answer" in kinds[asked:]:
        raise UsageError(NOTHING_NEW)
    question_of(messages[asked])


_OF_OUTPUT = frozenset(get_type_hints(ChatOutput))
_OF_STATE = _OF_OUTPUT | get_type_hints(ChatState).keys()
"""What a thread's state or an earlier output holds, which may be given back whole."""
_INSTEAD = {
    "passages": "; build_graph(…) answers from given passages",
    "answer_type": "; context={'answer_type': …} sets it for a run",
    "question": ": the last message of the user is the question",
}


def build_chat(
    name: str | Method = "concat_pf",
    *,
    model: str | ChatModel = "extractive",
    restater: str | ChatModel | None = None,
    history_tokens: int = HISTORY_TOKENS,
    prompts: Mapping[str, ChatPromptTemplate | str] | None = None,
    checkpointer: Checkpointer = None,
    citations: bool = True,
    **method: Any,
) -> ChatGraph:
    """Build a conversation over a method.

    The graph takes `{"messages": [...]}`; its output has the answer as the last message, a
    LangChain `AIMessage` of standard content blocks with citations as annotations, and beside it
    what the method gives: `answer`, `status`, `passages`, `citations`, `usage`, … `question` is
    the question as it was restated. A stream of messages shows the answer alone, word by word.

    Args:
        name: Name of the method, or a `Method` of one's own.
        model: The model that answers, as for `build_graph`.
        restater: The model that restates follow-ups; None: `model`.
        history_tokens: Most tokens of the conversation that a follow-up is restated with, the
            latest turns first.
        prompts: Prompt templates that replace those of the method, or `restate` (variables
            `history`, `question`).
        checkpointer: Where LangGraph keeps threads; None: every input brings its whole
            conversation.
        citations: Whether the sentences that support the answer are cited.
        **method: More arguments of `build_graph`: `retriever`, other models, the method's options.

    Raises:
        UsageError: As `build_graph`, or `history_tokens` is no whole number above 3.
        MissingExtraError: A model's packages are not installed.

    Example:
        >>> chat = build_chat("concat", model="extractive?similarity=lexical",
        ...                   retriever=my_retriever)
        >>> chat.invoke({"messages": [("user", "How many moons has Mars?")]})["answer"]
        'two'
    """
    answering = chat_model(model)
    given = dict(prompts or {})
    own = {name: given.pop(name) for name in tuple(given) if name in PROMPTS}
    graph = build_graph(name, model=answering, prompts=given, citations=citations, **method)
    return chat_over(
        graph,
        answering if restater is None else chat_model(restater),
        history_tokens=history_tokens,
        restate=with_overrides(PROMPTS, own)["restate"],
        checkpointer=checkpointer,
        retry_policy=method.get("retry_policy"),
    )


def chat_over(
    graph: CompiledGraph,
    restater: ChatModel,
    *,
    history_tokens: int = HISTORY_TOKENS,
    restate: ChatPromptTemplate = RESTATE,
    checkpointer: Checkpointer = None,
    retry_policy: RetryPolicy | None = None,
) -> ChatGraph:
    """Put a compiled method into a conversation; a run's context sets the method's options.

    Args:
        graph: The compiled method, without a checkpointer of its own.
        restater: The model that restates follow-ups; where it is a trained part, which can't,
            they are asked as they are, noted `restate_unable`.
        history_tokens: Most tokens of the conversation that it sees.
        restate: Its prompt.
        checkpointer: Where LangGraph keeps threads.
        retry_policy: Which errors of restating are tried again; None: as `build_graph` has it.

    Raises:
        UsageError: `history_tokens` is no whole number above 3.
    """
    at_least("history_tokens", history_tokens, _LEAST_TOKENS)
    if graph.builder.context_schema is None:
        raise UsageError("a conversation needs a method's graph, as build_graph makes it")
    options = cast("Options", graph.builder.context_schema())
    method, retry = str(graph.get_name()), retry_policy or Models(answer=restater).retry

    chat = Draft(
        ChatState,
        context_schema=type(options),
        input_schema=ChatInput,
        output_schema=ChatOutput,
    )
    restating = (
        restate_step(restater, restate, options, history_tokens)
        if _can_restate(restater)
        else as_asked_step(options)
    )
    chat.add_node("turn", turn_step(options))
    chat.add_node("restate", restating, retry_policy=retry)
    chat.add_node(method, silent(graph))
    chat.add_node("reply", reply_step(options))
    chat.add_edge(START, "turn")
    chat.add_conditional_edges(
        "turn",
        Route(to_restate(history_tokens), options),
        {"follow-up": "restate", "first question": method},
    )
    chat.add_edge("restate", method)
    chat.add_edge(method, "reply")
    chat.add_edge("reply", END)

    compiled = chat.compile(checkpointer=checkpointer, name="chat")
    drawn = ChatGraph(**vars(compiled))
    return drawn.with_config({"max_concurrency": MAX_CONCURRENCY})


def restater_of(answering: ChatModel, other: ChatModel | None) -> ChatModel:
    """Return the model that restates follow-ups: the other one where only that can."""
    if other is None or part_of(other) is not None or part_of(answering) is None:
        return answering
    return other


def _can_restate(restater: ChatModel) -> bool:
    part = part_of(restater)
    if part is not None:
        _warn(part.folder, part.role)
    return part is None


@functools.cache
def _warn(folder: str, role: str) -> None:
    """Warn once: a server builds its graph for each run."""
    _LOGGER.warning(
        "%s: is a trained %s and cannot restate follow-ups: they are asked as they are; name "
        "another model to restate them (--proxy; in Python: restater)",
        folder,
        role,
    )
