"""FILCO: which filter runs, what it keeps, what is noted, and the released code's prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.testing import RecordingRetriever, ScriptedModel
from ragweave.tools.filters import FILTERS, FilterKind

BRIDGE = Document("It opened early. Ada Brenner built the bridge. It is long.", id="bridge", metadata={"title": "B"})
RIVER = Document("The river is wide. Ada Brenner lived there.", id="river", metadata={"title": "R"})
ASK = {"question": "Who built the bridge?", "passages": [BRIDGE, RIVER]}
GOLD = {**ASK, "gold_answers": ["Ada Brenner"]}
CLAIM = {
    "question": "Is this claim true? Ada Brenner built the bridge.",
    "passages": [BRIDGE, RIVER],
    "answer_type": "yes_no",
    "gold_answers": ["Yes"],
}
BUILT = "Ada Brenner built the bridge."


class Scorer:
    """Finds an output likelier after a text that holds it."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [-1.0 if output in prompt else -5.0 for prompt, output in pairs]


def run(given: dict[str, Any] = ASK, reply: str = "Ada", **options: Any) -> tuple[list[str], list[str], ScriptedModel]:
    """Return the texts kept, the events noted and the model."""
    model = ScriptedModel(script=[reply])
    *_, state = build_graph("filco", model=model, **options).stream(given, stream_mode="values")
    texts = [passage.page_content for passage in state["passages"]]
    return texts, [note["event"] for note in state["notes"]], model


def test_an_untrained_filter_keeps_half_of_the_text_and_a_number_if_asked() -> None:
    assert run()[0] == [BUILT, "The river is wide."]
    assert run(top=1)[0] == [BUILT]
    assert run(granularity="passage", top=1)[0] == [BRIDGE.page_content]


def test_right_answers_make_an_oracle() -> None:
    texts, events, _ = run(GOLD, filter="strinc")
    assert (texts, "oracle_filter" in events) == ([BUILT], True)
    assert run(GOLD, filter="strinc", top=None)[0] == [BUILT, "Ada Brenner lived there."]
    assert "oracle_filter" not in run(GOLD, filter="full")[1]


def test_what_is_missing_falls_back_to_words_shared() -> None:
    plain = run()[0]
    for given, options, event in (
        (ASK, {"filter": "strinc"}, "filter_without_answers"),
        (ASK, {"filter": "cxmi", "scorer": Scorer()}, "filter_without_answers"),
    ):
        texts, events, _ = run(given, **options)
        assert (texts, event in events) == (plain, True)
    assert "scorer_missing" in run(GOLD, filter="cxmi")[1]


def test_the_calls_of_a_scorer_count() -> None:
    model = ScriptedModel(script=["Ada"])
    graph = build_graph("filco", model=model, filter="cxmi", scorer=Scorer(), top=None)
    out = graph.invoke(GOLD)
    assert [passage.page_content for passage in out["passages"]] == [BUILT, "Ada Brenner lived there."]
    assert (out["usage"]["calls"], out["usage"]["by_role"]["scorer"]["calls"]) == (2, 1)
    assert out["usage"]["estimated"] is True


def test_a_claim_is_compared_with_itself_and_not_with_its_verdict() -> None:
    texts, events, _ = run(CLAIM, reply="Yes")
    assert (texts, events) == ([BUILT], ["filter_by_claim"])
    assert run(CLAIM, reply="Yes", filter="strinc", profile="paper")[1] == ["filter_kept_nothing", "oracle_filter"]


def test_nothing_kept_keeps_all() -> None:
    texts, events, _ = run({**GOLD, "gold_answers": ["Karl"]}, filter="strinc")
    assert texts == [BRIDGE.page_content, RIVER.page_content]
    assert "filter_kept_nothing" in events


def test_the_papers_filter_of_passages_may_drop_all() -> None:
    """PSG, section 4.2."""
    nobody = {**GOLD, "gold_answers": ["Karl"]}
    assert run(nobody, filter="strinc", granularity="passage", profile="paper")[0] == []
    assert run(nobody, filter="strinc", granularity="passage")[0] == [BRIDGE.page_content, RIVER.page_content]
    assert run(filter="llm", reply="Karl did.", granularity="passage", profile="paper")[0] == []


def test_scores_order_the_passages_if_asked() -> None:
    given = {**ASK, "question": "Who lived there by the bridge?"}
    ordered = [RIVER.page_content, BRIDGE.page_content]
    assert run(given, granularity="passage", top=None, rerank=True)[0] == ordered
    assert run(given, granularity="passage", top=None)[0] == ordered[::-1]


def test_a_model_names_the_sentences() -> None:
    replies = {"choose_sentences": "2, 5", "generate": "Ada"}
    graph = build_graph("filco", model=ScriptedModel(script=replies), filter="llm")
    assert [passage.page_content for passage in graph.invoke(ASK)["passages"]] == [BUILT, "Ada Brenner lived there."]


def test_filters_of_a_callers_and_of_a_package() -> None:
    assert run(filter=FilterKind(name="last", summary="", scores=lambda _q, segments, *_: range(len(segments))))[0] == [
        "Ada Brenner lived there."
    ]
    with pytest.raises(UsageError, match="gave 1 scores for 5 segments"):
        run(filter=FilterKind(name="one", summary="", scores=lambda *_: [1.0]))
    with pytest.raises(UsageError, match="did you mean 'lexical'"):
        build_graph("filco", filter="lexicall")
    with pytest.raises(UsageError, match="needs a filter"):
        run(filter="own")
    FILTERS.register(FilterKind(name="second", summary="", scores=lambda _q, segments, *_: [0, 1, *[0] * 3]))
    try:
        assert run(filter="second")[0] == [BUILT]
    finally:
        FILTERS.unregister("second")


def test_a_proxys_draft_is_the_output_of_cxmi() -> None:
    options = {"rewrite": False, "queries": ("question",), "knowledge_filter": False, "fallback": False}
    given = {
        "retriever": RecordingRetriever(documents=[BRIDGE, RIVER]),
        "filter": "cxmi",
        "scorer": Scorer(),
        **options,
    }
    for draft, segment in (("Ada Brenner", "Ada Brenner lived there."), ("I don't know.", "The river is wide.")):
        model = ScriptedModel(script={"draft": draft, "judge": "<Known(False)>", "answer": "Ada"})
        *_, state = build_graph("adaptive", model=model, **given).stream(
            {"question": ASK["question"]}, stream_mode="values"
        )
        assert [passage.page_content for passage in state["passages"]] == [BUILT, segment]


def test_the_released_codes_prompts() -> None:
    asked = "Given the ['context', 'question'], predict the answer to the question."
    model = run(profile="paper", filter="full")[2]
    context = f"context: {BRIDGE.page_content}\n{RIVER.page_content}"
    assert model.calls[-1].text == f"{asked}\n\n{context}\nquestion: Who built the bridge?"
    model = run({"question": "Who?", "passages": [Document(" ")]}, profile="paper", top=1)[2]
    assert model.calls[-1].text.startswith("Given the ['context', 'question']")


def test_a_claim_in_the_released_codes_words() -> None:
    model = ScriptedModel(script=["judgement: SUPPORTS"])
    out = build_graph("filco", model=model, profile="paper", filter="full").invoke({**CLAIM, "passages": [RIVER]})
    assert out["answer"] == "Yes"
    assert model.calls[-1].text == (
        "Given the ['context', 'claim'], predict the judgement to the claim.('SUPPORTS' or 'REFUTES')\nIf the 'context' does "
        "not provide enough information to judge the claim, use your own knowledge instead.\n\n"
        f"context: {RIVER.page_content}\nclaim: Ada Brenner built the bridge."
    )


def test_the_filter_writes_a_sentence_in_the_papers_words() -> None:
    replies = {"choose_sentences": "Ada Brenner built the bridge.", "generate": "Ada"}
    model = ScriptedModel(script=replies)
    out = build_graph("filco", model=model, filter="llm", profile="paper").invoke(ASK)
    assert [passage.page_content for passage in out["passages"]] == [BUILT]
    assert [call.settings["max_tokens"] for call in model.calls] == [512, 128]
    assert model.calls[0].text.startswith(
        "Given the ['question', 'context'], predict the most helpful sentence in the context.\n\n"
        "question: Who built the bridge?\ncontext: It opened early.\nAda Brenner built the bridge.\n"
    )
