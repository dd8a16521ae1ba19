"""Passages in a prompt: untrusted text that cannot act as prompt structure.

A passage is data. It may not close its own delimiter, open another passage, or write what a chat
template reads as a role. Marks are broken (`<` becomes `‹`, `[[` becomes `[ [`); words stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from langchain_core.documents import Document

_TAG = re.compile(
    r"<(?=\s*+(?:/\s*+)?(?:passages?|knowledge|question|answer|candidates?|claim|query|context|known|"
    r"reference|system|user|assistant|human|tool|s|start_of_turn|end_of_turn|im_start|im_end)\b)"
    r"|<(?=\s*+[|｜])|<(?=<\s*+(?:/\s*+)?SYS)",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\[(?=/?INST\s*\])|\[(?=\[)|\](?=\])|\((?=\()|\)(?=\))", re.IGNORECASE)
_LINES = re.compile("[\r\u2028\u2029]")
_SHAPING = frozenset("\u034f\u200c\u200d" + "".join(map(chr, range(0xFE00, 0xFE10))))
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs"})
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
    visible = _drop_invisible(_LINES.sub("\n", text.replace("\r\n", "\n")))
    broken = _BRACKETS.sub(lambda match: match.group() + " ", _TAG.sub("‹", visible))
    return _ROLE_LINE.sub(r"\1\2\3 -", broken)


def _drop_invisible(text: str) -> str:
    """Leave what can be seen, and what shapes the visible letter beyond ASCII before it.

    Joiners shape Persian, Indic and emoji text; behind `<` they would hide a delimiter.
    """
    hidden = {char for char in set(text) if char in _SHAPING or unicodedata.category(char) in _INVISIBLE} - {"\n", "\t"}
    if not hidden:
        return text
    before = zip(f" {text}", text, strict=False)
    return "".join(
        char
        for last, char in before
        if char not in hidden or (char in _SHAPING and not last.isascii() and last not in hidden)
    )


def one_line(text: str) -> str:
    """Return untrusted text as one line without quotes, fit for a delimiter's attribute."""
    return " ".join(untrusted(text).replace('"', "'").replace(">", "›").split())


LONGEST_TITLE = 400
"""Characters of a title; what is longer is no title, and would stand with each of its passages."""


def title_of(doc: Document) -> str:
    """Return a passage's title as prompts show it: one line, not longer than a title is."""
    title = str(doc.metadata.get("title") or "")
    return one_line(title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…")


def render_passages(passages: Sequence[Document]) -> str:
    """Write passages as numbered blocks, `<passage 1 title="…">…</passage>`, in the order given.

    The number is the position in the prompt, from 1: ids that a passage claims for itself are
    only text.
    """
    return "\n".join(render_passage(str(number), doc) for number, doc in enumerate(passages, start=1))


def render_passage(name: str, doc: Document) -> str:
    """Write a passage as a block of a name."""
    title, name = title_of(doc), one_line(name)
    head = f'<passage {name} title="{title}">' if title else f"<passage {name}>"
    return f"{head}\n{untrusted(doc.page_content).strip()}\n</passage>"


def render_lines(passages: Sequence[Document]) -> str:
    """Write passages a line each, `title | text`, as BlendFilter shows knowledge (figure 6)."""
    return "\n".join(
        (f"{title} | " if (title := title_of(one)) else "") + " ".join(untrusted(one.page_content).split())
        for one in passages
    )


def numbered(label: str, first: int = 1) -> Callable[[Sequence[Document]], str]:
    """Return a function that writes texts as `LABEL 1 : title | text`; no text can forge a number."""
    forged = re.compile(rf"\b({label}s?)\s*(\d+)\s*[:：]", re.I)

    def show(passages: Sequence[Document]) -> str:
        lines = (forged.sub(r"\1 \2 -", render_lines([one])) for one in passages)
        return "\n".join(f"{label} {number} : {line}" for number, line in enumerate(lines, start=first))

    return show
