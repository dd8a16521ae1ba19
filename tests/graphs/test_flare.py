"""FLARE: doubts, masked queries, ends; scripted, and over a real client and protocol."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.loops import events, final_state, limits_end_quietly
from tests.openai_server import OpenAIServer, Reply
from tests.scripted import ListRetriever, OwnListRetriever, ScriptedChat, Seen, documents
from tests.unsure import UnsureChat

from ragweave.errors import ModelError, UsageError
from ragweave.graphs import CompiledGraph, build_graph
from ragweave.tools.retrieval import Bm25Retriever

DOCS = documents("Ada Brenner built the light.", "It stands in Norland.")


def built(*replies: str, retriever: Any = None, **options: Any) -> tuple[CompiledGraph, Any, Any]:
    model = UnsureChat(replies=replies)
    retriever = retriever or ListRetriever(documents=DOCS)
    return build_graph("flare", model=model, retriever=retriever, **options), model, retriever


def test_a_sure_answer_is_one_call() -> None:
    graph, model, retriever = built("A hexagon has six sides. So the answer is six.")
    out = graph.invoke({"question": "How many sides has a hexagon?"})
    assert (out["answer"], out["status"], out["truncated"]) == ("six", "answered", False)
    assert (len(model.seen), retriever.queries, out["passages"]) == (1, [], [])
    assert model.seen[0].settings["logprobs"] is True
    assert "Search results" not in model.seen[0].text


def test_a_doubtful_sentence_is_looked_up_and_written_anew() -> None:
    graph, model, retriever = built(
        "The light is old. Bob~0.1 built~0.7 it in Norland. So the answer is Bob.",
        "Ada~0.2 Brenner built it. So the answer is Ada Brenner.",
    )
    state = final_state(graph, "Who built the light?")
    assert retriever.queries == ["built it in Norland."]
    assert model.seen[1].text.endswith("do not repeat them:\nThe light is old.")
    assert model.seen[1].text.startswith("Search results:\n<passage 1>\nAda Brenner built")
    assert model.seen[1].passages == [doc.page_content for doc in DOCS]
    written = "The light is old. Ada Brenner built it. So the answer is Ada Brenner."
    assert state["written"] == state["candidates"]["flare:0"]["reply"] == written
    assert (state["answer"], state["truncated"]) == ("Ada Brenner", False)
    assert (state["usage"]["calls"], state["usage"]["retrievals"]) == (2, 1)
    assert [doc.id for doc in state["passages"]] == ["p0", "p1"]


@pytest.mark.parametrize(
    "lead",
    [
        "The light is old. ",
        "The answer begins with these words. Go on right behind them, in the same manner, and do "
        "not repeat them: The light is old. ",
        "The answer begins with these words. Go on right behind them, in the same manner, and do "
        "not repeat them: ",
    ],
)
def test_what_a_reply_repeats_of_its_prompt_is_not_written_twice(lead: str) -> None:
    graph, _, _ = built(
        "The light is old. Bob~0.1 built it.", f"{lead}Ada built it. So the answer is Ada."
    )
    state = final_state(graph, "Who?")
    assert state["written"] == "The light is old. Ada built it. So the answer is Ada."


def test_what_stands_behind_the_conclusion_is_not_looked_up() -> None:
    said = "It is old. So the answer is Dr. Ada Brenner. Bob~0.1 was her son. So he was~0.1 there."
    graph, _, retriever = built(said)
    state = final_state(graph, "Who?")
    assert (state["answer"], retriever.queries) == ("Dr. Ada Brenner", [])
    graph, _, retriever = built(said, "Bob was her son.")
    final_state(graph, {"question": "Who?", "answer_type": "long"})
    assert retriever.queries


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("It is old. So the answer is:\n\nParis. It is~0.1 large.", "Paris"),
        (
            "So the answer is not in passage 1. Ada built it. So the answer is Ada. Bob~0.1 sailed there at night.",
            "Ada",
        ),
    ],
)
def test_the_whole_text_is_read_for_the_answer(said: str, answer: str) -> None:
    graph, _, retriever = built(said)
    assert final_state(graph, "Who?")["answer"] == answer
    assert retriever.queries == []


def test_thoughts_are_neither_doubted_nor_kept() -> None:
    graph, _, retriever = built(
        "<think> Hm~0.1 , Bob~0.1 ? </think> It is old. Bob~0.1 built it.",
        "<think> Better~0.1 so. </think> It is old. Ada~0.1 built it. So the answer is Ada.",
    )
    state = final_state(graph, "Who?")
    assert retriever.queries == ["built it."]
    assert state["written"] == "It is old. Ada built it. So the answer is Ada."


def test_what_was_written_cannot_act_as_prompt_structure() -> None:
    graph, model, _ = built("It is </passage> old. Bob~0.1 built it.", "Ada built it.")
    graph.invoke({"question": "Who?"})
    assert model.seen[1].text.endswith("repeat them:\nIt is ‹/passage> old.")


def test_doubts_within_limits() -> None:
    graph, _, retriever = built("It is Paris~0.75.", "It is Paris.")
    graph.invoke({"question": "?"}, context={"threshold": 0.7})
    assert retriever.queries == []
    graph, _, retriever = built("It is Paris~0.75.", "It is Paris.", mask_below=0.8)
    graph.invoke({"question": "?"})
    assert retriever.queries == ["It is"]


def test_where_nothing_is_left_of_the_sentence_the_question_is_looked_up() -> None:
    graph, _, retriever = built("So the answer is Bob~0.1.", "So the answer is Ada.")
    state = final_state(graph, "Who?")
    assert state["answer"] == "Ada"
    assert retriever.queries == ["Who?"]
    assert events(state) == ["query_all_masked"]


def always_unsure(seen: Seen) -> str:
    """Go on behind what is written, unsure of every sentence."""
    sentences = ["She~0.1 came.", "She~0.1 saw.", "She~0.1 built.", "So the answer is Ada~0.1."]
    written = seen.text.partition("do not repeat them:")[2]
    return " ".join(one for one in sentences if one.replace("~0.1", "") not in written)


def test_three_retrievals_at_most() -> None:
    model, retriever = UnsureChat(replies=always_unsure), ListRetriever(documents=DOCS)
    graph = build_graph("flare", model=model, retriever=retriever)
    out = graph.invoke({"question": "Who?"})
    assert (out["answer"], out["truncated"]) == ("Ada", True)
    assert (len(model.seen), len(retriever.queries)) == (4, 3)


def test_an_answer_that_is_sure_at_the_limit_was_not_stopped() -> None:
    graph, model, _ = built("It is Bob~0.1.", "So the answer is Ada.", rounds=1)
    out = graph.invoke({"question": "Who?"})
    assert (out["answer"], out["truncated"], len(model.seen)) == ("Ada", False, 2)


@pytest.mark.parametrize("reply", ["", " \n", "Unknown", "I don't know."])
def test_an_unreadable_first_reply_is_unknown(reply: str) -> None:
    graph, model, _ = built(reply)
    out = graph.invoke({"question": "Who?"})
    assert (out["answer"], out["status"], len(model.seen)) == ("Unknown", "unknown", 1)


def test_an_empty_later_reply_leaves_what_was_written() -> None:
    graph, _, _ = built("The answer is Ada. She~0.1 came from Norland.", "")
    state = final_state(graph, "Who?")
    assert (state["answer"], state["written"]) == ("Ada", "The answer is Ada.")
    assert "empty_reply" in events(state)


def test_nothing_found_is_written_from_memory() -> None:
    graph, model, _ = built("It is Bob~0.1.", "So the answer is Ada.", retriever=ListRetriever())
    state = final_state(graph, "Who?")
    assert "Search results" not in model.seen[1].text
    assert (state["answer"], events(state)) == (
        "Ada",
        ["no_passages_found", "answered_without_documents"],
    )


def test_given_passages_take_the_place_of_retrieval() -> None:
    model = UnsureChat(replies=["It is Bob~0.1.", "It was Ada. And~0.1 so on.", "It was Ada."])
    out = build_graph("flare", model=model).invoke(
        {"question": "Who?", "passages": ["Ada built it."]}
    )
    assert [one.passages for one in model.seen] == [[], ["Ada built it."], ["Ada built it."]]
    assert [doc.page_content for doc in out["passages"]] == ["Ada built it."]
    assert out["usage"]["retrievals"] == 0


def test_given_passages_that_were_not_needed_are_not_named() -> None:
    model = UnsureChat(replies=["So the answer is six."])
    out = build_graph("flare", model=model).invoke({"question": "?", "passages": ["x"]})
    assert (out["answer"], out["passages"]) == ("six", [])


def test_long_and_yes_no_answers() -> None:
    reply = "It is old. It stands in Norland."
    graph, _, _ = built(reply)
    assert graph.invoke({"question": "?", "answer_type": "long"})["answer"] == reply
    graph, _, _ = built("It is old. So the answer is yes.")
    assert graph.invoke({"question": "?", "answer_type": "yes_no"})["answer"] == "Yes"


def test_k_reaches_the_retriever() -> None:
    retriever = OwnListRetriever(documents=DOCS)
    graph, _, _ = built("It is Bob~0.1 who built it.", "It is Ada.", retriever=retriever, k=1)
    graph.invoke({"question": "Who?"})
    assert retriever.asked == [("It is who built it.", 1)]


def test_a_model_without_log_probabilities_is_refused_when_the_graph_is_built() -> None:
    with pytest.raises(
        UsageError, match=r"the model 'extractive' reports none.*openai:NAME.*hf:FOLDER"
    ):
        build_graph("flare", model="extractive")
    with pytest.raises(UsageError, match="'scripted' reports none"):
        build_graph("flare", model=ScriptedChat())


def test_a_reply_without_log_probabilities_is_an_error() -> None:
    graph = build_graph("flare", model=ScriptedChat(replies=["It is so."]).bind(logprobs=True))
    with pytest.raises(ModelError, match="the reply has none"):
        graph.invoke({"question": "?"})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"threshold": 1.5}, "threshold must be between 0 and 1"),
        ({"mask_below": -1}, "mask_below must be between 0 and 1"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1"),
        ({"samples": 3}, "flare takes no samples"),
    ],
)
def test_bad_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        build_graph("flare", model=UnsureChat(), **options)


def test_the_recursion_limit_ends_the_run_with_an_answer() -> None:
    graph = build_graph(
        "flare",
        model=UnsureChat(replies=always_unsure),
        retriever=ListRetriever(documents=DOCS),
    )
    limits_end_quietly(graph, least=3, enough=12)


async def test_async_is_the_same() -> None:
    replies = "It is Bob~0.1.", "So the answer is Ada."
    graph, _, _ = built(*replies)
    other, _, _ = built(*replies)
    assert await graph.ainvoke({"question": "?"}) == other.invoke({"question": "?"})


def test_the_loop_is_drawn() -> None:
    picture = build_graph("flare", model=UnsureChat()).get_graph().draw_mermaid()
    assert "flare -. &nbsp;doubtful&nbsp; .-> retrieve" in picture
    assert "collect --> flare" in picture


def test_over_the_demo_corpus(demo_corpus: Bm25Retriever) -> None:
    def say(seen: Seen) -> str:
        if not seen.passages:
            return "In ragweave a passage is held by a LangChain class. It is Message~0.1."
        return "It is Document. So the answer is Document."

    model = UnsureChat(replies=say)
    graph = build_graph("flare", model=model, retriever=demo_corpus, mask_below=0.05)
    out = graph.invoke({"question": "Which LangChain class holds a passage in ragweave?"})
    assert (out["answer"], out["usage"]["calls"], out["usage"]["retrievals"]) == ("Document", 2, 1)


@pytest.mark.loopback
@pytest.mark.parametrize("streams", [False, True])
def test_over_a_real_client_and_protocol(streams: bool) -> None:
    from langchain_openai import ChatOpenAI

    script = [
        Reply("The builder of the light was Bob. So the answer is Bob.", logprob=math.log(0.6)),
        Reply("Ada Brenner built the light. So the answer is Ada Brenner.", logprob=-0.01),
    ]
    with OpenAIServer(script) as server:
        model = ChatOpenAI(
            model="m", base_url=server.base_url, api_key="none", max_retries=0, streaming=streams
        )
        retriever = ListRetriever(documents=DOCS)
        graph = build_graph("flare", model=model, retriever=retriever)
        out = graph.invoke({"question": "Who built the light?"})
    assert retriever.queries == ["The builder of the light was Bob."]
    assert (out["answer"], out["truncated"], server.count) == ("Ada Brenner", False, 2)
    assert all(request.body["logprobs"] is True for request in server.requests)
    assert not out["usage"]["estimated"] or streams


@pytest.mark.loopback
def test_a_server_that_ignores_the_setting_is_named() -> None:
    class Deaf(OpenAIServer):
        def take(self, request: Any) -> Any:
            request.body["logprobs"] = None
            return super().take(request)

    with Deaf(["It is so."]) as server:
        url = f"openai:m?base_url={server.base_url}"
        with pytest.raises(ModelError, match="the server ignores logprobs=True"):
            build_graph("flare", model=url).invoke({"question": "?"})


def test_on_a_local_engines_log_probabilities(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    from tests import tiny_gguf

    from ragweave.tools.models.llamacpp import LlamaCppChat

    path = tiny_gguf.write(tmp_path / "tiny.gguf", end_bias=-50.0)
    model = LlamaCppChat(path=str(path), n_threads=1, max_tokens=12, n_ctx=1024)
    retriever = ListRetriever(documents=documents("a b c"))
    try:
        options: dict[str, Any] = {"threshold": 1.0, "rounds": 1, "ask_again": False}
        graph = build_graph("flare", model=model, retriever=retriever, **options)
        state = final_state(graph, "Who?", config={"recursion_limit": 12})
    finally:
        model.close()
    assert (state["usage"]["calls"], state["usage"]["retrievals"]) == (2, 1)
    assert len(retriever.queries) == 1
    assert state["status"] in ("answered", "unknown")


def test_what_is_no_answer_is_asked_again_once_and_shortly() -> None:
    model = UnsureChat(replies=["<passage 1>", "Ada Brenner"])
    graph = build_graph("flare", model=model)
    given = {"question": "Who built it?", "passages": ["Ada Brenner built it."]}
    *_, state = graph.stream(given, stream_mode="values")
    assert (state["answer"], state["usage"]["calls"]) == ("Ada Brenner", 2)
    assert [one["event"] for one in state["notes"]].count("asked_again") == 1
    again = model.seen[-1]
    assert "That does not answer the question: Who built it?" in again.text
    assert "logprobs" not in again.settings
    once = UnsureChat(replies=["<passage 1>"])
    out = build_graph("flare", model=once, ask_again=False).invoke(given)
    assert (out["answer"], out["usage"]["calls"]) == ("Unknown", 1)


def test_to_ask_again_fits_the_prompt_or_leaves_the_first_reading() -> None:
    asides = " ".join(f"Some say so and others do not, {number} of them." for number in range(30))
    for tokens, calls in ((100, 1), (180, 2), (400, 2)):
        model = UnsureChat(replies=[asides, "Ada Brenner"])
        graph = build_graph("flare", model=model, prompt_tokens=tokens)
        state = final_state(graph, "Who built it?")
        assert (len(model.seen), state["usage"]["calls"]) == (calls, calls)
        assert state["answer"] == ("Ada Brenner" if calls == 2 else "Unknown")
        assert events(state) == ["answer_rejected", "asked_again"][:calls]


def test_only_a_long_answer_is_as_long_as_the_option_allows() -> None:
    graph, model, _ = built("It is Paris.", reply_tokens=900)
    for kind in ("long", "short"):
        graph.invoke({"question": "?", "answer_type": kind})
    assert [one.settings["max_tokens"] for one in model.seen] == [900, 384]
    graph, model, _ = built("It is Paris.", profile="paper")
    graph.invoke({"question": "?"})
    assert model.seen[0].settings["max_tokens"] == 512


SCHOOL = (
    "The Japanese Weekend School of New York has offices in the entertainment complex in the "
    "Downtown section of New Rochelle."
)


@pytest.mark.parametrize(
    ("again", "options", "answer", "calls"),
    [
        ("Downtown", {}, "Downtown", 3),
        ("Unknown", {}, SCHOOL[:-1], 3),
        ("<passage 1>", {}, SCHOOL[:-1], 3),
        ("Downtown", {"ask_again": False}, SCHOOL[:-1], 2),
        ("Downtown", {"profile": "paper"}, None, 2),
    ],
)
def test_a_conclusion_that_a_round_lost_is_asked_for(
    again: str, options: dict[str, Any], answer: str | None, calls: int
) -> None:
    graph, model, _ = built(f"{SCHOOL} So the answer is Downtown~0.3.", SCHOOL, again, **options)
    state = final_state(graph, "In what section of New Rochelle?")
    assert (len(model.seen), state["usage"]["calls"]) == (calls, calls)
    assert answer in (None, state["answer"])
    assert ("asked_again" in events(state)) == (calls == 3)


@pytest.mark.parametrize(
    ("said", "kind", "calls"),
    [
        (SCHOOL, "long", 1),
        (f"Yes, since {SCHOOL}", "yes_no", 1),
        (SCHOOL, "yes_no", 2),
        ("Ada Brenner built it.", "short", 1),
        ("Therefore, the answer is the wife of Karl Oster.", "short", 1),
        ("The passages do not say who built it.", "short", 1),
    ],
)
def test_only_a_text_without_the_kind_of_answer_wanted_is_asked_again(
    said: str, kind: str, calls: int
) -> None:
    graph, model, _ = built(said, "Yes")
    graph.invoke({"question": "Is it so?", "answer_type": kind})
    assert len(model.seen) == calls


@pytest.mark.parametrize(
    "said", ["Unknown~0.5.", "So the answer is Unknown~0.5.", "I don't~0.5 know."]
)
def test_a_doubtful_refusal_looks_the_question_up(said: str) -> None:
    graph, _, retriever = built(said, "So the answer is Ada.")
    state = final_state(graph, "Who?")
    assert (state["answer"], retriever.queries) == ("Ada", ["Who?"])
    assert "query_all_masked" not in events(state)
