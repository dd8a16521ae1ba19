"""STRINC, LEXICAL, CXMI and FILCO's text forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.state.passages import as_document
from ragweave.tools.filters import (
    answer_line,
    cxmi,
    filter_input,
    generator_input,
    lexical,
    spans_of,
    strinc,
)


class CountingScorer:
    """A unigram model: a word costs log 2 if the prompt holds it, else log 100; counts calls."""

    def __init__(self):
        self.calls = []

    def score(self, pairs):
        self.calls.append(list(pairs))
        return [
            sum(-0.6931 if word in prompt.split() else -4.6052 for word in output.split())
            for prompt, output in pairs
        ]


@pytest.mark.parametrize(
    ("text", "answers", "wanted"),
    [
        ("It was Paris.", ["london", "PARIS"], 1.0),
        ("It was Paris.", ["London"], 0.0),
        ("parisian", ["Paris"], 1.0),
        ("anything", [], 0.0),
        ("anything", ["", "  "], 0.0),
    ],
)
def test_strinc(text, answers, wanted):
    assert strinc(text, answers) == wanted


def test_lexical_counts_words_once_each_time_they_stand():
    assert lexical("The cat, the CAT!", "a cat cat dog") == pytest.approx(2 * 2 / (4 + 4))
    assert lexical("tac", "cat") == 0.0


def test_lexical_over_characters_is_what_the_released_code_counts():
    assert lexical("The tac", "cat", "characters") == 1.0
    assert lexical("a b", "b.", "characters") == pytest.approx(2 * 1 / (1 + 2))


@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from(["words", "characters"]))
def test_lexical_is_a_symmetric_share(one, two, unit):
    score = lexical(one, two, unit)
    assert 0 <= score <= 1
    assert score == lexical(two, one, unit)


@given(st.text(alphabet="abc def", min_size=1, max_size=30))
def test_lexical_of_a_text_with_itself_is_one_unless_it_is_empty(text):
    assert lexical(text, text) == (1.0 if text.split() else 0.0)


def test_cxmi_is_the_log_ratio_with_one_base_and_one_call():
    spans = spans_of([as_document("Paris is large. Rome is old.")])
    scorer = CountingScorer()
    values = cxmi(spans, "which city ?", "Paris Rome", scorer)
    assert values == pytest.approx([4.6052 - 0.6931] * 2)
    (call,) = scorer.calls
    assert call == [
        ("question: which city ?", "Paris Rome"),
        ("context: Paris is large.\nquestion: which city ?", "Paris Rome"),
        ("context: Rome is old.\nquestion: which city ?", "Paris Rome"),
    ]


def test_cxmi_of_nothing_asks_nothing():
    scorer = CountingScorer()
    assert cxmi([], "q", "o", scorer) == []
    assert scorer.calls == []


def test_a_lead_stands_behind_every_question():
    scorer = CountingScorer()
    cxmi(spans_of([as_document("A sentence.")]), "q", "o", scorer, lead="\nanswer: ")
    assert all(prompt.endswith("question: q\nanswer: ") for prompt, _ in scorer.calls[0])


def test_text_forms():
    assert filter_input("q", ["p1", "p2"]) == "question: q\ncontext: p1\np2"
    assert generator_input("q", "t") == "context: t\nquestion: q"
    assert generator_input("q") == "question: q"
    assert answer_line("o") == "answer: o"
