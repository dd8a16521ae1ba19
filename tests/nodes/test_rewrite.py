"""Which queries are searched after rewriting and judging."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragweave.nodes.necessity import NecessityOptions
from ragweave.nodes.rewrite import plan, rewritten
from ragweave.tools.claims import parse_rewrite

STATE: dict[str, Any] = {"question": "Who?", "queries": {"question": "Who?"}, "verdicts": {}}


def planned(state: dict[str, Any], **options: Any) -> tuple[dict[str, str], list[str]]:
    update = plan(state, NecessityOptions(**options), {})
    return update["queries"], [note["event"] for note in update["notes"]]


def claims(*queries: str) -> list[dict[str, str]]:
    return [
        {"key": f"claim_{at}", "claim": query, "query": query}
        for at, query in enumerate(queries, start=1)
    ]


def test_known_claims_are_left_out_and_the_filter_can_be_off() -> None:
    state = {**STATE, "claims": claims("a b", "c d"), "verdicts": {"claim_1": True}}
    assert list(planned(state)[0]) == ["question", "claim_2"]
    assert list(planned(state, claim_filter=False)[0]) == ["question", "claim_1", "claim_2"]


def test_a_claim_without_verdict_is_searched() -> None:
    assert list(planned({**STATE, "claims": claims("a b")})[0]) == ["question", "claim_1"]


def test_each_query_once() -> None:
    queries, events = planned({**STATE, "claims": claims("who?", "The Bridge", "bridge!")})
    assert queries == {"question": "Who?", "claim_2": "The Bridge"}
    assert events == ["queries_repeated"]


def test_all_known() -> None:
    state = {**STATE, "claims": claims("a b"), "verdicts": {"claim_1": True}}
    assert planned(state) == ({"question": "Who?"}, ["all_claims_known"])


@given(st.text(alphabet="<>ClaimQuery ()TrueFalse12ab\n", max_size=300))
def test_any_reply_keeps_the_question_first(reply: str) -> None:
    update = rewritten(STATE, parse_rewrite(reply, "Who?"), NecessityOptions(), {})
    assert next(iter(update["queries"].items())) == ("question", "Who?")
    keys = [claim["key"] for claim in update["claims"]]
    assert keys == [f"claim_{at}" for at in range(1, len(keys) + 1)]
    assert all(claim["query"] in " ".join(reply.split()) for claim in update["claims"])


def test_claims_beyond_the_limit_are_noted() -> None:
    reply = " ".join(f"<Claim> claim on {at} <Query> search {at}" for at in range(200))
    update = rewritten(STATE, parse_rewrite(reply), NecessityOptions(max_claims=3), {})
    assert len(update["claims"]) == 3
    assert [note["event"] for note in update["notes"]] == ["claims_cut"]
