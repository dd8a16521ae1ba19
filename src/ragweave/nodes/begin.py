"""The first node of every graph: takes the question up and clears what an earlier turn left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Overwrite

from ragweave.errors import UsageError
from ragweave.nodes.option_types import typed
from ragweave.nodes.options import Options, OptionsT
from ragweave.nodes.step import Step, Work, pure
from ragweave.state import AnswerType, Update
from ragweave.state.passages import GIVEN, as_input

_TABLES = ("retrieved", "kept", "candidates", "verdicts", "augmented")


def begin_step(options: OptionsT) -> Step[OptionsT]:
    """Return the node `begin`."""

    def body(state: Mapping[str, Any], opts: OptionsT, _config: RunnableConfig) -> Work:
        return pure(begin(state, opts))

    return Step("begin", body, options)


def begin(state: Mapping[str, Any], options: Options) -> Update:
    """Check the question and set the state for one turn.

    With a checkpointer, a thread keeps its state from turn to turn: candidates, passages and
    usage of the last question must not count for this one. Passages count as given only where
    this input brought them.

    Raises:
        UsageError: The question is empty, the answer type is unknown, or the gold answers are
            no list of texts.
    """
    question = state.get("question")
    if not isinstance(question, str) or not question.strip():
        raise UsageError("the question is empty: ask something")
    answer_type = state.get("answer_type") or options.default_answer_type
    typed("answer_type", answer_type, AnswerType)
    given = [doc for doc in state.get("passages") or () if doc.metadata.get("query") == GIVEN]
    update: Update = {
        "question": question.strip(),
        "answer_kind": answer_type,
        "answer": "",
        "status": "unknown",
        "truncated": False,
        "queries": {"question": question.strip()},
        "passages": Overwrite(as_input(given)),
        "heuristic_answer": "",
        "known": None,
        "round": 0,
        "hops": [],
        "read": [],
        "written": "",
        "claims": [],
        "topic": "",
        "hop": 0,
        "gold": _gold(state.get("gold_answers")),
        **{key: Overwrite({}) for key in _TABLES},
        "notes": Overwrite([]),
        "usage": Overwrite(no_usage()),
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


def no_usage() -> dict[str, Any]:
    """Return an empty ledger."""
    return {
        "calls": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "estimated": False,
        "retrievals": 0,
        "by_role": {},
        "by_node": {},
    }
