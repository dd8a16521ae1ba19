"""The text forms of trained parts: what each role reads and writes, in training and in use.

Sources: SlimPLM, sections 3.2 and 3.3, in the layout of its released prompts (`(( ))` marks, without
their typos and date); FILCO, sections 2.3 and 2.4 and its released code's lines. Drafts and
passages are untrusted data, written on one line each, so that none can open a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import NamedTuple

from langchain_core.documents import Document

from ragweave.tools.filters import apply_spans
from ragweave.tools.filters.forms import context_line, question_line
from ragweave.tools.filters.oracles import CAUSAL_LEAD
from ragweave.tools.filters.spans import Span
from ragweave.tools.parts.card import PartRole
from ragweave.tools.tasks import TaskPassage
from ragweave.tools.text.untrusted import one_line, untrusted

KNOWN = "<Known(True)>"
UNKNOWN = "<Known(False)>"

LEADS: MappingProxyType[PartRole, str] = MappingProxyType(
    {
        "judge": "\nRetrieval Necessity Judgment Output: ",
        "rewriter": "\nQuery Rewrite Output: ",
        "filter": "\nfiltered context: ",
        "generator": CAUSAL_LEAD,
    }
)
"""What a causal model reads between input and output; a seq2seq model has them apart anyway."""


class PartInput(NamedTuple):
    """What a part reads; only `body` may be cut, at its end, where the whole is too long."""

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
    head = f"{question_line(_spaced(question))}\n{context_line('')}"
    return PartInput(head, "\n".join(map(passage_line, passages)))


def generator_input(question: str, passages: Sequence[Document]) -> PartInput:
    """Return what the generator reads: the context, where there is any, then the question."""
    line = question_line(_spaced(question))
    if not passages:
        return PartInput(line, "")
    return PartInput(context_line(""), context_text(passages), f"\n{line}")


def verdict(known: bool) -> str:
    """Return what the judge writes."""
    return KNOWN if known else UNKNOWN


def filter_target(spans: Iterable[Span]) -> str:
    """Return what the filter writes: the kept spans as its input shows them; "" for none."""
    return " ".join(clean(span["text"]) for span in spans)


def kept_passages(passages: Sequence[Document], spans: Iterable[Span]) -> list[Document]:
    """Return the passages that the generator reads: their kept spans, or all where none is kept."""
    return apply_spans(passages, spans).passages


def documents(passages: Iterable[TaskPassage]) -> list[Document]:
    """Return a task's or a training row's passages as documents."""
    return [
        Document(page_content=one["text"], id=one["id"], metadata={"title": one["title"]})
        for one in passages
    ]


def context_text(passages: Iterable[Document]) -> str:
    """Write all passages on one line, so that none can open a `question:` line of its own."""
    return " ".join(map(passage_line, passages))


def passage_line(passage: Document) -> str:
    """Write a passage on one line: `title: text`, or the text alone where it has no title."""
    title = one_line(str(passage.metadata.get("title") or ""))
    text = clean(passage.page_content)
    return f"{title}: {text}" if title else text


def clean(text: str) -> str:
    """Return untrusted text on one line, as every input and every copied target shows it."""
    return _spaced(untrusted(text))


def _spaced(text: str) -> str:
    return " ".join(text.split())
