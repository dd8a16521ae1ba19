"""What the extractive model replies to each task."""

from __future__ import annotations

import re
from collections.abc import Callable

from ragweave.tools.models.extractive.answers import Reader, short, support
from ragweave.tools.models.extractive.evidence import gather
from ragweave.tools.models.extractive.question import analyse
from ragweave.tools.models.extractive.spans import spans
from ragweave.tools.models.extractive.words import terms
from ragweave.tools.tasks import Task, TaskName, TaskPassage
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

_CONCLUSION = re.compile(r"\banswer(?: to [^.:\n]{1,80})?(?: is:?|:)\s*", re.IGNORECASE)
_CLAIMS = 5
"""Most claims that a draft is split into."""


def reply(task: Task, reader: Reader) -> str:
    """Return the model's reply to `task`; the same task always gets the same reply."""
    return _REPLIES[task["task"]](task, reader)


def _answer(task: Task, reader: Reader) -> str:
    return reader.answer(task)


def _reason(task: Task, reader: Reader) -> str:
    """Quote the supporting sentences, then conclude."""
    found = reader.evidence(task["question"], task.get("passages", []))
    quotes = " ".join(one.text for one in support(analyse(task["question"]), found))
    return f"{quotes} So the answer is {_closed(reader.answer(task))}".strip()


def _step(task: Task, reader: Reader) -> str:
    return f"So the final answer is: {_closed(reader.answer(task))}"


def _extract(task: Task, reader: Reader) -> str:
    """Read the answer off the draft: its conclusion, else its best span."""
    draft = task.get("draft", "").strip()
    concluded = list(_CONCLUSION.finditer(draft))
    if concluded:
        rest = split_sentences(draft[concluded[-1].end() :])
        return rest[0].text.rstrip(".!") if rest else UNKNOWN
    if is_unknown(draft):
        return UNKNOWN
    if len(draft.split()) <= 5:
        return draft.rstrip(".!")
    question = analyse(task["question"])
    passage: TaskPassage = {"id": "", "title": "", "text": draft}
    return short(question, gather(question, [passage], use_minilm=reader.use_minilm))


def _judge(_task: Task, _reader: Reader) -> str:
    return "<Known(False)>"


def _need(_task: Task, _reader: Reader) -> str:
    return "Yes"


def _rewrite(task: Task, _reader: Reader) -> str:
    """Give each sentence of the draft as a claim that is its own query."""
    draft = task.get("draft", "").strip() or task["question"]
    claims = [" ".join(sentence.text.split()) for sentence in split_sentences(draft)]
    return "\n".join(f"<Claim> {claim} <Query> {claim}" for claim in claims[:_CLAIMS]) or UNKNOWN


def _topic(task: Task, _reader: Reader) -> str:
    """Return the name of the question, else its longest phrase."""
    question = analyse(task["question"]).text.strip().rstrip("?")
    found = [span for span in spans(question) if span.kind in ("name", "quote", "phrase")]
    later = [span for span in found if span.start] or found
    named = [span for span in later if span.kind != "phrase"] or later
    best = max(named, key=lambda span: (len(terms(span.text)), -span.start), default=None)
    return best.text if best else question or UNKNOWN


def _filter(task: Task, reader: Reader) -> str:
    """Return the positions of the passages that hold a sentence above the threshold."""
    found = reader.evidence(task["question"], task.get("passages", []))
    kept = sorted({one.passage for one in found})
    return ", ".join(map(str, kept)) or "none"


_REPLIES: dict[TaskName, Callable[[Task, Reader], str]] = {
    "answer": _answer,
    "reason": _reason,
    "extract": _extract,
    "recall": _answer,
    "judge": _judge,
    "rewrite": _rewrite,
    "topic": _topic,
    "filter": _filter,
    "need": _need,
    "step": _step,
}


def _closed(answer: str) -> str:
    """Return `answer` with a full stop at its end."""
    return answer if answer.endswith((".", "!", "?")) else f"{answer}."
