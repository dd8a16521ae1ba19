"""Does a rewriter's reply break off before its end, as token limits make it do?"""

from __future__ import annotations

import re

_PARTIAL_TAG = re.compile(r"<\s?/?\s?[A-Za-z]{0,14}\s{0,9}\Z")
_OPEN_VALUE = re.compile(r"<\s?[A-Za-z_]{1,14}\s?\d{0,3}\s?[(:=][^<>]*\Z")
_SECTIONS = re.compile(r"<\s?(?P<close>/?)\s?(?P<name>claims|questions)\s?>", re.IGNORECASE)
_EMPTY_LABEL = re.compile(
    r"\b(?:claim|statement|question|query|search(?: ?word| ?term)?)\s?\d{0,3}\s?[:：=][\s*_]*\Z",
    re.IGNORECASE,
)
_JSON_PART = re.compile(r'(?P<text>"(?:[^"\\]|\\.)*+)(?P<end>"?)|[\[\]{}]', re.DOTALL)


def breaks_off(reply: str) -> bool:
    """Tell whether a reply ends inside a marker, a value, or a list that it opened.

    A value without its closer counts only where the reply closes its others: some models never
    write closers.
    """
    if _PARTIAL_TAG.search(reply) or _EMPTY_LABEL.search(reply):
        return True
    if ")>" in reply and _OPEN_VALUE.search(reply):
        return True
    opened: set[str] = set()
    for tag in _SECTIONS.finditer(reply):
        name = tag["name"].lower()
        opened = opened - {name} if tag["close"] else opened | {name}
    return bool(opened)


def json_breaks_off(reply: str) -> bool:
    """Tell whether the JSON in a reply ends before its last bracket is closed."""
    depth = 0
    for part in _JSON_PART.finditer(reply):
        if part["text"]:
            if depth and not part["end"]:
                return True
        elif part.group() in "[{":
            depth += 1
        else:
            depth = max(depth - 1, 0)
    return depth > 0
