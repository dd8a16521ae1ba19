"""The markers of a rewriter's reply, read into one stream of events whatever their form.

Each reader returns events `(kind, value)`: `claim` and `question` open a record, `query` and
`flag` belong to the record before them, `item` is an unlabelled item of a list. `breaks_off` and
`json_breaks_off` detect a reply that a token limit cut short.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from ragweave.tools.claims.values import clean

_PARTIAL_TAG = re.compile(r"<\s?/?\s?[A-Za-z]{0,14}\s{0,9}\Z")
_OPEN_VALUE = re.compile(r"<\s?[A-Za-z_]{1,14}\s?\d{0,3}\s?[(:=][^<>]*\Z")
_SECTIONS = re.compile(r"<\s?(?P<close>/?)\s?(?P<name>claims|questions)\s?>", re.IGNORECASE)
_EMPTY_LABEL = re.compile(
    r"\b(?:claim|statement|question|query|search(?: ?word| ?term)?)\s?\d{0,3}\s?[:：=][\s*_]*\Z",
    re.IGNORECASE,
)
_JSON_PART = re.compile(r'(?P<text>"(?:[^"\\]|\\.)*+)(?P<end>"?)|[\[\]{}]', re.DOTALL)


def breaks_off(reply: str) -> bool:
    """Return whether a reply ends inside a marker, a value, or a list that it opened.

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
    """Return whether the JSON in a reply ends before its last bracket is closed."""
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


Kind = Literal["claim", "question", "query", "flag", "item"]
Event = tuple[Kind, str]

_KINDS: dict[str, Kind] = {
    "claim": "claim",
    "statement": "claim",
    "question": "question",
    "subquestion": "question",
    "query": "query",
    "searchquery": "query",
    "searchword": "query",
    "searchterm": "query",
    "rewrittenquery": "query",
    "search": "flag",
    "needsearch": "flag",
    "needssearch": "flag",
    "searchneeded": "flag",
}
_TAG = re.compile(
    r"<\s?(?P<close>/?)\s?(?P<name>claims?|questions?|query|queries|need_?search|search|task"
    r"|timeliness)\s?\d{0,3}\s?(?P<open>[>(<:=])",
    re.IGNORECASE,
)
_CLOSER = re.compile(r"\)\s*\.?\s*>")
_LABEL = re.compile(
    r"(?:^|(?<=[|;(\[,.–—-])\s{0,3}|\s)(?P<name>claim|statement|sub-?question|question"
    r"|search[ _]?(?:query|word|term)|rewritten query|query|needs?[ _]?search|search needed|search)"
    r"\s?\d{0,3}\s?[:：=]\s*",
    re.IGNORECASE,
)
_MARKER = re.compile(r"\s*(?:[-*•+–]|\(?\d{1,3}[.):]|\[\d{1,3}\]|[a-zA-Z][.)])\s+")
_SECTION = re.compile(
    r"\W*(?:the |search |rewritten |sub-?|main |key )*(claim|question|quer(?:y|ie))s?\W*",
    re.IGNORECASE,
)
JSON_KEY = re.compile(r'"\s*(?:claims?|questions?|query|queries|searchWord)\s*"\s*:', re.IGNORECASE)
_JSON_TRIES = 300
_LINES = 2000


def tag_events(text: str) -> list[Event]:
    """Read `<Claim> …`, `<Claim(…)>` and what is left of them when models forget closers.

    A value without its closer at the very end of a reply that closes its others was cut off,
    and is dropped.
    """
    text = _PARTIAL_TAG.sub("", text)
    tags = list(_TAG.finditer(text))
    events: list[Event] = []
    closed_before = False
    for tag, following in zip(tags, [*tags[1:], None], strict=False):
        kind = _kind(tag["name"])
        if tag["close"] or kind is None or tag["name"].lower() in ("claims", "questions"):
            continue
        region = text[tag.end() : following.start() if following else len(text)]
        value, closed = _value(region, tag["open"])
        cut = not closed and closed_before and following is None and "\n" not in region
        closed_before = closed_before or (closed and tag["open"] != ">")
        if not cut:
            events.append((kind, value))
    return events


def json_events(text: str) -> list[Event]:
    """Read JSON objects with claims, questions and queries; of a cut reply the whole ones."""
    if not JSON_KEY.search(text):
        return []
    return [event for value in _decoded(text) for event in _walk(value)]


def line_events(text: str) -> list[Event]:
    """Read labelled lines (`Claim 1: …`, `Query: …`) and the items of lists."""
    events: list[Event] = []
    section: Kind = "item"
    pending: Kind | None = None
    for line in text.splitlines()[:_LINES]:
        marker = _MARKER.match(line)
        plain = line[marker.end() :] if marker else line
        plain = plain.replace("**", "").replace("`", "").strip(" \t_").lstrip("#> \t_")
        if not plain:
            continue
        if (heading := _SECTION.fullmatch(plain)) and not marker:
            pending = _kind(heading[1]) if plain.rstrip(" *:").lower()[-1] != "s" else None
            section = "claim" if heading[1].lower() == "claim" else "question"
            continue
        found = _labelled(plain, listed=marker is not None)
        if not found and pending:
            found = [(pending, plain)]
        elif not found and marker:
            found = [(section, plain)]
        pending = found[-1][0] if found and not found[-1][1] else None
        events.extend(event for event in found if event[1])
    return events


def _kind(name: str) -> Kind | None:
    """Return what a marker called `name` stands for."""
    plain = re.sub(r"[\s_-]", "", name.lower())
    if plain.startswith("querie"):
        return "query"
    return _KINDS.get(plain) or _KINDS.get(plain.removesuffix("s"))


def _value(region: str, opener: str) -> tuple[str, bool]:
    """Return the value that starts a region, and whether its marker was closed."""
    if opener != ">":
        if end := _CLOSER.search(region):
            value, behind = region[: end.start()], region[end.end() :].strip()
            return (behind.splitlines()[0] if behind and not clean(value)[0] else value), True
        if opener in "<:=" and ">" in region:
            return region[: region.index(">")], True
    lines = region.strip().splitlines()
    return (lines[0] if lines else ""), opener == ">"


def _labelled(line: str, *, listed: bool) -> list[Event]:
    """Split a line at its labels; text before the first one is a list item's own."""
    labels = list(_LABEL.finditer(line))
    if not labels:
        return []
    events: list[Event] = []
    if listed and labels[0].start() > 0:
        events.append(("item", line[: labels[0].start()].rstrip(" (|[-–—,;:")))
    for label, following in zip(labels, [*labels[1:], None], strict=False):
        value = line[label.end() : following.start() if following else len(line)]
        kind = _kind(label["name"])
        if kind is not None:
            events.append((kind, value.strip(" |;–—-")))
    return events


def _decoded(text: str) -> Iterator[Any]:
    """Yield the JSON values in a text, outermost first."""
    decoder = json.JSONDecoder()
    position, tries = 0, 0
    while tries < _JSON_TRIES and (start := re.compile(r"[\[{]").search(text, position)):
        tries += 1
        try:
            value, position = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position = start.start() + 1
        else:
            yield value


def _walk(value: Any) -> Iterator[Event]:
    """Yield the events of a decoded JSON value, in reading order."""
    stack: list[tuple[Kind | None, Any]] = [(None, value)]
    while stack:
        kind, here = stack.pop()
        if isinstance(here, dict):
            stack.extend(reversed(_fields(here)))
        elif isinstance(here, list):
            stack.extend((kind, part) for part in reversed(here))
        elif kind and isinstance(here, str | bool):
            yield kind, str(here)


def _fields(record: dict[str, Any]) -> list[tuple[Kind | None, Any]]:
    """Return the parts of a JSON object: its own text before the query and flag that belong to it.

    Lists of claims and of queries beside each other are paired where they are of one length;
    other lists of queries are rewrites of the question.
    """
    fields = [(_kind(key), part) for key, part in record.items()]
    lists = {kind: part for kind, part in fields if isinstance(part, list)}
    claims, queries = lists.get("claim", []), lists.get("query", [])
    if claims and len(claims) == len(queries):
        pairs = [{"claim": one, "query": two} for one, two in zip(claims, queries, strict=True)]
        fields = [field for field in fields if field[0] not in ("claim", "query")]
        return [*fields, (None, pairs)]
    named = [("question" if k == "query" and isinstance(v, list) else k, v) for k, v in fields]
    return sorted(named, key=lambda field: field[0] not in ("claim", "question"))
