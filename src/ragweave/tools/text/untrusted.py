"""Untrusted text in prompts and on terminals, and texts without secrets.

A passage in a prompt is data. It may not close its own delimiter, open another passage, or write what a chat
template reads as a role. Marks are broken (`<` becomes `‹`, `[[` becomes `[ [`); words stay.

A model's spec may carry a secret (`api_key=…`, `http://user:password@host`), and so may an error's text, when a
server or client quotes an address or a header in it.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ragweave.tools.text.numbers import iso_date

if TYPE_CHECKING:
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
    visible = plain(_LINES.sub("\n", text.replace("\r\n", "\n")))
    broken = _BRACKETS.sub(lambda match: match.group() + " ", _TAG.sub("‹", visible))
    return _ROLE_LINE.sub(r"\1\2\3 -", broken)


def plain(text: str) -> str:
    """Return `text` without control and format characters, which could steer a terminal, and lone surrogates.

    Line ends and tabs stay. Joiners stay after a visible non-ASCII character: Persian, Indic and emoji text needs
    them there, while after `<` they would hide a delimiter.
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
"""Maximum length of a title; a longer text is not a title, and would be repeated with each passage."""


def title_of(doc: Document) -> str:
    """Return a passage's title as prompts show it: one line, not longer than a title is."""
    title = str(doc.metadata.get("title") or "")
    return one_line(title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…")


def head_of(doc: Document) -> str:
    """Return a passage's title and day as attributes of a delimiter; "" if it has neither."""
    given = {"title": title_of(doc), "date": iso_date(str(doc.metadata.get("date") or ""))[:10]}
    return "".join(f' {name}="{text}"' for name, text in given.items() if text)


def render_passages(passages: Sequence[Document]) -> str:
    """Write passages as numbered blocks, `<passage 1 title="…" date="2024-03-01">…</passage>`, in the order given.

    The number is the position in the prompt, from 1: ids that a passage claims for itself are
    only text.
    """
    return "\n".join(render_passage(str(number), doc) for number, doc in enumerate(passages, start=1))


def render_passage(name: str, doc: Document) -> str:
    """Write a passage as a block of a name."""
    return f"<passage {one_line(name)}{head_of(doc)}>\n{untrusted(doc.page_content).strip()}\n</passage>"


def render_lines(passages: Sequence[Document]) -> str:
    """Write each passage on a line, `title | text`, as BlendFilter shows knowledge (figure 6)."""
    return "\n".join(
        (f"{title} | " if (title := title_of(doc)) else "") + " ".join(untrusted(doc.page_content).split())
        for doc in passages
    )


def numbered(label: str, first: int = 1) -> Callable[[Sequence[Document]], str]:
    """Return a function that writes texts as `LABEL 1 : title | text`; no text can forge a number."""
    forged = re.compile(rf"\b({label}s?)\s*(\d+)\s*[:：]", re.I)

    def show(passages: Sequence[Document]) -> str:
        lines = (forged.sub(r"\1 \2 -", render_lines([doc])) for doc in passages)
        return "\n".join(f"{label} {number} : {line}" for number, line in enumerate(lines, start=first))

    return show


# ---- secrets

_NAME = "(?:keys?|token|secrets?|passwords?|passwd|credentials?|authorization)"
"""How the names of secrets end; `max_tokens` does not."""
_SECRET = re.compile(f"{_NAME}$", re.IGNORECASE)
_IN_TEXT = re.compile(
    r"(?P<before>://)[^\s/]{1,300}@"
    rf"|(?P<name>[?&;][\w.-]{{0,40}}{_NAME}=)[^\s&<>]+"
    r"|(?P<kind>\b(?:Bearer|Basic) )[\w.~+/=-]{6,}"
    r"|\bsk-[\w-]{8,}",
    re.IGNORECASE,
)
_SHORTEST = 8
"""Minimum length of an environment variable's value that is searched for in texts."""


def redacted(text: str) -> str:
    """Return a spec or another text without secrets.

    Secrets are the values of settings that name one, users and passwords in addresses, `Authorization` headers, and
    keys in OpenAI's form.
    """
    return _IN_TEXT.sub(_hidden, text)


def without_secrets(text: str) -> str:
    """Return a text as `redacted`, and without the values of secrets in environment variables."""
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    return redacted(text)


def _hidden(secret: re.Match[str]) -> str:
    return "://***@" if secret["before"] else f"{secret['name'] or secret['kind'] or ''}***"
