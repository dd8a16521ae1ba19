"""Which queries are searched after rewriting and judging."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from ragweave.nodes.judge import NecessityOptions
from ragweave.nodes.rewrite import plan, rewritten
from ragweave.nodes.step import Context
from ragweave.tools.claims import parse_rewrite
from ragweave.tools.text.reply import cut_off

STATE: dict[str, Any] = {
    "question": "Who?",
    "queries": {"question": "Who?"},
    "verdicts": {},
}


def planned(state: dict[str, Any], **options: Any) -> tuple[dict[str, str], list[str]]:
    context = Context("plan", NecessityOptions(**options))
    update = plan(state, context)
    return update["queries"], [note["event"] for note in context.notes]


def claims(*queries: str) -> list[dict[str, str]]:
    return [
        {"key": f"claim_{index}", "claim": query, "query": query}
        for index, query in enumerate(queries, start=1)
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
    update = rewritten(STATE, parse_rewrite(reply, "Who?"), rewriting())
    assert next(iter(update["queries"].items())) == ("question", "Who?")
    keys = [claim["key"] for claim in update["claims"]]
    assert keys == [f"claim_{index}" for index in range(1, len(keys) + 1)]
    assert all(claim["query"] in " ".join(reply.split()) for claim in update["claims"])


def test_claims_beyond_the_limit_are_noted() -> None:
    reply = " ".join(f"<Claim> claim on {index} <Query> search {index}" for index in range(20))
    context = rewriting(max_claims=3)
    update = rewritten(STATE, parse_rewrite(reply), context)
    assert len(update["claims"]) == 3
    assert noted(context) == {"claims_cut": {"claims": 17, "kept": 3}}


def rewriting(**options: Any) -> Context[NecessityOptions]:
    return Context("rewrite", NecessityOptions(**options))


def noted(context: Context[NecessityOptions]) -> dict[str, dict[str, int]]:
    return {note["event"]: note["detail"] for note in context.notes}


def claim(index: int, search: bool = True) -> str:
    return (
        f"<Claim(bridge number {index} is long)> <Search({search})> <Query(bridge number {index})>"
    )


def question(index: int) -> str:
    return f"<Question(What is bridge {index}?)> <NeedSearch(True)> <Query(what is bridge {index})>"


@pytest.mark.parametrize(
    ("reply", "events"),
    [
        ("<Claims> " + claim(1) + " </Claims>", []),
        ("<Claims> " + "".join(map(claim, range(32))) + " </Claims>", []),
        ("<Claims> <Claim(Who?)> <Search(True)> <Query(who)> </Claims>", ["records_dropped"]),
        ("<Claims> " + claim(1) * 2 + " </Claims>", ["records_dropped"]),
        ("<Claims> " + "".join(map(claim, range(40))) + " </Claims>", ["records_dropped"]),
        ("<Claims> " + claim(1, search=False) + " </Claims>", ["no_claim_searched"]),
        ("<Claims> " + claim(1) + " <Claim(a whole bri", ["rewrite_truncated"]),
        (f"<Claims> <Claim(a b)> <Search(True)> <Query({'word ' * 100})> </Claims>", ["query_cut"]),
        (f"<Claims> <Claim({'word ' * 100})> <Search(True)> <Query(a b)> </Claims>", ["query_cut"]),
        ("<Questions> " + "".join(map(question, range(8))) + " </Questions>", ["rewrites_cut"]),
        ("no idea at all", ["rewrite_unparsed"]),
    ],
)
def test_what_is_lost_is_noted_and_nothing_else(reply: str, events: list[str]) -> None:
    context = rewriting(max_claims=40, max_rewrites=5)
    update = rewritten(STATE, parse_rewrite(reply, "Who?"), context)
    assert list(noted(context)) == events
    assert sum(key.startswith("rewrite_") for key in update["queries"]) <= 5


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"finish_reason": "length"}, True),
        ({"stop_reason": "max_tokens"}, True),
        ({"done_reason": "length"}, True),
        ({"stopReason": "max_tokens"}, True),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            True,
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, False),
        ({"status": "completed", "incomplete_details": None}, False),
        ({"stopReason": "end_turn"}, False),
        ({"finish_reason": "stop"}, False),
        ({}, False),
    ],
)
def test_a_reply_that_the_provider_cut_off(metadata: dict[str, Any], *, expected: bool) -> None:
    assert cut_off(AIMessage("Ada", response_metadata=metadata)) is expected
    assert not cut_off(None)
