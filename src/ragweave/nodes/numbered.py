"""Passages or sentences as numbered lines, for prompts that ask for the numbers that help."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from langchain_core.documents import Document

from ragweave.tools.gbnf import id_list, one_of
from ragweave.tools.text.untrusted import one_line, untrusted


def numbered(label: str) -> Callable[[Sequence[Document]], str]:
    """Return a renderer: `LABEL 0 : title | text`, a line each, numbers from 0.

    A text stands on one line and cannot write a numbered label of its own, so no passage can
    take another one's number.
    """
    forged = re.compile(rf"\b({re.escape(label)}s?)\s*(\d+)\s*[:：]", re.IGNORECASE)

    def line(number: int, doc: Document) -> str:
        title = one_line(str(doc.metadata.get("title") or ""))
        text = " ".join(untrusted(doc.page_content).split())
        plain = forged.sub(r"\1 \2 -", f"{title} | {text}" if title else text)
        return f"{label} {number} : {plain}"

    return lambda documents: "\n".join(line(at, doc) for at, doc in enumerate(documents))


def numbers_form(documents: Sequence[Document]) -> str:
    """Return the grammar of replies that name some of the numbers, or none."""
    return id_list([str(at) for at in range(len(documents))]) if documents else one_of(["none"])
