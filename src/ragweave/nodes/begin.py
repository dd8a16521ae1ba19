"""The first node of every graph: checks the question and clears what an earlier turn left.

What a field is cleared to follows from its type.
"""

from __future__ import annotations

import functools
import time
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langgraph.channels.base import BaseChannel
from langgraph.managed.base import ManagedValue
from langgraph.types import Overwrite
from typing_extensions import is_typeddict

from ragweave.errors import UsageError
from ragweave.nodes.options import Options, OptionsT, typed
from ragweave.nodes.step import RUN_DEADLINE, Context, Step, Work, pure
from ragweave.state import AnswerType, RAGState, Update
from ragweave.state.passages import GIVEN, OF_RUN, as_input, whole

_EMPTY: Mapping[Any, Callable[[], object]] = {
    str: str,
    int: int,
    float: float,
    bool: bool,
    list: list,
    dict: dict,
    set: set,
    tuple: tuple,
    Sequence: list,
    Mapping: dict,
}
_FROM_INPUT = frozenset({"resolved_answer_type", "status"})
"""Fields that the node `begin` sets itself, since none of their values is empty."""


def fresh(state_type: type[Any]) -> Update:
    """Return the update that clears every field of a state, whoever declared it.

    A field starts at the empty value of its type (`""`, 0, `[]`, None where it may be None), past
    its reducer where it has one. Fields with a channel of their own or a managed value are left
    out: they do not outlive what they are for.

    Raises:
        UsageError: A field's type has no empty value.
    """
    update: dict[str, object] = {
        name: Overwrite(make()) if merged else make()
        for name, make, merged in _fields(cast("Hashable", state_type))
    }
    return cast("Update", update)


@functools.cache
def _fields(state_type: Hashable) -> list[tuple[str, Callable[[], object], bool]]:
    """Return name, maker of the empty value and whether a reducer merges, by field."""
    found = []
    for name, hint in get_type_hints(state_type, include_extras=True).items():
        kind, extras = _unwrapped(hint)
        if name in _FROM_INPUT or any(map(_clears_itself, extras)):
            continue
        merged = bool(extras) and callable(extras[-1])
        make = _maker(kind, f"the field {name!r} of {getattr(state_type, '__name__', state_type)}")
        found.append((name, make, merged))
    return found


def _unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a field's type and what `Annotated` says beside it."""
    extras: tuple[Any, ...] = ()
    while get_origin(hint) in (Annotated, Required, NotRequired):
        if get_origin(hint) is Annotated:
            extras = (*get_args(hint)[1:], *extras)
        hint = get_args(hint)[0]
    return hint, extras


def _clears_itself(extra: object) -> bool:
    kind = extra if isinstance(extra, type) else type(extra)
    return issubclass(kind, BaseChannel | ManagedValue)


def _maker(kind: Any, where: str) -> Callable[[], object]:
    """Return what makes the empty value of a type."""
    origin = get_origin(kind)
    choices = get_args(kind) if origin in (Union, types.UnionType) else ()
    if kind is None or kind is type(None) or type(None) in choices:
        return lambda: None
    if origin is Literal and "" in get_args(kind):
        return str
    if is_typeddict(kind):
        return _record_maker(kind, where)
    if make := _EMPTY.get(origin or kind):
        return make
    raise UsageError(
        f"{where} has no empty value to start a question with: annotate it as "
        f"{getattr(kind, '__name__', kind)} | None"
    )


def _record_maker(kind: Any, where: str) -> Callable[[], object]:
    hints = get_type_hints(kind, include_extras=True)
    makers = {
        name: _maker(_unwrapped(hint)[0], where)
        for name, hint in hints.items()
        if get_origin(hint) is not NotRequired
    }
    return lambda: {name: make() for name, make in makers.items()}


def begin_step(
    options: OptionsT, state_type: type[RAGState] = RAGState
) -> Step[RAGState, OptionsT]:
    """Return the node `begin`.

    Within another graph, whose state may still hold the passages of an earlier run, it notes
    `passages_given_by_graph` where these take the place of retrieval.

    Args:
        options: The build's options.
        state_type: The graph's state: all of its fields are cleared for a thread's next question.

    Raises:
        UsageError: A field of the state has no empty value.
    """
    fresh(state_type)

    def body(state: RAGState, context: Context[OptionsT]) -> Work:
        update = begin(state, context.options, state_type)
        earlier = [doc for doc in _given(state) if OF_RUN in doc.metadata]
        if earlier and _is_inner(context.config):
            context.note("passages_given_by_graph", passages=len(earlier))
        return pure(_in_time(update, context.config))

    return Step("begin", body, options)


def _is_inner(config: RunnableConfig) -> bool:
    """Say whether this is a node of a graph within another one, by LangGraph's path of tasks."""
    path = (config.get("metadata") or {}).get("langgraph_checkpoint_ns")
    return "|" in str(path)


def _given(state: RAGState) -> list[Document]:
    """Return the passages that this input brought."""
    return [doc for doc in state.get("passages") or () if doc.metadata.get("query") == GIVEN]


def _in_time(update: Update, config: RunnableConfig) -> Update:
    """Return an update whose deadline is no later than the run's."""
    outer: float | None = (config.get("configurable") or {}).get(RUN_DEADLINE)
    if outer is not None:
        update["deadline"] = min(outer, update.get("deadline", outer))
    return update


def begin(state: RAGState, options: Options, state_type: type[RAGState] = RAGState) -> Update:
    """Check the question and set the state for one turn.

    With a checkpointer, a thread keeps its state from turn to turn: candidates, passages and
    usage of the last question must not count for this one. Passages count as given only where
    this input brought them.

    Raises:
        UsageError: The question is empty, the answer type is unknown, or the gold answers are
            no list of texts.
    """
    question: object = state.get("question")
    if not isinstance(question, str) or not question.strip():
        raise UsageError("the question is empty: ask something")
    asked = whole(question.strip())
    asked_for = state.get("answer_type")
    answer_type = asked_for if asked_for else options.default_answer_type
    typed("answer_type", answer_type, AnswerType)
    update: Update = {
        **fresh(state_type),
        "question": asked,
        "resolved_answer_type": answer_type,
        "status": "unknown",
        "queries": {"question": asked},
        "passages": Overwrite(as_input(_given(state))),
        "gold": _gold(state.get("gold_answers")),
    }
    if options.timeout is not None:
        update["deadline"] = time.time() + options.timeout
    return update


def _gold(answers: object) -> list[str]:
    """Return the gold answers of an input, or none."""
    if answers is None:
        return []
    if not isinstance(answers, list | tuple) or not all(isinstance(one, str) for one in answers):
        raise UsageError("gold_answers must be a list of strings")
    return [one for one in answers if one.strip()]
