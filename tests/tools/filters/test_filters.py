"""The filters over FILCO's measures: what they keep, and what they say without answers."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.tools.filters import (
    FILTERS,
    ContextFilter,
    CxmiFilter,
    FullFilter,
    LexicalFilter,
    StrincFilter,
    context_filter,
)

QUESTION = "when did the harbour bridge open"
PASSAGES = [
    Document(id="a", page_content="The harbour is deep. The bridge opened in 1932. Ships pass."),
    Document(
        id="b", page_content="In 1932 crowds came. The harbour bridge did open in March 1932."
    ),
]


class Overlap:
    """Scores a pair by how many words of the output stand in the prompt."""

    def score(self, pairs):
        return [
            float(sum(word in prompt for word in output.split()) - 5) for prompt, output in pairs
        ]


def kept(one: ContextFilter, answers=None):
    return [span["text"] for span in one.keep(QUESTION, PASSAGES, answers=answers)]


def test_strinc_takes_the_first_in_rank_order():
    assert kept(StrincFilter(), ["1932"]) == ["The bridge opened in 1932."]


def test_strinc_keeps_all_matches_as_the_released_code():
    assert kept(StrincFilter(top=None), ["1932"]) == [
        "The bridge opened in 1932.",
        "In 1932 crowds came.",
        "The harbour bridge did open in March 1932.",
    ]


def test_strinc_keeps_nothing_where_no_span_holds_an_answer():
    assert kept(StrincFilter(), ["1999"]) == []


@pytest.mark.parametrize("answers", [None, []])
@pytest.mark.parametrize("one", [StrincFilter(), CxmiFilter(Overlap())])
def test_measures_of_the_answer_say_that_they_need_one(one, answers):
    with pytest.raises(UsageError, match="needs an"):
        kept(one, answers)


def test_lexical_with_gold_takes_the_best_above_a_half():
    gold = ["the bridge opened in march 1932", "nothing of it"]
    assert kept(LexicalFilter(), gold) == ["The bridge opened in 1932."]
    assert kept(LexicalFilter(), ["1932"]) == []
    assert len(kept(LexicalFilter(top=None), gold)) == 2


def test_lexical_without_gold_reads_the_question_and_any_shared_word_will_do():
    assert kept(LexicalFilter()) == ["The harbour bridge did open in March 1932."]
    assert kept(LexicalFilter(top=None)) == [
        "The harbour bridge did open in March 1932.",
        "The harbour is deep.",
        "The bridge opened in 1932.",
    ]


def test_lexical_on_the_question_ignores_gold():
    one = LexicalFilter(target="question")
    assert kept(one, ["ships pass"]) == kept(one)


def test_an_explicit_threshold_holds_in_both_modes():
    assert kept(LexicalFilter(threshold=0.9)) == []
    assert kept(LexicalFilter(threshold=0.0), ["1932"]) == ["In 1932 crowds came."]


def test_lexical_over_characters_keeps_more_than_over_words():
    gold = ["ships sap"]
    assert kept(LexicalFilter(), gold) == []
    assert kept(LexicalFilter(unit="characters"), gold) == ["Ships pass."]


def test_cxmi_takes_the_best_span_that_helps():
    assert kept(CxmiFilter(Overlap()), ["March 1932"]) == [
        "The harbour bridge did open in March 1932."
    ]
    assert kept(CxmiFilter(Overlap()), ["Zanzibar"]) == []
    assert len(kept(CxmiFilter(Overlap(), threshold=-1.0, top=None), ["Zanzibar"])) == 5


def test_cxmi_scores_the_first_answer():
    assert kept(CxmiFilter(Overlap()), ["pass.", "1932"]) == ["Ships pass."]


def test_passages_are_kept_or_dropped_whole():
    assert kept(StrincFilter(granularity="passage"), ["March"]) == [PASSAGES[1].page_content]
    assert kept(FullFilter()) == [passage.page_content for passage in PASSAGES]


def test_scores_stand_on_the_spans_best_first():
    spans = LexicalFilter(top=None).keep(QUESTION, PASSAGES)
    scores = [span["score"] for span in spans]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


@pytest.mark.parametrize(
    "name", [one for one in FILTERS if one != "provence"]
)  # needs a checkpoint
def test_every_named_filter_is_a_context_filter(name):
    one = context_filter(name, scorer=Overlap(), top=2)
    assert isinstance(one, ContextFilter)
    assert one.keep(QUESTION, PASSAGES, answers=["the bridge opened in 1932"])


def test_options_reach_the_named_filters():
    assert len(kept(context_filter("strinc", top=None), ["1932"])) == 3
    assert kept(context_filter("lexical", threshold=0.9)) == []
    assert kept(context_filter("cxmi", scorer=Overlap(), threshold=9.0), ["1932"]) == []


def test_a_wrong_name_and_a_missing_scorer():
    with pytest.raises(UsageError, match="context filters: full, strinc, lexical, cxmi"):
        context_filter("magic")
    with pytest.raises(UsageError, match="needs a scorer"):
        context_filter("cxmi")


@pytest.mark.parametrize(
    "make",
    [
        lambda: StrincFilter(top=0),
        lambda: LexicalFilter(top=-1),
        lambda: LexicalFilter(threshold=1.5),
        lambda: LexicalFilter(target="title"),
        lambda: LexicalFilter(unit="bytes"),
        lambda: CxmiFilter(Overlap(), top=0),
    ],
)
def test_options_out_of_range(make):
    with pytest.raises(UsageError, match="must be"):
        make()
