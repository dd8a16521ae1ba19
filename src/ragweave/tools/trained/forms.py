"""The texts that trained components read and write, the same in training and in use.

Sources: SlimPLM (Tan et al. 2024), sections 3.2 and 3.3, in the layout of its released prompts; FILCO (Wang et al.
2023), sections 2.3 and 2.4, in its released code's lines. Drafts and passages are untrusted data: no text can start a
line of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.tools.filters import answer_line, filter_task, generator_task, question_line
from ragweave.tools.models.messages import Task, TaskName
from ragweave.tools.text.untrusted import untrusted
from ragweave.tools.trained.card import TrainedRole

TASKS: Mapping[TrainedRole, TaskName] = {"judge": "judge", "rewriter": "rewrite", "generator": "answer"}
"""The one task of each role that is a chat model."""


class Passage(NamedTuple):
    """A passage as a filter reads it."""

    title: str
    sentences: Sequence[str]


class Input(NamedTuple):
    """What a component that writes reads; only `body` may be cut, at its end."""

    head: str
    body: str
    tail: str = ""

    @property
    def text(self) -> str:
        """The whole text."""
        return self.head + self.body + self.tail


def by_passage(segments: Sequence[Document]) -> list[list[Document]]:
    """Group consecutive segments by the passage that they were cut from."""
    return [list(group) for _, group in groupby(segments, key=lambda segment: segment.id)]


def judge_input(question: str, draft: str) -> Input:
    """Return what judge and rewriter read: the draft answer, then the question."""
    return Input("Coarse answer: ((", flat(draft), f"))\nQuestion: (({flat(question)}))")


def filter_input(question: str, texts: Iterable[str]) -> Input:
    """Return what a filter that writes reads: the question, then the passages, a line each."""
    asked = " ".join(question.split())
    head = f"{filter_task(asked)}\n\n{question_line(asked)}\ncontext: "
    return Input(head, "\n".join(map(flat, texts)))


def generator_input(question: str, texts: Sequence[str]) -> Input:
    """Return what a generator reads: the context, if there is any, then the question."""
    asked = " ".join(question.split())
    task = generator_task(asked, context=bool(texts))
    if not texts:
        return Input(f"{task}\n\n{question_line(asked)}", "")
    return Input(f"{task}\n\ncontext: ", "\n".join(map(flat, texts)), f"\n{question_line(asked)}")


def task_input(task: Task) -> Input:
    """Return what a component reads of the task that a node attached."""
    if task["task"] == "answer":
        return generator_input(task["question"], [passage["text"] for passage in task.get("passages", [])])
    return judge_input(task["question"], task.get("draft", ""))


def lead(role: TrainedRole, question: str) -> str:
    """Return what a causal model reads between input and output; a seq2seq model needs nothing there."""
    known = {"judge": "Retrieval Necessity Judgment Output: ", "rewriter": "Query Rewrite Output: "}
    return f"\n{known.get(role) or ('filtered context: ' if role == 'filter' else answer_line(question, ''))}"


def flat(text: str) -> str:
    """Return untrusted text on one line."""
    return " ".join(untrusted(text).split())


def fitted(tokenizer: Any, given: Input, limit: int) -> tuple[str, bool]:
    """Cut the body of an input so that the input takes at most `limit` tokens; also return whether it was cut.

    FILCO's code cuts the end of the text, which for the generator is the question; here the question stays.

    Raises:
        UsageError: Head and tail alone are longer.
    """
    body = given.body
    while (over := len(_ids(tokenizer, given._replace(body=body).text)) - limit) > 0:
        if not body:
            raise UsageError(
                f"the question alone is longer than the {limit} tokens that the model reads: {given.tail[:80]!r}"
            )
        share = over / max(len(_ids(tokenizer, body)), over)
        shorter = body[: min(int(len(body) * (1 - share)), len(body) - 1)]
        body = shorter.rpartition(" ")[0] or shorter if len(shorter) > 1 else ""
    return given._replace(body=body).text, body != given.body


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, verbose=False)["input_ids"])
