"""ITER-RETGEN: rounds, queries, ends."""

from __future__ import annotations

from typing import Any

import pytest
from tests.loops import events, final_state, limits_end_quietly
from tests.scripted import ListRetriever, ScriptedChat, documents

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.tools.retrieval import Bm25Retriever

DOCS = documents("Ada Brenner built the light.", "Ada Brenner was born in Eastport.")


def test_each_round_searches_with_the_last_text_and_the_question() -> None:
    model = ScriptedChat(
        replies=[
            "Ada Brenner built it. So the answer is Norland.",
            "<think>hm</think>She came from Eastport.\nSo the answer is **Eastport**.",
            "So the answer is Eastport City.",
        ]
    )
    retriever = ListRetriever(documents=DOCS)
    graph = build_graph("iter_retgen", model=model, retriever=retriever)
    out = graph.invoke({"question": "Where is its builder from?"})
    assert retriever.queries == [
        "Where is its builder from?",
        "Ada Brenner built it. So the answer is Norland. Where is its builder from?",
        "She came from Eastport. So the answer is **Eastport**. Where is its builder from?",
    ]
    assert (out["answer"], out["status"], out["truncated"]) == ("Eastport City", "answered", False)
    assert out["usage"]["calls"] == 3 == len(model.seen)
    assert out["usage"]["retrievals"] == 3
    assert [one["round"] for one in out["candidates"].values()] == [0, 1, 2]
    assert list(out["candidates"]) == ["answer:0:0", "answer:1:0", "answer:2:0"]


def test_a_long_text_is_cut_before_the_question() -> None:
    model = ScriptedChat(replies=["lorem " * 900 + "So the answer is Ada.", "Ada"])
    retriever = ListRetriever(documents=DOCS)
    graph = build_graph("iter_retgen", model=model, retriever=retriever, rounds=2)
    state = final_state(graph, "Who built it?")
    assert retriever.queries[1].endswith(" Who built it?")
    assert len(retriever.queries[1]) <= 2000 + len(" Who built it?")
    assert "query_cut" in events(state)


def test_each_round_answers_from_its_own_passages() -> None:
    def find(query: str) -> str:
        return "second" if "Ada" in query else "first"

    class ByQuery(ListRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: object) -> list:
            return documents(f"{find(query)} passage")

    model = ScriptedChat(replies=["It was Ada. So the answer is Ada.", "So the answer is Bob."])
    graph = build_graph("iter_retgen", model=model, retriever=ByQuery(), rounds=2)
    state = final_state(graph, "Who?")
    assert [one.passages for one in model.seen] == [["first passage"], ["second passage"]]
    assert [doc.page_content for doc in state["passages"]] == ["second passage"]
    assert {key: len(found) for key, found in state["retrieved"].items()} == {
        "question": 1,
        "round_1": 1,
    }


def test_one_round_is_direct_retrieval() -> None:
    model = ScriptedChat(replies=["So the answer is Ada."])
    retriever = ListRetriever(documents=DOCS)
    graph = build_graph("iter_retgen", model=model, retriever=retriever, rounds=1)
    out = graph.invoke({"question": "Who?"})
    assert (out["answer"], out["truncated"], len(model.seen)) == ("Ada", False, 1)
    assert retriever.queries == ["Who?"]


def test_rounds_may_be_set_for_one_run() -> None:
    model = ScriptedChat(replies=["So the answer is Ada."])
    graph = build_graph("iter_retgen", model=model, retriever=ListRetriever(documents=DOCS))
    out = graph.invoke({"question": "Who?"}, context={"rounds": 5})
    assert out["usage"]["calls"] == 5


def test_given_passages_are_answered_from_once() -> None:
    model = ScriptedChat(replies=["So the answer is Ada."])
    out = build_graph("iter_retgen", model=model).invoke(
        {"question": "Who?", "passages": ["Ada Brenner built it."]}
    )
    assert (out["answer"], out["truncated"], len(model.seen)) == ("Ada", False, 1)
    assert [doc.page_content for doc in out["passages"]] == ["Ada Brenner built it."]


def test_an_unknown_reply_adds_nothing_to_the_query() -> None:
    model = ScriptedChat(
        replies=["Unknown", "The builder was Ada. The year is not mentioned.", "1874"]
    )
    retriever = ListRetriever(documents=DOCS)
    graph = build_graph("iter_retgen", model=model, retriever=retriever, ask_again=False)
    out = graph.invoke({"question": "When?"})
    assert retriever.queries == ["When?", "When?", "The builder was Ada. When?"]
    assert out["answer"] == "1874"


@pytest.mark.parametrize("reply", ["", "  \n", "```\n```"])
def test_an_unreadable_reply_ends_unknown(reply: str) -> None:
    model = ScriptedChat(replies=["So the answer is Ada.", "", reply])
    retriever = ListRetriever(documents=DOCS)
    out = build_graph("iter_retgen", model=model, retriever=retriever).invoke({"question": "Who?"})
    assert (out["answer"], out["status"], out["usage"]["calls"]) == ("Unknown", "unknown", 3)


def test_without_passages_a_round_is_closed_book() -> None:
    model = ScriptedChat(replies=["So the answer is Ada."])
    graph = build_graph("iter_retgen", model=model, retriever=ListRetriever())
    state = final_state(graph, "Who?")
    assert (state["answer"], len(model.seen), state["passages"]) == ("Ada", 3, [])
    assert "<passage" not in model.seen[0].text
    assert events(state) == [*["no_passages_found"] * 3, "answered_without_documents"]


def test_samples_vote_in_every_round_and_the_winner_writes_the_query() -> None:
    def say(seen: object) -> str:
        said = ["Bob did. So the answer is Bob.", *["Ada did. So the answer is Ada."] * 2]
        return said[len(model.seen) % 3]

    model = ScriptedChat(replies=say)
    retriever = ListRetriever(documents=DOCS)
    graph = build_graph("iter_retgen", model=model, retriever=retriever, rounds=2, samples=3)
    out = graph.invoke({"question": "Who?"})
    assert retriever.queries == ["Who?", "Ada did. So the answer is Ada. Who?"]
    assert (out["answer"], len(out["candidates"])) == ("Ada", 6)
    assert model.seen[0].settings["temperature"] == 0.7


def test_the_recursion_limit_ends_the_run_with_an_answer() -> None:
    model = ScriptedChat(replies=["So the answer is Ada."])
    graph = build_graph("iter_retgen", model=model, retriever=ListRetriever(documents=DOCS))
    limits_end_quietly(graph, least=6, enough=14)


async def test_async_is_the_same() -> None:
    model = ScriptedChat(replies=["So the answer is Ada."])
    graph = build_graph("iter_retgen", model=model, retriever=ListRetriever(documents=DOCS))
    assert await graph.ainvoke({"question": "Who?"}) == graph.invoke({"question": "Who?"})


def test_the_loop_is_drawn() -> None:
    picture = build_graph("iter_retgen").get_graph().draw_mermaid()
    assert "answer -. &nbsp;next round&nbsp; .-> requery" in picture
    assert "requery -.-> retrieve" in picture
    assert "collect -. &nbsp;same passages&nbsp; .-> vote" in picture


def test_bad_rounds() -> None:
    with pytest.raises(UsageError, match="rounds must be a whole number of at least 1, not 0"):
        build_graph("iter_retgen", rounds=0)


def test_extractive_over_the_demo_corpus(demo_corpus: Bm25Retriever) -> None:
    graph = build_graph("iter_retgen", model="extractive?similarity=lexical", retriever=demo_corpus)
    out = graph.invoke({"question": "Which LangChain class holds a passage in ragweave?"})
    assert (out["answer"], out["usage"]["calls"]) == ("LangChain Document", 3)


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({"sample_temperature": 0.0}, 1),
        ({"top_p": 0.0}, 1),
        ({"sample_temperature": 0.7}, 3),
        ({"sample_temperature": 0.0, "samples": 2}, 6),
        ({"sample_temperature": 0.0, "profile": "paper"}, 3),
    ],
)
def test_what_a_round_finds_again_is_not_answered_from_again(
    options: dict[str, Any], calls: int
) -> None:
    model = ScriptedChat(replies=["Ada built it. So the answer is Ada."])
    retriever = ListRetriever(documents=DOCS)
    graph = build_graph("iter_retgen", model=model, retriever=retriever, **options)
    out = graph.invoke({"question": "Who?"})
    assert (out["answer"], out["truncated"], out["usage"]["calls"]) == ("Ada", False, calls)
    assert len(retriever.queries) == out["usage"]["retrievals"] == (2 if calls == 1 else 3)
    assert [doc.page_content for doc in out["passages"]] == [doc.page_content for doc in DOCS]


class Ollama(ScriptedChat):
    num_predict: int | None = None
    temperature: float | None = None


@pytest.mark.parametrize(
    ("own", "bound", "calls"), [(0.0, 0.7, 3), (0.7, 0.0, 1), (0.0, None, 1), (0.7, None, 3)]
)
def test_a_table_of_ollamas_options_says_whether_rounds_draw(
    own: float, bound: float | None, calls: int
) -> None:
    model: Any = Ollama(replies=["So the answer is Ada."], temperature=own)
    if bound is not None:
        model = model.bind(options={"temperature": bound})
    graph = build_graph("iter_retgen", model=model, retriever=ListRetriever(documents=DOCS))
    assert graph.invoke({"question": "Who?"})["usage"]["calls"] == calls


def test_the_same_passages_in_another_order_are_another_prompt() -> None:
    class Turned(ListRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: object) -> list:
            self.queries.append(query)
            return DOCS[:: 1 if len(self.queries) == 1 else -1]

    model = ScriptedChat(replies=["So the answer is Ada.", "So the answer is Bob."])
    graph = build_graph("iter_retgen", model=model, retriever=Turned(), sample_temperature=0.0)
    out = graph.invoke({"question": "Who?"})
    assert (out["answer"], out["usage"]["calls"], out["usage"]["retrievals"]) == ("Bob", 2, 3)
    assert [doc.id for doc in out["passages"]] == ["p1", "p0"]
