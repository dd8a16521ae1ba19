"""Reading a query rewriter's reply (SlimPLM section 3.3 and Table 8).

A reply consists of questions and claims, each with a search query.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from ragweave.tools.claims.events import (
    JSON_KEY,
    Event,
    breaks_off,
    json_breaks_off,
    json_events,
    line_events,
    tag_events,
)
from ragweave.tools.claims.values import clean, flag, reply_text
from ragweave.tools.text.normalize import normalize_answer


class ClaimQuery(NamedTuple):
    """A claim of the heuristic answer and how to search for it."""

    claim: str
    need_search: bool
    """What the rewriter flagged; True where it gave no flag."""
    query: str
    """The search text; the claim itself where a search is due and none was given."""


class QuestionQuery(NamedTuple):
    """A rewrite or part of the user's question and how to search for it."""

    question: str
    need_search: bool
    query: str
    """The search text; the question itself where a search is due and none was given."""


class Rewrite(NamedTuple):
    """A rewriter's reply, read."""

    questions: list[QuestionQuery]
    claims: list[ClaimQuery]
    parsed: bool
    """False: nothing in the reply could be read as a question or claim."""
    cut: int = 0
    """Texts (claims, questions, queries) of these records that were cut to the limits."""
    dropped: int = 0
    """Records left out: duplicates, repeats of the question, those beyond `MAX_RECORDS`."""
    truncated: bool = False
    """The reply breaks off inside a record, or inside a list that it opened."""


MAX_RECORDS = 32
"""Claims, and questions, that are taken from one reply; later ones are left out."""

_QUESTION = re.compile(
    r"\s*(?:who|whom|whose|which|what|when|where|why|how|is|are|was|were|do|does|did|has|have|had|can"
    r"|could|will|would|should)\b.*[?？]\s*",
    re.IGNORECASE | re.DOTALL,
)
_EMPTY = re.compile(
    r'<claims>\s*</\s*claims>|"claims"\s*:\s*\[\s*\]|<claims/>|\A\s*\[\s*\]\s*\Z', re.IGNORECASE
)


class _Record(NamedTuple):
    """A claim or question before its query's fallback."""

    is_claim: bool
    text: str
    need_search: bool | None
    query: str
    text_cut: bool
    query_cut: bool


def parse_rewrite(text: str, question: str = "", examples: Collection[str] = ()) -> Rewrite:
    """Read a rewriter's reply; only text that is in it is returned.

    It takes the paper's `<Claim> … <Query> …`, the released models' `<Question(…)>
    <NeedSearch(…)> <Query(…)>` and `<Claim(…)> …`, JSON, labelled lines and plain lists (an item
    is a claim, or a question where it ends in "?"). A "claim" that asks is a question. Left out:
    duplicates, a claim equal to the question, a question whose text and query both equal it,
    placeholders of the format, copies of the prompt's example, and records beyond `MAX_RECORDS`;
    long texts are cut (see `values`). A record without a query is its own query, unless it is
    flagged as needing no search. What was cut, left out, or lost at the reply's end is counted
    (`cut`, `dropped`, `truncated`).

    Args:
        text: The reply, of any length and shape.
        question: The user's question.
        examples: Claims, questions and queries of the prompt's example, which a model may copy.
    """
    plain = reply_text(text)
    records = _records(tag_events(plain))
    is_json = not records and bool(JSON_KEY.search(plain))
    records = records or _records(json_events(plain)) or _records(line_events(plain))
    asked = normalize_answer(question)
    copied = {*map(normalize_answer, examples)} - {asked}
    kept: dict[tuple[bool, str, str], _Record] = {}
    for record in records:
        query = record.query or (record.text if record.need_search is not False else "")
        own, sought = normalize_answer(record.text), normalize_answer(query)
        echo = own == asked if record.is_claim else {own, sought} <= {asked, ""}
        if not echo and own not in copied and sought not in copied:
            made = _asking(record)._replace(query=query)
            kept.setdefault((made.is_claim, own, sought), made)
    taken = [
        *[one for one in kept.values() if not one.is_claim][:MAX_RECORDS],
        *[one for one in kept.values() if one.is_claim][:MAX_RECORDS],
    ]
    ended_early = json_breaks_off(plain) if is_json else breaks_off(plain) or _lacks_query(records)
    return Rewrite(
        [QuestionQuery(*_plain(one)) for one in taken if not one.is_claim],
        [ClaimQuery(*_plain(one)) for one in taken if one.is_claim],
        parsed=bool(records) or bool(_EMPTY.search(plain)),
        cut=sum(one.text_cut + one.query_cut for one in taken),
        dropped=len(records) - len(taken),
        truncated=ended_early,
    )


def parse_claims(text: str, question: str = "") -> list[ClaimQuery]:
    """Return the claims of a rewriter's reply, as `parse_rewrite` reads them."""
    return parse_rewrite(text, question).claims


def _plain(record: _Record) -> tuple[str, bool, str]:
    """Return a record's text, whether it needs a search, and its query."""
    return record.text, record.need_search is not False, record.query


def _asking(record: _Record) -> _Record:
    """Return a "claim" that is a question as a question: there is nothing in it to judge."""
    asks = record.is_claim and _QUESTION.fullmatch(record.text)
    return record._replace(is_claim=False) if asks else record


def _lacks_query(records: Sequence[_Record]) -> bool:
    """Return whether the last record alone has no query and no word on whether it needs one."""
    complete = [bool(one.query) or one.need_search is not None for one in records]
    return len(complete) > 1 and not complete[-1] and all(complete[:-1])


def _records(events: Sequence[Event]) -> list[_Record]:
    """Join events to records.

    List items count only where nothing is labelled a claim or question. A second query of one
    claim makes a second record; a query of nothing is a rewrite of the question.
    """
    named = any(kind in ("claim", "question") and clean(raw)[0] for kind, raw in events)
    records: list[_Record] = []
    is_open = False
    for kind, raw in _readable(events):
        if kind == "query":
            _add_query(records, raw, is_open=is_open, alone=not named)
        elif kind == "flag":
            if is_open and records[-1].need_search is None:
                records[-1] = records[-1]._replace(need_search=flag(raw))
        else:
            text, cut = clean(raw)
            is_open = bool(text) and (kind != "item" or not named)
            if is_open:
                is_claim = kind == "claim" or (kind == "item" and not text.endswith("?"))
                records.append(_Record(is_claim, text, None, "", cut, False))
    return records


def _add_query(records: list[_Record], raw: str, *, is_open: bool, alone: bool) -> None:
    """Give a query to the open record, or let it stand for itself where nothing is labelled."""
    query, cut = clean(raw)
    if not query:
        return
    if not is_open:
        if alone:
            records.append(_Record(False, query, None, query, False, cut))
        return
    last = records[-1]
    fuller = last._replace(query=query, query_cut=cut)
    if last.query:
        records.append(fuller)
    else:
        records[-1] = fuller


def _readable(events: Iterable[Event]) -> Iterable[Event]:
    """Take `Search: some words`, a flag's name before a query, for the query that it is."""
    for kind, raw in events:
        if kind == "flag" and flag(raw) is None and len(raw.split()) > 1 and "/" not in raw:
            yield "query", raw
        else:
            yield kind, raw
