"""Questions expanded by what a model wrote."""

from __future__ import annotations

from ragweave.nodes.read import is_unknown, plain
from ragweave.tools.text.sentences import split_sentences

LONGEST = 2000
"""The most characters of a text that go into a query; the whole question follows."""


def expanded(question: str, text: str, *, verbatim: bool = False) -> str:
    """Return `text ⊕ question` (BlendFilter, section 3.2).

    Sentences that say "unknown" are left out, unless the text is wanted `verbatim`, as in the paper. A text
    that says nothing else leaves the question as it is.
    """
    said = " ".join(plain(text).split())
    if not verbatim:
        said = cut(telling(said) if is_unknown(said) else said, LONGEST)
    return f"{said} {question}" if said else question


def telling(text: str) -> str:
    """Return a text on one line, without its sentences that say "unknown": they name nothing to search for."""
    said = [one.text for one in split_sentences(text) if not is_unknown(one.text)]
    return " ".join(" ".join(said).split())


def cut(text: str, longest: int) -> str:
    """Return a text cut at a word's end to at most `longest` characters."""
    return text if len(text) <= longest else text[: longest + 1].rpartition(" ")[0] or text[:longest]
