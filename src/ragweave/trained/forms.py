"""The text forms of trained parts: what each role reads and writes, in training and in use.

Sources: SlimPLM, sections 3.2 and 3.3, in the layout of its released prompts (`(( ))` marks, without
their typos and date); FILCO, sections 2.3 and 2.4 and its released code's lines. Drafts and
passages are untrusted data, written on one line each, so that none can start a line of its own.
`truncate_input` and `truncate_target` cut texts to a number of tokens, at the ends of words;
`scored_verdict` and `written_reply` are a part's reply to a task.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.tools.filters import Span, context_line, filter_task, generator_task, question_line
from ragweave.tools.models.tasks import Task, TaskName, TaskPassage
from ragweave.tools.text.untrusted import untrusted
from ragweave.trained.card import PartRole

if TYPE_CHECKING:
    from ragweave.trained.card import Scoring
    from ragweave.trained.writers import TextWriter


KNOWN = "<Known(True)>"
UNKNOWN = "<Known(False)>"

LEADS: MappingProxyType[PartRole, str] = MappingProxyType(
    {
        "judge": "\nRetrieval Necessity Judgment Output: ",
        "rewriter": "\nQuery Rewrite Output: ",
        "filter": "\nfiltered context: ",
        "generator": "\nanswer: ",
    }
)
"""What a causal model reads between input and output; a seq2seq model needs no separator."""


class PartInput(NamedTuple):
    """The input of a part; only `body` may be cut, at its end, where the whole is too long."""

    head: str
    body: str
    tail: str = ""

    @property
    def text(self) -> str:
        """The whole, uncut."""
        return self.head + self.body + self.tail


def judge_input(question: str, draft: str) -> PartInput:
    """Return what the judge and the rewriter read: the draft answer, then the question."""
    return PartInput("Coarse answer: ((", clean(draft), f"))\nQuestion: (({clean(question)}))")


def filter_input(question: str, passages: Iterable[Document]) -> PartInput:
    """Return what the context filter reads: the question, then the passages, a line each."""
    asked = _spaced(question)
    return PartInput(f"{filter_task(asked)}\n\n{question_line(asked)}\n{context_line('')}", context_text(passages))


def generator_input(question: str, passages: Sequence[Document]) -> PartInput:
    """Return what the generator reads: the context, if there is any, then the question."""
    asked = _spaced(question)
    if not passages:
        return PartInput(f"{generator_task(asked, context=False)}\n\n{question_line(asked)}", "")
    head = f"{generator_task(asked)}\n\n{context_line('')}"
    return PartInput(head, context_text(passages), f"\n{question_line(asked)}")


def verdict(known: bool) -> str:
    """Return what the judge writes."""
    return KNOWN if known else UNKNOWN


def filter_target(spans: Iterable[Span]) -> str:
    """Return what the filter writes: the kept spans as its input shows them; "" for none."""
    return " ".join(clean(span["text"]) for span in spans)


def kept_passages(passages: Sequence[Document], spans: Iterable[Span], *, may_be_none: bool = False) -> list[Document]:
    """Return the passages that the generator reads: their kept spans.

    Args:
        passages: Best first.
        spans: What the oracle kept.
        may_be_none: Whether none is left where no span is kept (PSG); else all are (released code).
    """
    texts: dict[str, list[str]] = {}
    for span in sorted(spans, key=lambda one: one["start"]):
        texts.setdefault(span["passage_id"], []).append(span["text"])
    kept = [
        one.model_copy(update={"page_content": " ".join(texts[str(one.id)])})
        for one in passages
        if str(one.id) in texts
    ]
    return kept or ([] if may_be_none else list(passages))


def documents(passages: Iterable[TaskPassage]) -> list[Document]:
    """Return a task's or a training row's passages as documents."""
    return [Document(page_content=one["text"], id=one["id"], metadata={"title": one["title"]}) for one in passages]


def context_text(passages: Iterable[Document]) -> str:
    """Write passages as FILCO's models read them: the texts alone, a line each."""
    return "\n".join(clean(one.page_content) for one in passages)


def clean(text: str) -> str:
    """Return untrusted text on one line, as every input and every copied target shows it."""
    return _spaced(untrusted(text))


def _spaced(text: str) -> str:
    return " ".join(text.split())


class Truncated(NamedTuple):
    """A text cut to a number of tokens."""

    text: str
    tokens: list[int]
    """As the tokenizer gives them; of an input with special tokens."""
    cut: bool


def truncate_input(tokenizer: Any, given: PartInput, limit: int) -> Truncated:
    """Cut the body of an input so that the whole takes at most `limit` tokens, special included.

    FILCO's code cuts the tokens of the whole text at their end, which for the generator is the
    question; here the question stays, and the context loses its end.

    Raises:
        UsageError: Head and tail alone are longer.
    """

    def tokens(body: str) -> list[int]:
        return _tokens(tokenizer, given.head + body + given.tail)

    whole = tokens(given.body)
    if len(whole) <= limit:
        return Truncated(given.text, whole, False)
    least = tokens("")
    if len(least) > limit:
        raise UsageError(
            f"the question alone is longer than the {limit} tokens that the model reads: "
            f"{(given.head + given.tail)[:80]!r}"
        )
    share = (limit - len(least)) / max(1, len(whole) - len(least))
    body = _longest(given.body, lambda text: len(tokens(text)) <= limit, share)
    return Truncated(given.head + body + given.tail, tokens(body), True)


def truncate_target(tokenizer: Any, target: str, limit: int) -> Truncated:
    """Cut a target to `limit` tokens, leaving room for the end token, which is not added here."""
    whole = _tokens(tokenizer, target, special=False)
    if len(whole) < limit:
        return Truncated(target, whole, False)

    def fits(text: str) -> bool:
        return len(_tokens(tokenizer, text, special=False)) < limit

    text = _longest(target, fits, (limit - 1) / len(whole))
    return Truncated(text, _tokens(tokenizer, text, special=False), True)


def _tokens(tokenizer: Any, text: str, *, special: bool = True) -> list[int]:
    return list(tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"])


def _longest(text: str, fits: Callable[[str], bool], share: float) -> str:
    """Return the longest prefix of `text` that fits, at a word's end if possible.

    Args:
        text: A text that is too long.
        fits: Whether a prefix fits.
        share: Estimate of the fraction of the text that fits.
    """
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    guess = bisect_right(ends, int(share * len(text))) - 1
    found = _last(ends, lambda end: fits(text[:end]), guess)
    if found == 0 and ends:
        found = _last(range(1, ends[0] + 1), lambda end: fits(text[:end]), 0)
    return text[:found]


def _last(ends: Sequence[int], fits: Callable[[int], bool], guess: int) -> int:
    """Return the last end that fits, or 0: by growing steps from a guess, then by halving."""
    low, high = -1, len(ends)
    index, step = guess, 1
    while low + 1 < high:
        index = min(max(index, low + 1), high - 1)
        if fits(ends[index]):
            low = index
        else:
            high = index
        bounded = low >= 0 and high < len(ends)
        index = (low + high) // 2 if bounded else low + step if low >= 0 else high - step
        step *= 2
    return ends[low] if low >= 0 else 0


TASKS: Mapping[PartRole, TaskName] = MappingProxyType({"judge": "judge", "rewriter": "rewrite", "generator": "answer"})
"""The one task of each role; a filter has none, as it is not a chat model."""


class PartReply(NamedTuple):
    """A reply, its token counts, and its metadata."""

    text: str
    input_tokens: int
    output_tokens: int
    metadata: dict[str, Any]


def scored_verdict(scorer: Scoring, task: Task, threshold: float) -> PartReply:
    """Return the verdict of a judge that scores: known where the probability is above `threshold`.

    Source: SlimPLM, section 3.2; the probability replaces the released code's margin.
    """
    pair = (task["question"], task.get("draft", ""))
    probability = scorer.score([pair])[0]
    text = verdict(probability > threshold)
    metadata = {"probability": probability, "threshold": threshold, "finish_reason": "stop"}
    return PartReply(text, sum(scorer.count([pair])), 0, metadata)


def written_reply(writer: TextWriter, task: Task, limit: int | None) -> PartReply:
    """Return the reply of a part that generates text; `limit`: most tokens, None: its own."""
    written = writer.write([task_input(task)], limit)[0]
    metadata = {
        "finish_reason": "stop" if written.finished else "length",
        "input_cut": written.cut,
    }
    return PartReply(written.text, written.input_tokens, written.output_tokens, metadata)


def task_input(task: Task) -> PartInput:
    """Return the text form of a task, the one that the part was trained on."""
    if task["task"] == "answer":
        return generator_input(task["question"], documents(task.get("passages", [])))
    return judge_input(task["question"], task.get("draft", ""))
