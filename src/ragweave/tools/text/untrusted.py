"""Passages in a prompt: untrusted text that cannot act as prompt structure.

A passage is data. It may not close its own delimiter, open another passage, or write what a chat
template reads as a role. Marks are broken (`<` becomes `‹`, `[[` becomes `[ [`); words stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from langchain_core.documents import Document

_TAG = re.compile(
    r"<(?=\s*/?\s*(?:passages?|knowledge|question|answer|candidates?|claim|query|context|known|"
    r"reference|system|user|assistant|human|tool|s|start_of_turn|end_of_turn|im_start|im_end)\b)"
    r"|<(?=\s*[|｜])|<(?=<\s*/?\s*SYS)",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\[(?=/?INST\s*\])|\[(?=\[)|\](?=\])|\((?=\()|\)(?=\))", re.IGNORECASE)
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs"})
_CLINGING = frozenset("\u034f\u200c\u200d" + "".join(map(chr, range(0xFE00, 0xFE10))))
_LINES = {ord(mark): "\n" for mark in "\r\u2028\u2029"}
_ROLE_LINE = re.compile(
    r"^([ \t>*#]*)(system|user|assistant|human|ai|instruction|instructions|tool)([ \t*]*):",
    re.IGNORECASE | re.MULTILINE,
)


def untrusted(text: str) -> str:
    """Return `text` with every mark that could act as prompt structure broken.

    Covers our own delimiters, chat-template tokens (`<|…|>`, `[INST]`, `<<SYS>>`, turn marks),
    the doubled brackets of SlimPLM's prompts, lines that start with a role and a colon, and
    invisible format and control characters, which could hide any of these. Applying it twice
    changes nothing more.
    """
    visible = _drop_invisible(text.replace("\r\n", "\n").translate(_LINES))
    broken = _BRACKETS.sub(lambda match: match.group() + " ", _TAG.sub("‹", visible))
    return _ROLE_LINE.sub(r"\1\2\3 -", broken)


def _drop_invisible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for at, char in enumerate(text) if _stays(char, text[max(at - 1, 0) : at]))


def _stays(char: str, before: str) -> bool:
    """Tell whether `char` can be seen, or shapes the visible letter beyond ASCII before it.

    Joiners shape Persian, Indic and emoji text; behind `<` they would hide a delimiter.
    """
    if char in _CLINGING:
        return not (before.isascii() or before in _CLINGING or _invisible(before))
    return char in "\n\t" or not _invisible(char)


def _invisible(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE


def one_line(text: str) -> str:
    """Return untrusted text as one line without quotes, fit for a delimiter's attribute."""
    return " ".join(untrusted(text).replace('"', "'").replace(">", "›").split())


def render_passages(passages: Sequence[Document]) -> str:
    """Write passages as numbered blocks, `<passage 1 title="…">…</passage>`, in the order given.

    The number is the position in the prompt, from 1: ids that a passage claims for itself are
    only text.
    """
    return "\n".join(_block(number, doc) for number, doc in enumerate(passages, start=1))


def _block(number: int, doc: Document) -> str:
    title = one_line(str(doc.metadata.get("title") or ""))
    head = f'<passage {number} title="{title}">' if title else f"<passage {number}>"
    return f"{head}\n{untrusted(doc.page_content).strip()}\n</passage>"
