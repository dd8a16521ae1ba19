"""Retrieval: `k` by call or by cutting, given passages, order in the prompt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from tests.scripted import ListRetriever, OwnListRetriever, ScriptedChat, documents

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.nodes.options import Options
from ragweave.nodes.retrieve import arranged, collect, to_retrieval
from ragweave.state import ranked
from ragweave.state.passages import as_merged

TEN = documents(*(f"text {index}" for index in range(10)))
QUESTION: Any = {"question": "Where?"}


def asked(retriever: Any, **options: Any) -> dict[str, Any]:
    graph = build_graph(
        "concat", model=ScriptedChat(replies=["Paris"]), retriever=retriever, **options
    )
    return dict(graph.invoke(QUESTION))


def test_k_reaches_an_own_retriever() -> None:
    own = OwnListRetriever(documents=TEN, k=9)
    out = asked(own, k=3)
    assert own.asked == [("Where?", 3)]
    assert [doc.id for doc in out["passages"]] == ["p0", "p1", "p2"]


@pytest.mark.parametrize(
    "bound",
    [
        lambda own: own.with_config(tags=["mine"]),
        lambda own: own.with_retry(stop_after_attempt=2),
        lambda own: own.bind().with_retry().with_config(run_name="search"),
    ],
    ids=["with_config", "with_retry", "several"],
)
@pytest.mark.parametrize(("method", "k"), [("concat", 8), ("dos_rag", 9)])
def test_k_reaches_an_own_retriever_inside_bindings(method: str, k: int, bound: Any) -> None:
    own = OwnListRetriever(documents=TEN)
    graph = build_graph(method, model=ScriptedChat(), retriever=bound(own), k=k)
    assert len(graph.invoke(QUESTION)["passages"]) == k
    assert own.asked == [("Where?", k)]


def test_a_foreign_retrievers_result_is_cut() -> None:
    foreign = ListRetriever(documents=TEN)
    out = asked(foreign, k=3)
    assert foreign.queries == ["Where?"]
    assert [doc.id for doc in out["passages"]] == ["p0", "p1", "p2"]
    assert [doc.metadata["rank"] for doc in out["passages"]] == [0, 1, 2]
    assert all(doc.metadata["query"] == "question" for doc in out["passages"])


def test_any_runnable_from_query_to_documents_will_do() -> None:
    out = asked(RunnableLambda(lambda query: [Document(page_content=f"about {query}")]))
    assert out["passages"][0].page_content == "about Where?"
    assert out["passages"][0].id


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (["Varn has a bridge."], "a list with str"),
        ([(TEN[0], 0.5)], "a list with tuple"),
        ({"documents": TEN}, "dict"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_list_of_documents_is_a_usage_error(found: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"returned {said}, and not a list of"):
        asked(RunnableLambda(lambda _query: found))


def test_duplicates_are_dropped() -> None:
    twins = [Document(page_content="Same  text"), Document(page_content="same text"), TEN[0]]
    assert len(asked(ListRetriever(documents=twins))["passages"]) == 2


def test_the_ledger_counts_retrievals() -> None:
    assert asked(ListRetriever(documents=TEN))["usage"]["retrievals"] == 1
    graph = build_graph("concat", model=ScriptedChat(), retriever=ListRetriever())
    given = {"question": "Where?", "passages": ["a"]}
    assert graph.invoke(given)["usage"]["retrievals"] == 0


def test_given_passages_take_the_place_of_retrieval() -> None:
    own = OwnListRetriever(documents=TEN)
    graph = build_graph("concat", model=ScriptedChat(replies=["Paris"]), retriever=own, k=1)
    out = graph.invoke({"question": "Where?", "passages": documents("a", "b")})
    assert own.asked == []
    assert [doc.page_content for doc in out["passages"]] == ["a", "b"]


def test_a_passage_given_twice_is_asked_once() -> None:
    model = ScriptedChat(replies=["Paris"])
    twice: Any = {"question": "Where?", "passages": ["same", "same", "other"]}
    out = build_graph("post_fusion", model=model).invoke(twice)
    assert sorted(one.passages[0] for one in model.seen) == ["other", "same"]
    assert len(out["candidates"]) == 2


def test_passages_of_one_id_and_different_text() -> None:
    model = ScriptedChat(replies=["Paris"])
    clash = [Document(page_content="a", id="x"), Document(page_content="b", id="x")]
    out = build_graph("post_fusion", model=model).invoke({"question": "Where?", "passages": clash})
    assert len(model.seen) == len(out["candidates"]) == len(out["passages"])


def test_no_retriever_and_no_passages() -> None:
    graph = build_graph("concat", model=ScriptedChat())
    with pytest.raises(UsageError, match="nothing to retrieve from"):
        graph.invoke(QUESTION)


def test_nothing_found_is_noted() -> None:
    graph = build_graph("concat", model=ScriptedChat(), retriever=ListRetriever())
    updates = list(graph.stream(QUESTION, stream_mode="updates"))
    (collected,) = (step["collect"] for step in updates if "collect" in step)
    assert [one["event"] for one in collected["notes"]] == ["no_passages_found"]


def test_the_route() -> None:
    state = {"passages": [], "queries": {"question": "q", "claim": "c"}}
    sends: Any = to_retrieval(state, Options())
    assert [(one.node, one.arg["query_key"], one.arg["query"]) for one in sends] == [
        ("retrieve", "question", "q"),
        ("retrieve", "claim", "c"),
    ]
    assert to_retrieval({**state, "passages": TEN}, Options()) == "collect"


def test_queries_are_interleaved_in_query_order() -> None:
    found = {
        "b": ranked(documents("b0", "b1"), "b"),
        "a": ranked([Document(page_content="a0")], "a"),
    }
    state = {"passages": [], "queries": {"b": "", "a": ""}, "retrieved": found, "kept": {}}
    merged = collect(state, Options())["passages"].value
    assert [doc.page_content for doc in merged] == ["b0", "a0", "b1"]


@pytest.mark.parametrize("order", ["retrieved", "reversed", "gold_first", "gold_last"])
def test_given_passages_stand_in_the_same_order_in_every_round(order: Any) -> None:
    options = Options(order=order)
    state: Any = {"passages": TEN[:3], "queries": {"question": "q"}, "retrieved": {}, "kept": {}}
    first = collect(state, options)["passages"].value
    second = collect({**state, "passages": first}, options)["passages"].value
    assert second == first == arranged(TEN[:3], order)
    assert [doc.page_content for doc in as_merged(second)] == ["text 0", "text 1", "text 2"]


def test_rounds_read_reversed_passages_reversed() -> None:
    steps = ["Follow up: Who?", "Ada.", "Follow up: When?", "1934.", "So the final answer is: Ada"]
    model = ScriptedChat(replies=steps)
    graph = build_graph("self_ask", model=model, order="reversed")
    graph.invoke({"question": "Where?", "passages": TEN[:3]})
    shown = [one.passages for one in model.seen if one.task and one.task["task"] == "answer"]
    assert shown == [["text 2", "text 1", "text 0"]] * 2


gold = st.lists(st.booleans(), max_size=8).map(
    lambda flags: [
        Document(page_content=str(index), metadata={"gold": flag})
        for index, flag in enumerate(flags)
    ]
)


@given(gold, st.sampled_from(["retrieved", "reversed", "gold_first", "gold_last"]))
def test_order_loses_nothing(passages: list[Document], order: str) -> None:
    result = arranged(passages, order)
    assert sorted(doc.page_content for doc in result) == sorted(
        doc.page_content for doc in passages
    )


@given(gold)
def test_orders(passages: list[Document]) -> None:
    def texts(listed: list[Document], flag: bool | None = None) -> list[str]:
        return [doc.page_content for doc in listed if flag in (None, doc.metadata["gold"])]

    assert arranged(passages, "retrieved") == passages
    assert texts(arranged(passages, "reversed")) == texts(passages)[::-1]
    assert texts(arranged(passages, "gold_first")) == texts(passages, True) + texts(passages, False)
    assert texts(arranged(passages, "gold_last")) == texts(passages, False) + texts(passages, True)
