"""Spans of passages and the filtered passages that are built from them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state.passages import content_id
from ragweave.tools.filters import apply_spans, saved_tokens, spans_of

BRIDGE = Document(
    id="bridge",
    page_content="The bridge opened in 1932.  It spans the harbour. Trains cross it daily.",
    metadata={"title": "Bridge", "rank": 0},
)
OPERA = Document(id="opera", page_content="The opera house stands beside it.", metadata={"rank": 1})

texts = st.text(alphabet="ab .!?\n", max_size=60)
documents = st.lists(
    st.builds(lambda t, i: Document(page_content=t, id=i), texts, st.sampled_from("xyz")),
    max_size=4,
)


def test_sentences_in_rank_order_then_reading_order():
    spans = spans_of([BRIDGE, OPERA])
    assert [span["text"] for span in spans] == [
        "The bridge opened in 1932.",
        "It spans the harbour.",
        "Trains cross it daily.",
        "The opera house stands beside it.",
    ]
    assert [span["passage_id"] for span in spans] == ["bridge", "bridge", "bridge", "opera"]
    assert json.loads(json.dumps(spans)) == spans


def test_whole_passages():
    spans = spans_of([BRIDGE, OPERA], "passage")
    assert [(s["start"], s["end"]) for s in spans] == [
        (0, len(BRIDGE.page_content)),
        (0, len(OPERA.page_content)),
    ]


def test_a_passage_without_an_id_gets_its_content_id():
    (span,) = spans_of([Document(page_content="One sentence.")])
    assert span["passage_id"] == content_id("One sentence.")


def test_an_unknown_granularity():
    with pytest.raises(UsageError, match="granularity"):
        spans_of([BRIDGE], "word")


@given(documents, st.sampled_from(["sentence", "passage"]))
def test_offsets_point_into_the_first_passage_of_that_id(passages, granularity):
    first = {}
    for passage in passages:
        first.setdefault(passage.id, passage.page_content)
    spans = spans_of(passages, granularity)
    assert all(first[s["passage_id"]][s["start"] : s["end"]] == s["text"] for s in spans)
    assert len({(s["passage_id"], s["start"]) for s in spans}) == len(spans)


def test_kept_sentences_are_joined_in_reading_order_and_point_back():
    spans = spans_of([BRIDGE, OPERA])
    filtered = apply_spans([BRIDGE, OPERA], [spans[2], spans[0]])
    assert not filtered.full
    (passage,) = filtered.passages
    assert passage.page_content == "The bridge opened in 1932. Trains cross it daily."
    assert passage.id == "bridge"
    assert passage.metadata == {
        "title": "Bridge",
        "rank": 0,
        "spans": [[0, 26], [50, 72]],
        "full_length": len(BRIDGE.page_content),
    }
    assert [BRIDGE.page_content[a:b] for a, b in passage.metadata["spans"]] == [
        "The bridge opened in 1932.",
        "Trains cross it daily.",
    ]
    assert "spans" not in BRIDGE.metadata


def test_passages_keep_their_order_whatever_the_order_of_spans():
    spans = spans_of([BRIDGE, OPERA])
    filtered = apply_spans([BRIDGE, OPERA], reversed(spans))
    assert [passage.id for passage in filtered.passages] == ["bridge", "opera"]


def test_nothing_kept_falls_back_to_the_full_passages_and_says_so():
    assert apply_spans([BRIDGE, OPERA], []) == ([BRIDGE, OPERA], True)


def test_spans_of_foreign_passages_or_beyond_the_end_invent_nothing():
    foreign = {"passage_id": "else", "start": 0, "end": 5, "text": "Hello", "score": 1.0}
    beyond = {"passage_id": "opera", "start": 20, "end": 900, "text": "?", "score": 1.0}
    before = {"passage_id": "opera", "start": -9, "end": 3, "text": "?", "score": 1.0}
    assert apply_spans([OPERA], [foreign]).full
    (passage,) = apply_spans([OPERA], [beyond, foreign, before]).passages
    assert passage.metadata["spans"] == [[0, 3], [20, 33]]
    assert passage.page_content == "The ds beside it."


def test_overlapping_spans_are_merged():
    spans = [
        {"passage_id": "opera", "start": a, "end": b, "text": "", "score": 1.0}
        for a, b in [(4, 15), (0, 9), (4, 9)]
    ]
    (passage,) = apply_spans([OPERA], spans).passages
    assert passage.page_content == "The opera house"


@given(documents, st.data())
def test_filtered_text_is_always_made_of_the_passage(passages, data):
    spans = spans_of(passages)
    chosen = data.draw(st.lists(st.sampled_from(spans), unique_by=id)) if spans else []
    filtered = apply_spans(passages, chosen)
    assert filtered.full == (not chosen)
    if filtered.full:
        assert [p.page_content for p in filtered.passages] == [p.page_content for p in passages]
        return
    first = {}
    for passage in passages:
        first.setdefault(passage.id, passage.page_content)
    for passage in filtered.passages:
        parts = [first[passage.id][a:b] for a, b in passage.metadata["spans"]]
        assert passage.page_content == " ".join(parts)
    assert sum(len(p.metadata["spans"]) for p in filtered.passages) == len(chosen)


def test_saved_tokens_are_a_quarter_of_the_dropped_characters_and_never_negative():
    long, short = Document(page_content="x" * 403), Document(page_content="x" * 3)
    assert saved_tokens([long], [short]) == 100
    assert saved_tokens([long, short], []) == 101
    assert saved_tokens([short], [long]) == 0
