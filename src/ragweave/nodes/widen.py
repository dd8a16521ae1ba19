"""Texts cut to length, and questions expanded by generated text."""

from __future__ import annotations

from ragweave.nodes.replies import bare_text
from ragweave.tools.text.unknown import is_unknown

LONGEST = 2000
"""Characters of generated text that go into a query; the question stands behind them whole."""


def expand_query(question: str, text: str) -> tuple[str, int]:
    """Return `text ⊕ question` and the text's length before it was cut, in characters.

    A text that is empty, or says that the model does not know, leaves the question as it is.
    """
    plain = " ".join(bare_text(text).split())
    if is_unknown(plain):
        return question, 0
    return f"{cut(plain, LONGEST)} {question}", len(plain)


def cut(text: str, longest: int) -> str:
    """Return `text` cut at a word's end to at most `longest` characters."""
    if len(text) <= longest:
        return text
    head = text[: longest + 1].rpartition(" ")[0]
    return head or text[:longest]
