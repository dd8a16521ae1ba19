"""Candidate spans and their ranking."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragweave.tools.extractive.evidence import rank_sentences
from ragweave.tools.extractive.question import analyse
from ragweave.tools.extractive.ranking import rank_spans
from ragweave.tools.extractive.spans import spans


@pytest.mark.parametrize(
    ("sentence", "text", "kind"),
    [
        ("It opened on May 18, 2018 in Norland.", "May 18, 2018", "date"),
        ("It opened on 18 May 2018.", "18 May 2018", "date"),
        ("It was built in the late 19th century.", "late 19th century", "date"),
        ("It opened in 1874.", "1874", "date"),
        ("The tower has 212 steps.", "212 steps", "number"),
        ("It costs $1,200.50 a year.", "$1,200.50", "number"),
        ("There are twenty-four doors.", "twenty-four", "number"),
        ("The engineer Ada Brenner drew it.", "Ada Brenner", "name"),
        ("Ada Brenner's plan won.", "Ada Brenner", "name"),
        ("He met John C. Reilly there.", "John C. Reilly", "name"),
        ("She joined the University of Norland.", "University of Norland", "name"),
        ('The song "Late Snow" was a hit.', "Late Snow", "quote"),
        ("It grows in warm shallow water.", "warm shallow water", "phrase"),
        ("It has red, green and blue lights.", "red, green and blue lights", "list"),
    ],
)
def test_spans_of_a_sentence(sentence: str, text: str, kind: str) -> None:
    assert (text, kind) in {(span.text, span.kind) for span in spans(sentence)}


@given(st.text(max_size=300))
def test_spans_stand_where_they_say(text: str) -> None:
    found = spans(text)
    assert all(text[span.start : span.end] == span.text for span in found)
    assert len({(span.start, span.end) for span in found}) == len(found)


@example("0;1;2", ["0", "0;1;2"])
@given(st.text(max_size=80), st.lists(st.text(max_size=120), max_size=4))
def test_ranking_is_a_distribution_over_spans_of_the_passages(asked: str, texts: list[str]) -> None:
    question = analyse(asked)
    passages = [{"id": "", "title": "", "text": text} for text in texts]
    found = rank_sentences(question, passages, use_minilm=False)  # type: ignore[arg-type]
    ranked_spans = rank_spans(question, found)
    assert all(0.0 <= one.score <= 1.0 for one in found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert not ranked_spans or sum(ranked.confidence for ranked in ranked_spans) == pytest.approx(
        1.0
    )
    assert all(any(ranked.text in text for text in texts) for ranked in ranked_spans)


def test_a_title_counts_as_context() -> None:
    question = analyse("When was Harbour Light built?")
    passages = [
        {"id": "a", "title": "Stone Mill", "text": "It was built in 1750."},
        {"id": "b", "title": "Harbour Light", "text": "It was built in 1874."},
    ]
    found = rank_sentences(question, passages, use_minilm=False)  # type: ignore[arg-type]
    assert [one.passage for one in found] == [1, 0]
