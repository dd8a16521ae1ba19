"""A proxy, judge or rewriter that fails while the big model is up: the big model still answers."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from tests.scripted import ScriptedChat, Seen

from ragweave import build_graph
from ragweave.tools.retrieval import PassageRetriever

QUESTION = "How many moons has Mars?"
PARTS: dict[str, dict[str, Any]] = {
    "slimplm": {},
    "adaptive": {"queries": ("question",), "knowledge_filter": False},
}


class Echo(PassageRetriever):
    """Finds passages named after the query."""

    def _find(self, query: str, k: int) -> list[Document]:
        return [Document(page_content=f"About {query}.", id=query)][:k]


def proxy(claims: int, failing: range, slow: range) -> ScriptedChat:
    """Return a proxy whose judge fails, or takes its time, on some of its claims."""
    rewrite = " ".join(
        f"<Claim> fact {index} <Query> looking up {index}" for index in range(claims)
    )

    def reply(seen: Seen) -> str | Exception:
        task = seen.task or {}
        said = {"recall": "Mars has two moons.", "rewrite": rewrite}
        if task["task"] in said:
            return said[task["task"]]
        if not task["question"].startswith("looking up"):
            return "<Known(False)>"
        number = int(task["question"].split()[-1])
        if number in slow:
            time.sleep(0.05)
        return ValueError("down") if number in failing else "<Known(True)>"

    return ScriptedChat(replies=reply)


async def finish(graph: Any, how: str) -> tuple[dict[str, Any], Counter[str]]:
    """Run sync or async; return the final state and how often each node ran."""
    config = {"configurable": {"thread_id": "t"}}
    given = {"question": QUESTION}
    ran: Counter[str] = Counter()
    if how == "sync":
        for chunk in graph.stream(given, config, stream_mode="updates"):
            ran.update(list(chunk))
    else:
        async for chunk in graph.astream(given, config, stream_mode="updates"):
            ran.update(list(chunk))
    return dict((await graph.aget_state(config)).values), ran


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("name", list(PARTS))
@pytest.mark.parametrize(
    ("claims", "failing", "slow"),
    [
        (1, range(1), range(0)),
        (3, range(3), range(0)),
        (3, range(3), range(1)),
        (3, range(1), range(1, 3)),
        (3, range(2, 3), range(2, 3)),
    ],
)
async def test_claims_whose_judge_fails_are_searched(
    name: str, how: str, claims: int, failing: range, slow: range
) -> None:
    big = ScriptedChat(replies=["Two"])
    graph = build_graph(
        name,
        model=big,
        proxy=proxy(claims, failing, slow),
        retriever=Echo(),
        checkpointer=InMemorySaver(),
        **PARTS[name],
    )
    state, ran = await finish(graph, how)
    assert (state["answer"], len(big.seen), ran["plan"]) == ("Two", 1, 1)
    assert list(state["queries"]) == ["question", *(f"claim_{index + 1}" for index in failing)]
    failed = [note["node"] for note in state["notes"] if note["event"] == "proxy_failed"]
    assert failed == ["judge_claim"] * len(failing)


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("name", list(PARTS))
@pytest.mark.parametrize("rewrites", [True, False])
async def test_a_judge_that_is_down_leaves_the_rewriter_at_work(
    name: str, how: str, *, rewrites: bool
) -> None:
    rewriter = ScriptedChat(replies=["<Claim> fact <Query> search it"])
    graph = build_graph(
        name,
        model=ScriptedChat(replies=["Two"]),
        proxy=ScriptedChat(replies=["Mars has two moons."]),
        judge=ScriptedChat(replies=[ValueError("down")]),
        rewriter=rewriter,
        retriever=Echo(),
        checkpointer=InMemorySaver(),
        rewrite=rewrites,
        **PARTS[name],
    )
    state, ran = await finish(graph, how)
    assert (state["answer"], ran["plan"]) == ("Two", 1)
    assert len(rewriter.seen) == rewrites
    assert list(state["queries"]) == ["question", *(["claim_1"] if rewrites else [])]


def test_the_options_in_force_say_whether_a_failed_judge_is_followed_by_the_rewriter() -> None:
    rewriter = ScriptedChat(replies=["<Claim> fact <Query> search it"])
    graph = build_graph(
        "slimplm",
        proxy=ScriptedChat(replies=["Mars has two moons."]),
        judge=ScriptedChat(replies=[ValueError("down")]),
        rewriter=rewriter,
        retriever=Echo(),
    )
    graph.invoke({"question": QUESTION}, context={"rewrite": False})
    assert rewriter.seen == []
