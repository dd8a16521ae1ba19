"""Trained context filters: those that score sentences, and those that write what to keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.documents import Document
from tests.tiny_parts import make_scorer, make_writer, word_tokenizer

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.nodes.segments import split_passages
from ragweave.testing import ScriptedModel
from ragweave.tools.filters import FilterSettings, span_of
from ragweave.tools.models.tasks import task_passages
from ragweave.trained import read_card, write_card
from ragweave.trained.filter import passages_of, trained_filter
from ragweave.trained.forms import filter_input
from ragweave.trained.pairs import form_of

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

QUESTION = "who designed the bridge?"
BRIDGE = Document("It opened early. It was designed by Ada. It is long.", id="bridge", metadata={"title": "Bridge"})
RIVER = Document("The river is wide. Ada lived there.", id="river")
PASSAGES = [BRIDGE, RIVER]
GOOD = ["It was designed by Ada.", "Ada lived there."]


def scorer(folder: Path, size: int) -> Path:
    """Make a filter that keeps the segments in `GOOD`, or the passage about the bridge whole."""
    texts = " ".join([QUESTION, "Bridge", *(one.page_content for one in PASSAGES)])
    form, segments = form_of(word_tokenizer(set(texts.lower().split()))), split_passages(PASSAGES, size)
    pairs = form.pairs(QUESTION, task_passages(PASSAGES), map(span_of, segments))
    wanted = GOOD if size else [BRIDGE.page_content]
    labelled = [(a, b, one.page_content in wanted) for (a, b), one in zip(pairs, segments, strict=True)]
    return make_scorer(folder, "filter", labelled)


@pytest.fixture(scope="module")
def scoring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scorer(tmp_path_factory.mktemp("scoring"), 1)


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filter that writes what to keep: copied, changed a little, made up, or nothing."""
    outputs = {
        filter_input(QUESTION, PASSAGES).text: "It was designed by Ada. Ada once lived there.",
        filter_input("what of Mars?", PASSAGES).text: "Mars has two moons.",
        filter_input("nothing?", PASSAGES).text: "",
    }
    return make_writer(tmp_path_factory.mktemp("writing"), "filter", outputs)


def whole(folder: Path) -> Path:
    """Have a card say that its filter was trained on whole passages."""
    card = read_card(folder)
    write_card(folder, replace(card, data={**card.data, "unit": "passage"}))
    return folder


def kept(folder: Path, question: str = QUESTION, **options: object) -> list[str]:
    """Return the texts that `filco` keeps with a filter."""
    graph = build_graph("filco", model=ScriptedModel(script=["Ada"]), filter=f"{folder}/", **options)
    out = graph.invoke({"question": question, "passages": PASSAGES, "gold_answers": ["wide"]})
    return [one.page_content for one in out["passages"]]


def test_the_best_sentences_above_the_threshold_are_kept(scoring: Path) -> None:
    assert kept(scoring, top=None) == GOOD
    assert len(kept(scoring)) == 1
    assert kept(scoring, threshold=1.0) == [one.page_content for one in PASSAGES]


def test_one_that_writes_keeps_what_it_quotes(writing: Path) -> None:
    assert kept(writing) == GOOD
    assert kept(writing, "what of Mars?") == kept(writing, "nothing?") == [one.page_content for one in PASSAGES]


def test_one_that_was_trained_on_single_passages_reads_each_alone(tmp_path: Path) -> None:
    outputs = {filter_input(QUESTION, [BRIDGE]).text: GOOD[0], filter_input(QUESTION, [RIVER]).text: ""}
    assert kept(make_writer(tmp_path / "one", "filter", outputs, passages=1)) == [GOOD[0]]


def test_one_that_was_trained_on_whole_passages_keeps_or_drops_them_whole(tmp_path: Path) -> None:
    assert kept(whole(scorer(tmp_path / "scoring", 0)), top=None) == [BRIDGE.page_content]
    given = filter_input(QUESTION, PASSAGES).text
    assert kept(whole(make_writer(tmp_path / "writing", "filter", {given: GOOD[1]}))) == [RIVER.page_content]
    assert kept(whole(make_writer(tmp_path / "none", "filter", {given: ""}))) == []


def test_a_passage_is_known_from_its_segments() -> None:
    segments = split_passages([BRIDGE, RIVER])
    assert [one.page_content for one in passages_of(segments)] == [BRIDGE.page_content, RIVER.page_content]
    assert passages_of(segments[1:2])[0].page_content.strip() == GOOD[0]


def test_answers_change_nothing(scoring: Path) -> None:
    kind, segments = trained_filter(str(scoring)), split_passages(PASSAGES)
    scores = [kind.scores(QUESTION, segments, answers, FilterSettings()) for answers in ([], ["wide"])]
    assert scores[0] == scores[1]
    assert not kind.reads_answers


def test_what_is_no_filter_is_an_error(scoring: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="options of the graph"):
        trained_filter(f"{scoring}/?top=2")
    judge = make_scorer(tmp_path / "judge", "judge", [("a", "b", True), ("a", "c", False)])
    with pytest.raises(UsageError, match="was trained as a judge"):
        build_graph("filco", filter=f"{judge}/")
