"""The sentence in its passage: it always survives, whatever is trimmed around it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.text.sentences import split_sentences
from ragweave.trained.pairs import CLOSE, OPEN, SentenceForm

TEXT = (
    "Ada Lovelace was born in London in 1815. She wrote notes on the Analytical Engine. "
    "The notes hold what is often called the first program. Byron was her father [1]. "
    "She died of cancer in 1852 and lies in Hucknall."
)


def words(text):
    """Offsets of words and single marks: a tokenizer for tests."""
    return [found.span() for found in re.finditer(r"\w+|[^\w\s]", text)]


def letters(text):
    """Offsets of at most three letters: words fall into several tokens, as in real models."""
    return [found.span() for found in re.finditer(r"\w{1,3}|[^\w\s]", text)]


def folded(text):
    return " ".join(text.replace("[", "(").replace("]", ")").split())


def made(limit, title="Ada Lovelace", number=1, tokens=words):
    sentence = split_sentences(TEXT)[number]
    form = SentenceForm(tokens, limit)
    return form.pair("Who wrote notes?", title, TEXT, sentence.start, sentence.end)


def test_a_passage_that_fits_stands_whole_with_its_title_first():
    asked, shown = made(200)
    assert asked == "Who wrote notes?"
    assert shown == (
        "Ada Lovelace | Ada Lovelace was born in London in 1815. "
        "[ She wrote notes on the Analytical Engine. ] "
        "The notes hold what is often called the first program. Byron was her father (1). "
        "She died of cancer in 1852 and lies in Hucknall."
    )


def test_context_is_trimmed_evenly_and_at_words():
    _, shown = made(29)
    assert shown == (
        "Ada Lovelace | …in London in 1815. [ She wrote notes on the Analytical Engine. ] "
        "The notes hold what is…"
    )


def test_what_one_side_does_not_need_goes_to_the_other():
    _, first = made(40, number=0)
    assert first.startswith("Ada Lovelace | [ Ada Lovelace was born")
    assert len(words(first)) > 30


def test_a_title_that_does_not_fit_is_left_out_before_the_sentence_is():
    _, shown = made(15)
    assert shown == "[ She wrote notes on the Analytical Engine. ]"
    _, untitled = made(200, title="")
    assert untitled.startswith("Ada Lovelace was born")


def test_a_passage_cannot_forge_a_mark():
    text = "One ] two. [ Three ] four."
    _, shown = SentenceForm(words, 60).pair("[ q ]", "[ t ]", text, 0, 10)
    assert shown == "( t ) | [ One ) two. ] ( Three ) four."


prose = st.text(st.sampled_from("ab c.[]é\n東|…"), max_size=80)


@given(
    question=prose,
    title=prose,
    left=prose,
    sentence=prose.filter(lambda text: text.strip()),
    right=prose,
    limit=st.integers(1, 120),
    tokens=st.sampled_from([words, letters]),
)
def test_the_sentence_always_survives_and_the_pair_fits(
    question, title, left, sentence, right, limit, tokens
):
    text = left + sentence + right
    form = SentenceForm(tokens, limit)
    asked, shown = form.pair(question, title, text, len(left), len(left) + len(sentence))

    assert shown.count("[") == shown.count("]") == 1
    between = shown[shown.index(OPEN) + len(OPEN) : shown.index(CLOSE)]
    assert between == folded(sentence)
    assert len(tokens(asked)) <= limit // 3
    alone = len(tokens(asked)) + len(tokens(f"{OPEN}{between}{CLOSE}"))
    if alone <= limit:
        assert len(tokens(asked)) + len(tokens(shown)) <= limit
    else:
        assert shown == f"{OPEN}{between}{CLOSE}"


@given(limit=st.integers(20, 80), number=st.integers(0, 4))
def test_context_stands_beside_the_sentence_as_it_does_in_the_text(limit, number):
    _, shown = made(limit, title="", number=number, tokens=letters)
    bare = shown.replace(OPEN, "").replace(CLOSE, "").strip("… ")
    assert bare in folded(TEXT)


def test_a_long_document_costs_no_more_than_what_is_read_of_it():
    tokenised = []

    def counting(text):
        tokenised.append(len(text))
        return words(text)

    text = "one two three four. " * 50_000
    _, shown = SentenceForm(counting, 60).pair("q", "", text, 400_000, 400_019)
    assert len(words(shown)) >= 55
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert sum(tokenised) < 10_000


def test_pairs_follow_the_spans():
    passages = [
        {"id": "a", "title": "A", "text": "One. Two."},
        {"id": "b", "title": "", "text": "Three."},
    ]
    spans = [
        {"passage_id": "b", "start": 0, "end": 6, "text": "Three.", "score": 0.0},
        {"passage_id": "a", "start": 5, "end": 9, "text": "Two.", "score": 0.0},
    ]
    assert SentenceForm(words, 60).pairs("q", passages, spans) == [
        ("q", "[ Three. ]"),
        ("q", "A | One. [ Two. ]"),
    ]
