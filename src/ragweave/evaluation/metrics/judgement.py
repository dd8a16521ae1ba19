"""What a judged metric asks its judge, and what becomes of the replies.

A judged metric is a generator: it yields `JudgeQuestion`s, is sent each reply, and returns a
`Judgement`. Who calls the model, counts its tokens and keeps its replies is the run's business
(`ragweave.evaluation.runs.judging`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate

from ragweave.datasets.question import Question
from ragweave.nodes.ask import Reply
from ragweave.nodes.reply_form import FormOf
from ragweave.tools.text.untrusted import render_passages

_SHOWN = 200
"""Characters of an unreadable reply that a record keeps."""


@dataclass(frozen=True, kw_only=True)
class JudgeQuestion:
    """One question to the judge."""

    template: ChatPromptTemplate
    values: Mapping[str, str]
    """The template's variables, all but `passages`."""
    passages: Sequence[Document] = ()
    """What it reads, in prompt order; what does not fit its context is dropped, last ones first."""
    render: Callable[[Sequence[Document]], str] = render_passages
    form: FormOf | None = None
    """The form that its reply is held to, where the model offers one."""
    reply_tokens: int


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a judge said of one answer."""

    value: float | None
    """0 to 1; None: the reply could not be read, and the question counts nowhere in the metric."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What it rests on, as JSON values: statements, verdicts, the grade."""
    unreadable: str = ""
    """The beginning of a reply that could not be read."""

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        said = {"unreadable": self.unreadable} if self.value is None else {}
        return {"value": self.value, **self.detail, **said}


def unreadable(reply: Reply, **detail: Any) -> Judgement:
    """Return the judgement of a reply that says nothing readable."""
    return Judgement(value=None, detail=detail, unreadable=reply.text[:_SHOWN] or "(empty)")


Judging = Generator[JudgeQuestion, Reply, Judgement]
Judge = Callable[[Question, Mapping[str, Any]], Judging | None]
"""Takes the question with its gold and the graph's final state; None: there is nothing to judge."""


def by_judge(name: str) -> Callable[[Question, Mapping[str, Any]], float | None]:
    """Return what reads a judged metric's value, once the judge has spoken."""

    def compute(_question: Question, state: Mapping[str, Any]) -> float | None:
        said: Judgement | None = state.get("judgements", {}).get(name)
        return None if said is None else said.value

    return compute
