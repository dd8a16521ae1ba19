"""GBNF grammars for the short replies that graphs ask for: plain strings, no model needed.

Language: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
"""

from __future__ import annotations

from collections.abc import Sequence

from ragweave.errors import UsageError


def one_of(texts: Sequence[str]) -> str:
    """Return the grammar of replies that are exactly one of `texts`: a verdict, a vote.

    Raises:
        UsageError: `texts` is empty, or one of them is.
    """
    if not texts or not all(texts):
        raise UsageError("a choice needs at least one text, and no text may be empty")
    return f"root ::= {' | '.join(map(literal, dict.fromkeys(texts)))}"


def id_list(ids: Sequence[str], *, none: str = "none") -> str:
    """Return the grammar of replies that name some of `ids`, in order, or say `none`.

    Each id comes at most once: `0, 2, 3`.

    Raises:
        UsageError: `ids` is empty, or one of them is.
    """
    if not ids or not all(ids):
        raise UsageError("a list of ids needs at least one id, and no id may be empty")
    rules = [f"root ::= {literal(none)} | " + " | ".join(f"from{i}" for i in range(len(ids)))]
    for i, name in enumerate(ids):
        later = " | ".join(f"from{j}" for j in range(i + 1, len(ids)))
        rest = f' (", " ({later}))?' if later else ""
        rules.append(f"from{i} ::= {literal(name)}{rest}")
    return "\n".join(rules)


def literal(text: str) -> str:
    """Quote a text, every character by its code point, so that none has a special meaning."""
    return '"' + "".join(f"\\U{ord(letter):08X}" for letter in text) + '"'


__all__ = ["id_list", "literal", "one_of"]
