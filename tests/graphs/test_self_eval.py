"""Self-Eval: the model decides, then answers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.loops import events, final_state
from tests.scripted import ListRetriever, OwnListRetriever, ScriptedChat, documents

from ragweave.graphs import CompiledGraph, build_graph
from ragweave.tools.retrieval import Bm25Retriever

DOCS = documents("Ada Brenner built the light.", "It stands in Norland.")


def built(*replies: str, retriever: Any = None, **options: Any) -> tuple[CompiledGraph, Any, Any]:
    model = ScriptedChat(replies=replies)
    retriever = retriever or ListRetriever(documents=DOCS)
    return build_graph("self_eval", model=model, retriever=retriever, **options), model, retriever


def test_yes_retrieves() -> None:
    graph, model, retriever = built("Yes", "Ada Brenner")
    state = final_state(graph, "Who built the light?")
    assert (state["answer"], state["status"], state["known"]) == ("Ada Brenner", "answered", False)
    assert retriever.queries == ["Who built the light?"]
    assert [doc.id for doc in state["passages"]] == ["p0", "p1"]
    assert model.seen[0].task["task"] == "need"
    assert model.seen[1].passages == [doc.page_content for doc in DOCS]
    assert (state["usage"]["calls"], state["usage"]["retrievals"], state["truncated"]) == (
        2,
        1,
        False,
    )


def test_no_answers_closed_book() -> None:
    graph, model, retriever = built("No, I know this.", "six")
    state = final_state(graph, "How many sides has a hexagon?")
    assert (state["answer"], state["known"], state["passages"]) == ("six", True, [])
    assert (retriever.queries, model.seen[1].passages) == ([], [])
    assert "<passage" not in model.seen[1].text
    assert (state["usage"]["calls"], state["usage"]["retrievals"]) == (2, 0)


def test_the_large_model_itself_decides_also_beside_a_judge_and_a_proxy() -> None:
    model, other = ScriptedChat(replies=["No", "six"]), ScriptedChat(replies=["Yes"])
    graph = build_graph("self_eval", model=model, judge=other, proxy=other)
    out = graph.invoke({"question": "?"})
    assert (other.seen, len(model.seen), out["answer"]) == ([], 2, "six")
    assert out["usage"]["by_role"]["answer"]["calls"] == 2


def test_the_judge_decides_where_that_is_asked_for() -> None:
    judge, model = ScriptedChat(replies=["No"]), ScriptedChat(replies=["six"])
    graph = build_graph("self_eval", model=model, judge=judge, decided_by="judge")
    out = graph.invoke({"question": "?"})
    assert (len(judge.seen), len(model.seen)) == (1, 1)
    assert out["usage"]["by_role"]["judge"]["calls"] == 1


@pytest.mark.parametrize("reply", ["", "Perhaps.", "Known(True) or Known(False)"])
def test_an_unreadable_verdict_retrieves(reply: str) -> None:
    graph, _, retriever = built(reply, "Ada Brenner")
    state = final_state(graph, "Who?")
    assert (state["answer"], retriever.queries) == ("Ada Brenner", ["Who?"])
    assert "need_unparsed" in events(state)


def test_an_unreadable_answer_is_unknown() -> None:
    graph, _, _ = built("Yes", "")
    out = graph.invoke({"question": "Who?"})
    assert (out["answer"], out["status"]) == ("Unknown", "unknown")


def test_nothing_found_is_closed_book() -> None:
    graph, model, _ = built("Yes", "Ada", retriever=ListRetriever())
    state = final_state(graph, "Who?")
    assert (state["answer"], model.seen[1].passages) == ("Ada", [])
    assert events(state) == ["no_passages_found", "answered_without_documents"]


def test_what_was_said_to_be_known_and_is_not_is_searched_for() -> None:
    graph, model, retriever = built("No", "Unknown", "Ada Brenner")
    state = final_state(graph, "Who built the light?")
    assert retriever.queries == ["Who built the light?"]
    assert (state["answer"], state["usage"]["calls"]) == ("Ada Brenner", 3)
    assert model.seen[2].passages == [doc.page_content for doc in DOCS]
    assert [doc.id for doc in state["passages"]] == ["p0", "p1"]
    assert [one["answer"] for one in state["candidates"].values()] == ["Unknown", "Ada Brenner"]
    assert events(state) == []


def test_there_is_one_second_look() -> None:
    graph, model, retriever = built("No", "Unknown")
    out = graph.invoke({"question": "Who?"})
    assert (out["status"], len(model.seen), len(retriever.queries)) == ("unknown", 3, 1)


@pytest.mark.parametrize("samples", [1, 2])
def test_a_second_look_that_finds_nothing_does_not_ask_again(samples: int) -> None:
    replies = ["No", *["Unknown"] * samples, "Ada"]
    graph, model, retriever = built(*replies, retriever=OwnListRetriever(), samples=samples)
    state = final_state(graph, "Who?")
    assert (state["status"], len(model.seen), len(retriever.asked)) == ("unknown", 1 + samples, 1)
    assert events(state) == ["no_passages_found", "unknown_without_documents"]
    assert state["notes"][-1]["detail"] == {"why": "nothing was found"}


@pytest.mark.parametrize("more", [{"profile": "paper"}, {"retriever": None}])
def test_no_second_look(more: dict[str, Any]) -> None:
    given = {"retriever": ListRetriever(documents=DOCS), **more}
    model = ScriptedChat(replies=["No", "Unknown"])
    out = build_graph("self_eval", model=model, **given).invoke({"question": "Who?"})
    assert (out["status"], len(model.seen)) == ("unknown", 2)


def test_unknown_without_a_document_says_why() -> None:
    graph, _, retriever = built("No", "Unknown", second_look=False)
    state = final_state(graph, "Who?")
    assert (state["status"], retriever.queries) == ("unknown", [])
    last = state["notes"][-1]
    assert last["event"] == "unknown_without_documents"
    assert last["detail"] == {"why": "judged known"}


def test_given_passages_take_the_place_of_decision_and_retrieval() -> None:
    model, judge = ScriptedChat(replies=["Ada"]), ScriptedChat(replies=["No"])
    out = build_graph("self_eval", model=model, judge=judge).invoke(
        {"question": "Who?", "passages": ["It was Ada."]}
    )
    assert [doc.page_content for doc in out["passages"]] == ["It was Ada."]
    assert model.seen[0].passages == ["It was Ada."]
    assert (out["answer"], len(model.seen), judge.seen) == ("Ada", 1, [])


def test_samples_and_k() -> None:
    retriever = OwnListRetriever(documents=DOCS)
    graph, model, _ = built("Yes", "Bob", "Ada", "Ada", retriever=retriever, samples=3, k=1)
    assert graph.invoke({"question": "Who?"})["answer"] == "Ada"
    assert (len(model.seen), retriever.asked) == (4, [("Who?", 1)])


async def test_async_is_the_same() -> None:
    graph, _, _ = built("Yes", "Ada")
    other, _, _ = built("Yes", "Ada")
    assert await graph.ainvoke({"question": "?"}) == other.invoke({"question": "?"})


def test_the_decision_is_drawn() -> None:
    picture = build_graph("self_eval").get_graph().draw_mermaid()
    assert "need -. &nbsp;known&nbsp; .-> answer" in picture
    assert "need -. &nbsp;needed&nbsp; .-> retrieve" in picture


def test_extractive_over_the_demo_corpus(demo_corpus: Bm25Retriever) -> None:
    graph = build_graph("self_eval", model="extractive?similarity=lexical", retriever=demo_corpus)
    out = graph.invoke({"question": "Which LangChain class holds a passage in ragweave?"})
    assert (out["answer"], out["usage"]["calls"]) == ("LangChain Document", 2)
