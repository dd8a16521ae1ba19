"""Cleaning of the values that models put between markers; nothing is added to them."""

from __future__ import annotations

import re

from ragweave.tools.text.reply import bounded, without_thinking

MAX_WORDS = 64
"""Words of a claim, question or query that are kept; what follows is cut off."""

MAX_CHARACTERS = 600
"""Characters that are kept at most, for texts that use no spaces."""

_FENCE = re.compile(r"```[a-zA-Z]*")
_EDGES = " \t\r\n\"'`*_“”‘’,;|<>"
_TAGS = re.compile(r"</?\s?[A-Za-z_]{1,14}\s?/?>")
_PLACEHOLDER = re.compile(
    r"[(\[{]?\s*(?:(?:(?:its|the|your|an?|first|second|third|next|another) ){0,2}(?:claim|query|question|search|sub-?question)s?[\s_]*(?:\d+|text|here)?"
    r"|none|null|n/?a|no query|not needed|empty)\s*[)\]}]?\.?",
    re.IGNORECASE,
)
_TRUE = re.compile(r"\W*(?:true|yes|required|needed)\b(?!\s*[/|]|\s+or\b)", re.IGNORECASE)
_FALSE = re.compile(r"\W*(?:false|no|not (?:required|needed))\b(?!\s*[/|]|\s+or\b)", re.IGNORECASE)


def reply_text(text: str) -> str:
    """Return a reply, bounded, without its thinking block and code fences, escaped brackets restored."""
    plain = without_thinking(bounded(text))
    return _FENCE.sub("\n", plain).replace("&lt;", "<").replace("&gt;", ">")


def clean(value: str) -> tuple[str, bool]:
    """Return a value without markup at its ends, white space folded; and whether it was cut.

    Empty for a text without content: a placeholder of the prompt's format (`claim 1`),
    `none`, or marks without a letter or digit.
    """
    folded = " ".join(_TAGS.sub(" ", value.replace("**", " ")).split())
    trimmed = _balanced(_without_so_on(folded[: 4 * MAX_CHARACTERS]).strip(_EDGES))
    if _PLACEHOLDER.fullmatch(trimmed) or not re.search(r"[^\W_]", trimmed):
        return "", False
    words = trimmed.split()
    text = " ".join(words[:MAX_WORDS])[:MAX_CHARACTERS].rstrip()
    return text, len(folded) > 4 * MAX_CHARACTERS or text != " ".join(words)


def _without_so_on(text: str) -> str:
    """Return a text without the "…" or "..." that it ends in; a full stop stays."""
    bare = text.rstrip(" .…,;")
    ending = text[len(bare) :]
    return bare if "..." in ending or "…" in ending else text


def flag(value: str) -> bool | None:
    """Read True/False or yes/no; None for anything else, an echo of "True/False" too."""
    if _FALSE.match(value):
        return False
    return True if _TRUE.match(value) else None


def _balanced(text: str) -> str:
    """Drop brackets at the ends that have no partner, such as a marker's own."""
    for opener, closer in ("()", "[]", "{}"):
        alone = _unpaired(text, opener, closer)
        start, end = 0, len(text)
        while end > start and text[end - 1] == closer and end - 1 in alone:
            end = len(text[: end - 1].rstrip(_EDGES))
        while start < end and text[start] == opener and start in alone:
            start = end - len(text[start + 1 : end].lstrip(_EDGES))
        text = text[start:end]
        inner = text[1:-1]
        if text[:1] == opener and text[-1:] == closer and not set(inner) & {opener, closer}:
            text = inner.strip(_EDGES)
    return text


def _unpaired(text: str, opener: str, closer: str) -> set[int]:
    """Return the places of the brackets of a kind that have no partner."""
    opened: list[int] = []
    alone: set[int] = set()
    for place, letter in enumerate(text):
        if letter == opener:
            opened.append(place)
        elif letter == closer and opened:
            opened.pop()
        elif letter == closer:
            alone.add(place)
    return alone.union(opened)
