"""The first eight methods, through every edge, with scripted models."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from tests.scripted import ListRetriever, OwnListRetriever, ScriptedChat, Seen, documents

from ragweave import build_graph
from ragweave.errors import UsageError

EIGHT = [
    "direct",
    "cot",
    "concat",
    "post_fusion",
    "pruning",
    "summary",
    "concat_pf",
    "pf_concat",
]
READERS = [name for name in EIGHT if name not in ("direct", "cot")]
TOGETHER = ["concat", "pruning", "summary"]
PASSAGES = documents("The Louvre is in Paris.", "Rome is old.", "Paris has museums.")
QUESTION: Any = {"question": "Where is the Louvre?"}
GIVEN: Any = {**QUESTION, "passages": PASSAGES}


def paris(seen: Seen) -> str:
    """Answer as a model would: from the passages, or not at all."""
    if any("Paris" in text for text in seen.passages):
        return "The passage says so. So the answer is Paris."
    return "Unknown"


def asked(
    method: str, replies: Any, given: Any = GIVEN, **settings: Any
) -> tuple[Any, ScriptedChat]:
    model = ScriptedChat(replies=replies, usage=(10, 1))
    return build_graph(method, model=model, **settings).invoke(given), model


def nodes_of(graph: Any, given: Any) -> list[str]:
    return [name for step in graph.stream(given, stream_mode="updates") for name in step]


# -- every method ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EIGHT)
def test_given_passages(method: str) -> None:
    out, model = asked(method, paris)
    assert (out["answer"], out["status"]) == ("Paris", "answered")
    assert out["question"] == QUESTION["question"]
    assert model.seen
    assert out["usage"]["calls"] == len(model.seen)
    assert {"question", "answer", "status", "passages", "candidates", "usage"} <= set(out)


@pytest.mark.parametrize("method", EIGHT)
def test_retrieved_passages(method: str) -> None:
    options = {"retrieve": True} if method in ("direct", "cot") else {}
    retriever = ListRetriever(documents=PASSAGES)
    out, _ = asked(method, paris, QUESTION, retriever=retriever, **options)
    assert out["answer"] == "Paris"
    assert retriever.queries == [QUESTION["question"]]
    assert {doc.id for doc in out["passages"]} <= {"p0", "p1", "p2"}


@pytest.mark.parametrize("method", EIGHT)
async def test_async_gives_the_same(method: str) -> None:
    graph = build_graph(method, model=ScriptedChat(replies=paris), samples=2)
    assert await graph.ainvoke(GIVEN) == graph.invoke(GIVEN)


@pytest.mark.parametrize("method", EIGHT)
def test_a_model_that_never_knows(method: str) -> None:
    out, _ = asked(method, ["I don't know."])
    assert (out["answer"], out["status"]) == ("Unknown", "unknown")
    assert {one["answer"] for one in out["candidates"].values()} == {"Unknown"}
    assert {one["reply"] for one in out["candidates"].values()} == {"I don't know."}


@pytest.mark.parametrize("method", READERS)
def test_nothing_found_asks_no_model(method: str) -> None:
    out, model = asked(method, ["Paris"], QUESTION, retriever=ListRetriever())
    assert (out["answer"], out["status"]) == ("Unknown", "unknown")
    assert (model.seen, out["passages"], out["candidates"]) == ([], [], {})
    assert out["usage"]["calls"] == 0


@pytest.mark.parametrize("method", READERS)
def test_no_retriever(method: str) -> None:
    with pytest.raises(UsageError, match="nothing to retrieve from"):
        asked(method, ["Paris"], QUESTION)


@pytest.mark.parametrize("method", EIGHT)
@pytest.mark.parametrize("question", ["", "  \n"])
def test_an_empty_question(method: str, question: str) -> None:
    with pytest.raises(UsageError, match="the question is empty"):
        asked(method, ["Paris"], {"question": question})


@pytest.mark.parametrize("method", EIGHT)
def test_samples_are_drawn_warm_and_voted_on(method: str) -> None:
    out, model = asked(method, paris, samples=3)
    assert out["answer"] == "Paris"
    assert {one.settings.get("temperature") for one in model.seen} == {0.7}
    first = [one for one in out["candidates"].values() if one["round"] == 0]
    branches = len(PASSAGES) if "p" in method.split("_")[0] and method[:2] in ("po", "pf") else 1
    assert len(first) == 3 * branches
    assert sorted({one["sample"] for one in first}) == [0, 1, 2]


@pytest.mark.parametrize("method", EIGHT)
def test_one_sample_has_the_models_own_temperature(method: str) -> None:
    _, model = asked(method, paris)
    assert all("temperature" not in one.settings for one in model.seen)


@pytest.mark.parametrize("method", EIGHT)
@pytest.mark.parametrize(
    ("kind", "reply", "answer"),
    [
        ("short", "Answer: Paris", "Paris"),
        (
            "long",
            "It is in Paris. It has been so since 1793.",
            "It is in Paris. It has been so since 1793.",
        ),
        ("yes_no", "Yes, it is.", "Yes"),
        ("yes_no", "Paris", "Unknown"),
    ],
)
def test_answer_types(method: str, kind: str, reply: str, answer: str) -> None:
    by_option, model = asked(method, [reply], answer_type=kind)
    by_input, _ = asked(method, [reply], {**GIVEN, "answer_type": kind}, answer_type="short")
    assert by_option["answer"] == by_input["answer"] == answer
    assert all(one.task and one.task["answer_type"] == kind for one in model.seen)


@pytest.mark.parametrize("method", EIGHT)
def test_an_own_retriever_is_asked_for_k(method: str) -> None:
    options = {"retrieve": True} if method in ("direct", "cot") else {}
    own = OwnListRetriever(documents=PASSAGES)
    asked(method, paris, QUESTION, retriever=own, k=2, **options)
    assert [k for _, k in own.asked] == [2]


@pytest.mark.parametrize("method", READERS)
def test_a_foreign_retrievers_result_is_cut_to_k(method: str) -> None:
    _, model = asked(method, paris, QUESTION, retriever=ListRetriever(documents=PASSAGES), k=2)
    assert "Paris has museums." not in {text for one in model.seen for text in one.passages}


# -- order -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", TOGETHER)
@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("retrieved", ["p0", "p1", "p2"]),
        ("reversed", ["p2", "p1", "p0"]),
        ("gold_first", ["p1", "p0", "p2"]),
        ("gold_last", ["p0", "p2", "p1"]),
    ],
)
def test_orders(method: str, order: str, expected: list[str]) -> None:
    marked = [doc.model_copy(update={"metadata": {"gold": doc.id == "p1"}}) for doc in PASSAGES]
    out, model = asked(method, paris, {**QUESTION, "passages": marked}, order=order)
    assert model.seen[0].task is not None
    assert [one["id"] for one in model.seen[0].task["passages"]] == expected
    assert [doc.id for doc in out["passages"]] == expected


# -- direct and cot ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["direct", "cot"])
def test_closed_book(method: str) -> None:
    retriever = ListRetriever(documents=PASSAGES)
    out, model = asked(method, ["So the answer is Paris."], QUESTION, retriever=retriever)
    assert (out["answer"], retriever.queries, out["passages"]) == ("Paris", [], [])
    assert "<passage" not in model.seen[0].text
    assert len(model.seen) == 1


@pytest.mark.parametrize("method", ["direct", "cot"])
def test_given_passages_are_read_without_retrieve(method: str) -> None:
    _, model = asked(method, paris)
    assert "<passage 1>\nThe Louvre is in Paris." in model.seen[0].text


@pytest.mark.parametrize("method", ["direct", "cot"])
def test_with_retrieve_and_nothing_found_it_asks_closed_book(method: str) -> None:
    out, model = asked(method, ["Paris"], QUESTION, retriever=ListRetriever(), retrieve=True)
    assert out["answer"] == "Paris"
    assert model.seen[0].passages == []


# -- post-fusion -------------------------------------------------------------------------------


def test_post_fusion_asks_each_passage_alone_and_votes() -> None:
    def each(seen: Seen) -> str:
        return {"The": "Paris", "Rom": "Rome", "Par": "paris."}[seen.passages[0][:3]]

    out, model = asked("post_fusion", each)
    assert sorted(len(one.passages) for one in model.seen) == [1, 1, 1]
    assert out["answer"] == "Paris"
    assert list(out["candidates"]) == [f"post_fusion:p{index}:0" for index in range(3)]


def test_a_tie_goes_to_the_passage_that_ranks_first() -> None:
    def each(seen: Seen) -> str:
        return {"The": "Unknown", "Rom": "Rome", "Par": "Paris"}[seen.passages[0][:3]]

    assert asked("post_fusion", each)[0]["answer"] == "Rome"
    assert asked("post_fusion", each, order="reversed")[0]["answer"] == "Rome"


def test_unknown_loses_to_a_single_answer() -> None:
    def each(seen: Seen) -> str:
        return "Rome" if "Rome" in seen.passages[0] else "Unknown"

    assert asked("post_fusion", each)[0]["answer"] == "Rome"


def test_arrival_does_not_matter() -> None:
    import time

    def slow_first(seen: Seen) -> str:
        time.sleep(0.03 if "Louvre" in seen.passages[0] else 0)
        return seen.passages[0].split()[0]

    out, _ = asked("post_fusion", slow_first)
    assert [one["answer"] for one in out["candidates"].values()] == ["The", "Rome", "Paris"]
    assert out == asked("post_fusion", lambda seen: seen.passages[0].split()[0])[0]


# -- concat_pf ---------------------------------------------------------------------------------


def test_concat_pf_stops_where_concat_knows() -> None:
    out, model = asked("concat_pf", paris)
    assert len(model.seen) == 1
    assert list(out["candidates"]) == ["concat:0"]


def test_concat_pf_falls_back_where_concat_does_not_know() -> None:
    def confused(seen: Seen) -> str:
        return "Unknown" if len(seen.passages) > 1 else paris(seen)

    out, model = asked("concat_pf", confused)
    assert out["answer"] == "Paris"
    assert [len(one.passages) for one in model.seen] == [3, 1, 1, 1]
    assert [one["round"] for one in out["candidates"].values()] == [0, 1, 1, 1]
    by_node = {name: one["calls"] for name, one in out["usage"]["by_node"].items()}
    assert by_node == {"concat": 1, "post_fusion": 3}


def test_concat_pf_edges() -> None:
    knows = build_graph("concat_pf", model=ScriptedChat(replies=["Paris"]))
    assert nodes_of(knows, GIVEN) == ["begin", "collect", "concat", "concat_vote"]
    unsure = build_graph("concat_pf", model=ScriptedChat(replies=["Unknown"]))
    assert nodes_of(unsure, GIVEN) == [
        "begin",
        "collect",
        "concat",
        "concat_vote",
        *["post_fusion"] * 3,
        "vote",
    ]
    nothing = build_graph("concat_pf", model=ScriptedChat(), retriever=ListRetriever())
    assert nodes_of(nothing, QUESTION) == ["begin", "retrieve", "collect", "concat_vote"]


def test_the_fallback_ignores_concats_candidates() -> None:
    def split(seen: Seen) -> str:
        return "Unknown" if len(seen.passages) > 1 else "Rome"

    out, _ = asked("concat_pf", split, samples=2)
    assert out["answer"] == "Rome"
    assert len(out["candidates"]) == 2 + 2 * 3


# -- pf_concat ---------------------------------------------------------------------------------


def test_pf_concat_distils_from_the_passages_that_gave_an_answer() -> None:
    out, model = asked("pf_concat", paris)
    last = model.seen[-1]
    assert len(model.seen) == 4
    assert last.passages == ["The Louvre is in Paris.", "Paris has museums."]
    assert last.task is not None
    assert last.task["candidates"] == ["Paris"]
    assert "Paris. Any of them may be wrong" in last.text
    assert [doc.id for doc in out["passages"]] == ["p0", "p2"]
    assert list(out["candidates"]) == [
        *(f"post_fusion:p{index}:0" for index in range(3)),
        "distill:0",
    ]


def test_pf_concat_without_any_answer_skips_the_distiller() -> None:
    out, model = asked("pf_concat", ["Unknown"])
    assert (out["answer"], len(model.seen)) == ("Unknown", 3)
    assert [doc.id for doc in out["passages"]] == ["p0", "p1", "p2"]


def test_the_distillers_word_counts() -> None:
    def doubting(seen: Seen) -> str:
        return paris(seen) if len(seen.passages) == 1 else "Unknown"

    out, _ = asked("pf_concat", doubting)
    assert out["status"] == "unknown"


def test_pf_concat_edges() -> None:
    knows = build_graph("pf_concat", model=ScriptedChat(replies=["Paris"]))
    tail = ["sift", "distill", "vote"]
    assert nodes_of(knows, GIVEN) == ["begin", "collect", *["post_fusion"] * 3, *tail]
    unsure = build_graph("pf_concat", model=ScriptedChat(replies=["Unknown"]))
    assert nodes_of(unsure, GIVEN) == ["begin", "collect", *["post_fusion"] * 3, "sift", "vote"]
    nothing = build_graph("pf_concat", model=ScriptedChat(), retriever=ListRetriever())
    assert nodes_of(nothing, QUESTION) == ["begin", "retrieve", "collect", "sift", "vote"]


# -- reasoning prompts -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pruning", "summary"])
def test_one_shot_prompts_show_an_example_first(method: str) -> None:
    _, model = asked(method, paris)
    assert [one.type for one in model.seen[0].messages] == ["system", "human", "ai", "human"]
    assert model.seen[0].task is not None
    assert model.seen[0].task["task"] == "reason"


def test_the_embedded_model_answers_by_every_method() -> None:
    facts = [Document(page_content="Mars has two moons, Phobos and Deimos.", id="m")]
    for method in READERS:
        graph = build_graph(method, model="extractive?similarity=lexical")
        out = graph.invoke({"question": "How many moons has Mars?", "passages": facts})
        assert out["status"] == "answered"
        assert "two" in out["answer"].lower()


# -- passages of one id --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["concat", "post_fusion", "crag", "filco", "blendfilter"])
def test_passages_that_share_the_id_of_their_page_are_all_read(method: str) -> None:
    page = [Document("Paris has the Louvre.", id="w1"), Document("The Seine is wide.", id="w1")]
    seen_texts = {doc.page_content for doc in page}
    for given in ({**QUESTION, "passages": page}, QUESTION):
        found = ListRetriever(documents=page)
        options = {"filter": "full"} if method == "filco" else {}
        _, model = asked(method, paris, given, retriever=found, **options)
        assert {text for seen in model.seen for text in seen.passages} == seen_texts
