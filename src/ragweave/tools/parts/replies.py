"""What a trained judge, rewriter or generator replies to a task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ragweave.tools.parts.card import PartRole
from ragweave.tools.parts.forms import (
    PartInput,
    documents,
    generator_input,
    judge_input,
    verdict,
)
from ragweave.tools.tasks import Task, TaskName

if TYPE_CHECKING:
    from ragweave.tools.parts.kinds import Scoring
    from ragweave.tools.parts.writers import TextWriter

TASKS: Mapping[PartRole, TaskName] = MappingProxyType(
    {"judge": "judge", "rewriter": "rewrite", "generator": "answer"}
)
"""The one task of each role; a filter has none, it is no chat model."""


class PartReply(NamedTuple):
    """A reply, what it cost, and what else there is to tell of it."""

    text: str
    input_tokens: int
    output_tokens: int
    about: dict[str, Any]


def scored_verdict(scorer: Scoring, task: Task, threshold: float) -> PartReply:
    """Return the verdict of a judge that scores: known where the probability is above `threshold`.

    Source: SlimPLM, section 3.2; the probability in the place of the released code's margin.
    """
    pair = (task["question"], task.get("draft", ""))
    probability = scorer.score([pair])[0]
    text = verdict(probability > threshold)
    about = {"probability": probability, "threshold": threshold, "finish_reason": "stop"}
    return PartReply(text, sum(scorer.count([pair])), 0, about)


def written_reply(writer: TextWriter, task: Task, limit: int | None) -> PartReply:
    """Return what a part that writes text replies; `limit` is the most tokens, None: its own."""
    written = writer.write([task_input(task)], limit)[0]
    about = {
        "finish_reason": "stop" if written.finished else "length",
        "input_cut": written.cut,
    }
    return PartReply(written.text, written.input_tokens, written.output_tokens, about)


def task_input(task: Task) -> PartInput:
    """Return the text form of a task, the one that the part was trained on."""
    if task["task"] == "answer":
        return generator_input(task["question"], documents(task.get("passages", [])))
    return judge_input(task["question"], task.get("draft", ""))
