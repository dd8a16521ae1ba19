"""Trained context filters: those that score sentences, and those that write what to keep."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.documents import Document
from tests.scripted import ScriptedChat
from tests.tiny_parts import make_scorer, make_writer

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.tools.filters import ContextFilter, Span, spans_of
from ragweave.tools.models.tasks import task_passages
from ragweave.trained import read_card, write_card
from ragweave.trained.filter import TrainedFilter, trained_filter
from ragweave.trained.forms import filter_input
from ragweave.trained.pairs import form_of

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

QUESTION = "who designed the bridge?"
BRIDGE = Document(
    page_content="It opened in May. It was designed by Ada. It is long.",
    id="bridge",
    metadata={"title": "Bridge"},
)
RIVER = Document(page_content="The river is wide. Ada lived there.", id="river")
PASSAGES = [BRIDGE, RIVER]
GOOD = ("It was designed by Ada.", "Ada lived there.")


@pytest.fixture(scope="module")
def scoring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filter that keeps the sentences in `GOOD`, each in its passage."""
    from tests.tiny_parts import word_tokenizer

    folder = tmp_path_factory.mktemp("filter")
    texts = " ".join([QUESTION, "Bridge", *(one.page_content for one in PASSAGES)])
    form = form_of(word_tokenizer(set(texts.lower().split())))
    spans = spans_of(PASSAGES)
    pairs = form.pairs(QUESTION, task_passages(PASSAGES), spans)
    labelled = [(a, b, s["text"] in GOOD) for (a, b), s in zip(pairs, spans, strict=True)]
    return make_scorer(folder, "filter", labelled)


def texts(spans: list[Span]) -> list[str]:
    return [one["text"] for one in spans]


def test_sentences_above_the_threshold_are_kept(scoring: Path) -> None:
    chosen = TrainedFilter(str(scoring), top=None)
    assert isinstance(chosen, ContextFilter)
    spans = chosen.keep(QUESTION, PASSAGES)
    assert set(texts(spans)) == set(GOOD)
    assert [one["score"] for one in spans] == sorted((one["score"] for one in spans), reverse=True)
    for one in spans:
        passage = {"bridge": BRIDGE, "river": RIVER}[one["passage_id"]]
        assert passage.page_content[one["start"] : one["end"]] == one["text"]


def test_top_keeps_the_best(scoring: Path) -> None:
    every = TrainedFilter(str(scoring), top=None, threshold=0.0).keep(QUESTION, PASSAGES)
    assert len(every) == 5
    for top in (1, 2, 3):
        assert (
            TrainedFilter(str(scoring), top=top, threshold=0.0).keep(QUESTION, PASSAGES)
            == (every[:top])
        )


def test_nothing_above_the_threshold_is_nothing(scoring: Path) -> None:
    assert TrainedFilter(str(scoring), threshold=1.0).keep(QUESTION, PASSAGES) == []
    assert TrainedFilter(str(scoring)).keep(QUESTION, []) == []
    assert TrainedFilter(str(scoring)).keep(QUESTION, [Document(page_content=" ")]) == []


def test_answers_are_not_looked_at(scoring: Path) -> None:
    chosen = TrainedFilter(str(scoring), top=None)
    assert chosen.keep(QUESTION, PASSAGES, answers=["wide"]) == chosen.keep(QUESTION, PASSAGES)


def test_passages_without_ids(scoring: Path) -> None:
    bare = [Document(page_content=one.page_content, metadata=one.metadata) for one in PASSAGES]
    kept = TrainedFilter(str(scoring), top=None).keep(QUESTION, [*bare, bare[0]])
    assert sorted(texts(kept)) == sorted(GOOD)


def test_threads_give_the_same(scoring: Path) -> None:
    chosen = TrainedFilter(str(scoring), top=None)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: texts(chosen.keep(QUESTION, PASSAGES)), range(24)))
    assert all(one == found[0] for one in found)


def test_what_the_text_does_not_set_a_runs_options_do(scoring: Path) -> None:
    free = trained_filter(f"part:{scoring}")
    assert (free.with_settings(top=3, threshold=0.2).top, free.top) == (3, 1)
    assert free.with_settings(top=3, threshold=0.2).threshold == 0.2
    held = trained_filter(f"part:{scoring}?top=2")
    assert held.with_settings(top=3, threshold=0.2).top == 2
    assert held.with_settings(top=3, threshold=0.2).threshold == 0.2
    own = TrainedFilter(str(scoring), top=2)
    assert own.with_settings(top=3, threshold=0.2) is own


@pytest.mark.parametrize("query", ["top=0", "threshold=2", "threshold=a", "threshold=true", "k=1"])
def test_settings_out_of_range(scoring: Path, query: str) -> None:
    with pytest.raises(UsageError):
        trained_filter(f"part:{scoring}?{query}")


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filter that writes what to keep: copied, changed a little, made up, or nothing."""
    outputs = {
        filter_input(QUESTION, PASSAGES).text: "It was designed by Ada. Ada once lived there.",
        filter_input("what of Mars?", PASSAGES).text: "Mars has two moons.",
        filter_input("nothing?", PASSAGES).text: "",
    }
    return make_writer(tmp_path_factory.mktemp("writing"), "filter", outputs)


def test_what_is_written_is_found_in_the_passages(writing: Path) -> None:
    chosen = TrainedFilter(str(writing))
    kept = chosen.keep(QUESTION, PASSAGES)
    assert texts(kept) == list(GOOD), "both, though top is 1: it decides by itself"
    assert kept[0]["score"] == 1.0 > kept[1]["score"] >= 0.5
    assert chosen.keep("what of Mars?", PASSAGES) == []
    assert chosen.keep("nothing?", PASSAGES) == []


def test_one_that_was_trained_on_single_passages_reads_each_alone(tmp_path: Path) -> None:
    outputs = {
        filter_input(QUESTION, [BRIDGE]).text: GOOD[0],
        filter_input(QUESTION, [RIVER]).text: "",
    }
    folder = make_writer(tmp_path / "one", "filter", outputs, passages=1)
    assert texts(TrainedFilter(str(folder)).keep(QUESTION, PASSAGES)) == [GOOD[0]]


def test_one_that_writes_has_no_threshold(writing: Path) -> None:
    with pytest.raises(UsageError, match="has no threshold"):
        TrainedFilter(str(writing), threshold=0.5)
    with pytest.raises(UsageError, match="has no threshold"):
        trained_filter(str(writing)).with_settings(top=1, threshold=0.5)


def whole(folder: Path) -> Path:
    """Have a part's card say that it was trained on whole passages."""
    card = read_card(folder)
    write_card(folder, replace(card, data={**card.data, "unit": "passage"}))
    return folder


def test_a_part_trained_on_whole_passages_keeps_or_drops_them_whole(tmp_path: Path) -> None:
    from tests.tiny_parts import word_tokenizer

    known = " ".join([QUESTION, "Bridge", *(one.page_content for one in PASSAGES)])
    form = form_of(word_tokenizer(set(known.lower().split())))
    spans = spans_of(PASSAGES, "passage")
    pairs = form.pairs(QUESTION, task_passages(PASSAGES), spans)
    labelled = [(a, b, s["passage_id"] == "bridge") for (a, b), s in zip(pairs, spans, strict=True)]
    folder = whole(make_scorer(tmp_path / "psg", "filter", labelled))
    assert texts(TrainedFilter(str(folder), top=None).keep(QUESTION, PASSAGES)) == [
        BRIDGE.page_content
    ]


def test_what_writes_a_part_of_a_passage_keeps_it_whole(tmp_path: Path) -> None:
    given = filter_input(QUESTION, PASSAGES).text
    folder = whole(make_writer(tmp_path / "psg", "filter", {given: GOOD[1]}))
    assert texts(TrainedFilter(str(folder)).keep(QUESTION, PASSAGES)) == [RIVER.page_content]


def test_a_filter_of_whole_passages_may_leave_none(tmp_path: Path) -> None:
    given = filter_input(QUESTION, PASSAGES).text
    folder = whole(make_writer(tmp_path / "psg", "filter", {given: ""}))
    model = ScriptedChat(replies=["Ada"])
    graph = build_graph("filco", model=model, filter=str(folder), profile="paper")
    out = graph.invoke({"question": QUESTION, "passages": PASSAGES})
    assert (out["passages"], out["answer"]) == ([], "Ada")
    assert model.seen[0].text == f"question: {QUESTION}"
