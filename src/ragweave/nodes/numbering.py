"""Numbered items in a prompt: how they are shown, and which of their numbers a reply names.

Prompt, grammar and reading share one object, so that they can't count from different numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.documents import Document

from ragweave.nodes.reply_form import Choice, Numbers, ReplyForm
from ragweave.tools.claims import parse_ids
from ragweave.tools.models.tasks import Task
from ragweave.tools.text.untrusted import title_of, untrusted


@dataclass(frozen=True)
class Numbering:
    """Items called `label`, with numbers from `first`.

    Small models count from 1, whatever the prompt shows: only the papers' prompts begin with 0.
    """

    label: str
    first: int = 1

    def render(self, documents: Sequence[Document]) -> str:
        """Write `LABEL 1 : title | text`, a line each.

        A text stands on one line and cannot write a numbered label of its own, so no passage can
        take another one's number.
        """
        forged = re.compile(rf"\b({re.escape(self.label)}s?)\s*(\d+)\s*[:：]", re.IGNORECASE)

        def line(number: int, doc: Document) -> str:
            title = title_of(doc)
            text = " ".join(untrusted(doc.page_content).split())
            plain = forged.sub(r"\1 \2 -", f"{title} | {text}" if title else text)
            return f"{self.label} {number} : {plain}"

        return "\n".join(line(one, doc) for one, doc in enumerate(documents, self.first))

    def form(self, documents: Sequence[Document]) -> ReplyForm:
        """Return the form of replies that name some of the numbers, or none."""
        return Numbers(len(documents), self.first) if documents else Choice(("none",))

    def task(self, question: str) -> Task:
        """Return the task for models that take one instead of the prompt's text."""
        return {"task": "filter", "question": question, "first": self.first}

    def read(self, text: str, count: int, titles: Sequence[str] = ()) -> list[int] | None:
        """Return the positions, from 0, of the items that a reply names (`parse_ids`).

        A reply may call the items what the prompt calls them: `parse_ids` itself knows only the
        words that mean an item everywhere, as "strip" doesn't.
        """
        if self.label not in _KNOWN:
            text = re.sub(rf"\b{re.escape(self.label)}s?\b", "item", text, flags=re.IGNORECASE)
        return parse_ids(text, count, titles, first=self.first)


_KNOWN = frozenset({"knowledge", "passage", "sentence", "document"})
"""Words for items that `parse_ids` knows."""
SENTENCE = Numbering("sentence")
