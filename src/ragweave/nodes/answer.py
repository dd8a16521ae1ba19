"""The answer step: question and passages in, one candidate answer out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langgraph.types import Send

from ragweave.nodes.answer_prompts import ANSWER_FORMS
from ragweave.nodes.ask import Ask, Reply
from ragweave.nodes.options import Options, OptionsT
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.replies import parse_answer
from ragweave.nodes.step import Step
from ragweave.state import Branch, Candidate, Update
from ragweave.tools.models import Models
from ragweave.tools.tasks import Task
from ragweave.tools.text.untrusted import one_line


@dataclass(frozen=True)
class AnswerStep:
    """How one answer node asks.

    It reads a `Branch` (the payload of a `Send`) and writes one entry of `candidates`, under
    the key `NAME:SAMPLE`, or `NAME:PASSAGE_ID:SAMPLE` where branches hold one passage each.
    """

    name: str
    """Name of the node, and of the pool that its candidates form."""
    template: str
    """Name of the prompt template."""
    closed_template: str = ""
    """Name of the template for a branch without passages, where the method asks without any."""
    round: int = 0
    """Which round of the method this is, from 0."""
    reasons: bool = False
    """Whether the reply reasons first and ends in "So the answer is …"."""
    one_passage: bool = False
    """Whether each branch holds one passage."""

    def step(self, models: Models, templates: Templates, options: OptionsT) -> Step[OptionsT]:
        """Return the node."""

        def prompt(state: Mapping[str, Any], opts: OptionsT) -> Prompt:
            return self.prompt(state, opts, templates)

        ask = Ask[OptionsT](name=self.name, role="answer", prompt=prompt, update=self.update)
        return ask.step(models, options)

    def prompt(self, branch: Mapping[str, Any], options: Options, templates: Templates) -> Prompt:
        """Ask the branch's question over its passages."""
        task: Task = {
            "task": "reason" if self.reasons else "answer",
            "question": branch["question"],
            "answer_type": branch["answer_kind"],
        }
        if branch["hints"]:
            task["candidates"] = list(branch["hints"])
        values = {
            "question": branch["question"],
            "answer_form": ANSWER_FORMS[branch["answer_kind"]],
            "candidates": "; ".join(map(one_line, branch["hints"])),
        }
        sampled = {"temperature": options.sample_temperature} if options.samples > 1 else {}
        name = self.template if branch["passages"] else self.closed_template or self.template
        return Prompt(templates[name], task, values, branch["passages"], sampled)

    def update(self, branch: Mapping[str, Any], _options: Options, reply: Reply) -> Update:
        """Read the reply into a candidate."""
        candidate: Candidate = {
            "answer": parse_answer(reply.text, branch["answer_kind"]),
            "reply": reply.text,
            "pool": self.name,
            "round": self.round,
            "rank": min((doc.metadata.get("rank", 0) for doc in reply.passages), default=0),
            "sample": branch["sample"],
            "passages": [doc.id or "" for doc in reply.passages],
        }
        return {"candidates": {self._key(branch): candidate}}

    def _key(self, branch: Mapping[str, Any]) -> str:
        sample = branch["sample"]
        if self.one_passage:
            return f"{self.name}:{branch['passages'][0].id}:{sample}"
        return f"{self.name}:{sample}"


def branches(
    state: Mapping[str, Any],
    node: str,
    options: Options,
    *,
    contexts: Iterable[Sequence[Document]],
    hints: Sequence[str] = (),
) -> list[Send]:
    """Return a branch to `node` for each context (a list of passages) and sample."""
    return [
        Send(node, _branch(state, context, sample, hints))
        for context in contexts
        for sample in range(options.samples)
    ]


def _branch(
    state: Mapping[str, Any], context: Sequence[Document], sample: int, hints: Sequence[str]
) -> Branch:
    branch: Branch = {
        "question": state["question"],
        "answer_kind": state["answer_kind"],
        "passages": list(context),
        "sample": sample,
        "hints": list(hints),
    }
    if state.get("deadline"):
        branch["deadline"] = state["deadline"]
    return branch
