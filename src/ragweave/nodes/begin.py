"""The first node of every graph: it takes the input and clears what a thread's last question left."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

from langgraph.managed.base import is_managed_value
from langgraph.runtime import Runtime

from ragweave.errors import UsageError
from ragweave.nodes.options import Options
from ragweave.state import AnswerType, RAGState, as_document, ranked

GIVEN = "input"
"""The query name of passages that came with the input."""


def begin_node(state_type: type[Any]) -> Any:
    """Return the node `begin`, which sets every key of a state."""
    empty = empty_state(state_type)

    def begin(state: RAGState, runtime: Runtime[Options]) -> dict[str, Any]:
        question = state.get("question")
        if not isinstance(question, str) or not question.strip():
            raise UsageError(
                "the input has no question: give {'question': …} (build_chat takes a conversation's messages)"
            )
        answer_type = state.get("answer_type") or runtime.context.default_answer_type
        if answer_type not in get_args(AnswerType):
            raise UsageError(f"answer_type must be one of {', '.join(get_args(AnswerType))}, not {answer_type!r}")
        given = ranked(map(as_document, state.get("passages") or ()), GIVEN)
        return {
            **empty,
            "question": question.strip(),
            "answer_type": answer_type,
            "gold_answers": [one for one in state.get("gold_answers") or () if one.strip()],
            "passages": given,
            "given": bool(given),
            "queries": {"question": question.strip()},
            "status": "unknown",
        }

    return begin


def empty_state(state_type: type[Any]) -> dict[str, Any]:
    """Return an update that clears every key of a state.

    A key with a reducer is set to None, which every reducer reads as "start over"; any other key to
    the empty value of its type, or None.
    """
    update: dict[str, Any] = {}
    for name, hint in get_type_hints(state_type, include_extras=True).items():
        while get_origin(hint) is NotRequired:
            hint = get_args(hint)[0]
        has_reducer = get_origin(hint) is Annotated
        if has_reducer and any(map(is_managed_value, get_args(hint)[1:])):
            continue
        kind = get_origin(hint) or hint
        update[name] = kind() if not has_reducer and kind in (str, int, bool, list, dict) else None
    return update
