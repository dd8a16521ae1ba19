"""From training rows to weighted pairs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.trained.pairs import SentenceForm
from ragweave.training.encoders.base import marked, measure
from ragweave.training.encoders.pairs import (
    Pair,
    SmallSettings,
    balanced,
    negative_weights,
    pairs_of,
    sentences_of,
)
from ragweave.training.measures import Marked

TEXT = "Ada wrote the notes. Bernoulli numbers are in them. Byron wrote poems about notes."


def words(text):
    return [found.span() for found in re.finditer(r"\w+|[^\w\s]", text)]


def silver(spans, **more):
    return {
        "id": "1",
        "question": "who wrote the notes",
        "answers": ["Ada"],
        "passages": [
            {"id": "p", "title": "Ada", "text": TEXT},
            {"id": "q", "title": "", "text": "Snow fell."},
        ],
        "spans": [
            {"passage_id": name, "start": start, "end": end, "text": "", "score": 1.0}
            for name, start, end in spans
        ],
        **more,
    }


def labels(row):
    return [one.keep for one in sentences_of(row)]


def test_sentences_are_labelled_by_the_spans_that_the_oracle_kept():
    assert [one.span["text"] for one in sentences_of(silver([]))] == [
        "Ada wrote the notes.",
        "Bernoulli numbers are in them.",
        "Byron wrote poems about notes.",
        "Snow fell.",
    ]
    assert labels(silver([])) == [False, False, False, False]
    assert labels(silver([("p", 0, 20)])) == [True, False, False, False]


def test_spans_of_another_splitter_or_whole_passages_count():
    assert labels(silver([("p", 0, len(TEXT))])) == [True, True, True, False]
    assert labels(silver([("p", 0, 54)])) == [True, True, False, False]
    assert labels(silver([("p", 4, 9), ("q", 0, 10)])) == [True, False, False, True]
    assert labels(silver([("p", 18, 51)])) == [False, True, False, False]


def test_the_negative_that_shares_most_words_weighs_most():
    plain, close, same = negative_weights(
        "who wrote the notes", ["Snow fell.", "He wrote.", "who wrote the notes"], 1.0
    )
    assert plain < close < same == pytest.approx(2 * plain)
    assert negative_weights("who", ["Snow.", "Rain."], 1.0) == [1.0, 1.0]
    assert negative_weights("who wrote", ["who wrote", "Rain."], 0.0) == [1.0, 1.0]


@given(st.lists(st.sampled_from(["a b", "b c d", "e", "a", ""]), min_size=1), st.floats(0, 5))
def test_weights_of_negatives_have_mean_one(texts, hard):
    weights = negative_weights("a b c", texts, hard)
    assert len(weights) == len(texts)
    assert sum(weights) / len(weights) == pytest.approx(1)


def test_a_judge_reads_question_and_draft_and_a_filter_its_sentences():
    form, settings = SentenceForm(words, 60), SmallSettings()
    judged = {"id": "1", "question": "Q?", "draft": "D.", "known": True}
    assert list(pairs_of("judge", [judged], form, settings)) == [Pair("Q?", "D.", True, 1.0, 0, 2)]
    rows = [silver([("q", 0, 10)]), silver([("p", 0, 20)])]
    pairs = list(pairs_of("filter", rows, form, settings))
    assert [pair.row for pair in pairs] == [0] * 4 + [1] * 4
    assert [pair.label for pair in pairs] == [False, False, False, True, True, False, False, False]
    assert pairs[3].second == "[ Snow fell. ]"
    assert pairs[4].second.startswith("Ada | [ Ada wrote the notes. ] Bernoulli")
    assert pairs[3].size == 10


def pair(label, weight=1.0, row=0):
    return Pair("q", "t", label, weight, row, 1)


@given(
    st.lists(st.floats(0.1, 5), min_size=1, max_size=9),
    st.lists(st.floats(0.1, 5), min_size=1, max_size=9),
    st.booleans(),
)
def test_balanced_weights_have_mean_one_and_equal_classes(ups, downs, balance):
    pairs = [pair(True, one) for one in ups] + [pair(False, one) for one in downs]
    made = balanced("filter", pairs, balance=balance)
    assert sum(one.weight for one in made) == pytest.approx(len(made))
    if balance:
        assert sum(one.weight for one in made if one.label) == pytest.approx(len(made) / 2)
    else:
        ratios = [new.weight / old.weight for new, old in zip(made, pairs, strict=True)]
        assert ratios == pytest.approx([ratios[0]] * len(ratios))


@pytest.mark.parametrize(
    ("role", "label", "told"),
    [
        ("judge", True, "all 2 drafts to train on are labelled 'known': a judge learns from both"),
        ("judge", False, "all 2 drafts to train on are labelled 'not known'"),
        ("filter", False, "all 2 sentences to train on are labelled 'drop'"),
    ],
)
def test_one_class_alone_is_refused_by_name(role, label, told):
    with pytest.raises(UsageError, match=re.escape(told)):
        balanced(role, [pair(label), pair(label)], balance=True)


def test_the_threshold_suits_the_role():
    pairs = [pair(True), pair(False), pair(True, row=1), pair(False, row=1)]
    chances = [0.9, 0.2, 0.4, 0.3]
    judged = measure("judge", pairs, chances)
    assert judged.threshold == pytest.approx(0.35)
    assert judged.metrics["accuracy"]["mean"] == 1.0
    sifted = measure("filter", pairs, chances)
    assert sifted.metrics["first"]["mean"] == sifted.metrics["precision_top_1"]["mean"] == 1.0
    pairs += [pair(False, row=2)] * 3
    chances = [0.9, 0.2, 0.1, 0.3, 0.2, 0.2, 0.2]
    assert measure("filter", pairs, chances, recall=1.0).threshold < 0.1
    assert measure("filter", pairs, chances).threshold > 0.3


def test_held_out_rows_that_say_nothing_leave_the_threshold_in_the_middle():
    assert measure("judge", [], []) == (0.5, {})
    assert measure("judge", [pair(True)], [0.2]).threshold == 0.5
    assert measure("filter", [pair(False)], [0.2]).threshold == 0.5


def test_a_question_gathers_its_sentences():
    pairs = [pair(True), pair(False), pair(False, row=3)]
    assert marked(pairs, [0.3, 0.2, 0.1]) == [
        Marked([0.3, 0.2], [True, False], [1, 1]),
        Marked([0.1], [False], [1]),
    ]


@pytest.mark.parametrize(("unit", "passed_on"), [("passage", 0.0), ("sentence", 1.0)])
def test_a_filter_of_whole_passages_may_pass_on_nothing(unit, passed_on):
    kept, empty = silver([("p", 0, len(TEXT))]), silver([])
    rows = [{**row, "source": {"unit": unit}} for row in (kept, empty)]
    form = SentenceForm(words, 60)
    pairs = list(pairs_of("filter", rows, form, SmallSettings()))
    chances = [0.9 if pair.label else 0.1 for pair in pairs]
    found = measure("filter", pairs, chances).metrics
    assert found["empty"]["mean"] == 0.5
    share = len(TEXT) / len(TEXT + "Snow fell.")
    expected = pytest.approx((share + passed_on) / 2, abs=0.01)
    assert found["tokens_kept_above_threshold"]["mean"] == expected


@pytest.mark.parametrize(
    ("values", "told"),
    [({"hard_negatives": -1.0}, "hard_negatives"), ({"recall": 1.5}, "recall")],
)
def test_settings_out_of_range_are_refused(values, told):
    with pytest.raises(UsageError, match=told):
        SmallSettings(**values)
