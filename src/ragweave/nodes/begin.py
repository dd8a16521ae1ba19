"""The first node of every graph: takes the question up and clears what an earlier turn left."""

from __future__ import annotations

import time

from langgraph.types import Overwrite

from ragweave.errors import UsageError
from ragweave.nodes.fresh import fresh
from ragweave.nodes.option_types import typed
from ragweave.nodes.options import Options, OptionsT
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.state import AnswerType, RAGState, Update
from ragweave.state.passages import GIVEN, as_input


def begin_step(
    options: OptionsT, state_type: type[RAGState] = RAGState
) -> Step[RAGState, OptionsT]:
    """Return the node `begin`.

    Args:
        options: The build's options.
        state_type: The graph's state: all of its fields are cleared for a thread's next question.

    Raises:
        UsageError: A field of the state has no empty value.
    """
    fresh(state_type)

    def body(state: RAGState, context: Context[OptionsT]) -> Work:
        return pure(begin(state, context.options, state_type))

    return Step("begin", body, options)


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
    asked_for = state.get("answer_type")
    answer_type = asked_for if asked_for else options.default_answer_type
    typed("answer_type", answer_type, AnswerType)
    given = [doc for doc in state.get("passages") or () if doc.metadata.get("query") == GIVEN]
    update: Update = {
        **fresh(state_type),
        "question": question.strip(),
        "resolved_answer_type": answer_type,
        "status": "unknown",
        "queries": {"question": question.strip()},
        "passages": Overwrite(as_input(given)),
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
        raise UsageError("gold_answers must be a list of texts")
    return [one for one in answers if one.strip()]
