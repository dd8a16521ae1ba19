"""Reading a query rewriter's reply (SlimPLM section 3.3 and Table 8)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ragweave.tools.claims.events import Event, json_events, line_events, tag_events
from ragweave.tools.claims.records import ClaimQuery, QuestionQuery, Rewrite
from ragweave.tools.claims.values import clean, flag, reply_text
from ragweave.tools.text.normalize import normalize_answer

MAX_RECORDS = 32
"""Claims, and questions, that are taken from one reply; later ones are left out."""

_EMPTY = re.compile(
    r'<claims>\s*</\s*claims>|"claims"\s*:\s*\[\s*\]|<claims/>|\A\s*\[\s*\]\s*\Z', re.IGNORECASE
)


class _Record(NamedTuple):
    """A claim or question before its query's fallback."""

    is_claim: bool
    text: str
    need_search: bool | None
    query: str


def parse_rewrite(text: str, question: str = "") -> Rewrite:
    """Read a rewriter's reply; nothing that does not stand in it is returned.

    It takes the paper's `<Claim> … <Query> …`, the released models' `<Question(…)>
    <NeedSearch(…)> <Query(…)>` and `<Claim(…)> …`, JSON, labelled lines and plain lists (an item
    is a claim, or a question where it ends in "?"). Left out: duplicates, a claim equal to the
    question, a question whose text and query both equal it, placeholders of the format, and
    records beyond `MAX_RECORDS`; long texts are cut (see `values`). A record without a query has
    its own text for one, unless it is flagged as needing no search.

    Args:
        text: The reply, of any length and shape.
        question: The user's question.
    """
    plain = reply_text(text)
    records = _records(tag_events(plain)) or _records(json_events(plain))
    records = records or _records(line_events(plain))
    asked = normalize_answer(question)
    questions: dict[tuple[str, str], QuestionQuery] = {}
    claims: dict[tuple[str, str], ClaimQuery] = {}
    for is_claim, own, need, found in records:
        need_search = need is not False
        query = found or (own if need_search else "")
        key = (normalize_answer(own), normalize_answer(query))
        if is_claim and key[0] != asked:
            claims.setdefault(key, ClaimQuery(own, need_search, query))
        elif not is_claim and not {*key} <= {asked, ""}:
            questions.setdefault(key, QuestionQuery(own, need_search, query))
    return Rewrite(
        list(questions.values())[:MAX_RECORDS],
        list(claims.values())[:MAX_RECORDS],
        parsed=bool(records) or bool(_EMPTY.search(plain)),
    )


def parse_claims(text: str, question: str = "") -> list[ClaimQuery]:
    """Return the claims of a rewriter's reply, as `parse_rewrite` reads them."""
    return parse_rewrite(text, question).claims


def _records(events: Sequence[Event]) -> list[_Record]:
    """Join events to records.

    List items count only where nothing is labelled a claim or question. A second query of one
    claim makes a second record; a query of nothing is a rewrite of the question.
    """
    named = any(kind in ("claim", "question") for kind, _ in events)
    records: list[_Record] = []
    is_open = False
    for kind, raw in _readable(events):
        if kind == "query":
            _add_query(records, clean(raw), is_open=is_open, alone=not named)
        elif kind == "flag":
            if is_open and records[-1].need_search is None:
                records[-1] = records[-1]._replace(need_search=flag(raw))
        else:
            text = clean(raw)
            is_open = bool(text) and (kind != "item" or not named)
            if is_open:
                is_claim = kind == "claim" or (kind == "item" and not text.endswith("?"))
                records.append(_Record(is_claim, text, None, ""))
    return records


def _add_query(records: list[_Record], query: str, *, is_open: bool, alone: bool) -> None:
    """Give `query` to the open record, or let it stand for itself where nothing is labelled."""
    if not query:
        return
    if not is_open:
        if alone:
            records.append(_Record(False, query, None, query))
    elif records[-1].query:
        records.append(records[-1]._replace(query=query))
    else:
        records[-1] = records[-1]._replace(query=query)


def _readable(events: Iterable[Event]) -> Iterable[Event]:
    """Take `Search: some words`, a flag's name before a query, for the query that it is."""
    for kind, raw in events:
        if kind == "flag" and flag(raw) is None and len(raw.split()) > 1 and "/" not in raw:
            yield "query", raw
        else:
            yield kind, raw
