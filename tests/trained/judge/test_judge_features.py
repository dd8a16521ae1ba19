"""What is read off the words of a question and its draft."""

from __future__ import annotations

import math
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.trained.judge_features import (
    NAMES,
    candidates,
    features,
    first_sentence,
    names,
    sentences,
    words,
)

QUESTION = "Who wrote the opera Porgy and Bess in 1935?"
SURE = "George Gershwin wrote it. George Gershwin (1898) was born on September 26, 1898."
UNSURE = "I'm sorry, but I do not have information about it. Could you provide more context?"

texts = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            ["Who", "is", "Ada Moreno", "1898.", "I'm sorry,", "the", '"', "\n\n", "?", "(", "- a"]
        ),
        max_size=25,
    ).map(" ".join),
)
spaces = st.text(" \t\n\r\u00a0", max_size=4)


def pieces(word: str) -> list[int]:
    """Stands for a tokenizer: a piece every five letters, ids all over BERT's vocabulary."""
    return [zlib.crc32(word[at : at + 5].encode()) % 30_000 for at in range(0, len(word), 5)]


def read(question: str, draft: str) -> dict[str, float]:
    return dict(zip(NAMES, features(question, draft, pieces), strict=True))


@given(texts, texts)
def test_a_row_is_finite_and_always_as_long(question: str, draft: str) -> None:
    row = features(question, draft, pieces)
    assert len(row) == len(NAMES) == len(set(NAMES))
    assert all(math.isfinite(value) for value in row)


@given(texts, texts, spaces, spaces)
def test_space_around_the_texts_changes_nothing(
    question: str, draft: str, before: str, after: str
) -> None:
    padded = features(f"{before}{question}{after}", f"{before}{draft}{after}", pieces)
    assert padded == features(question, draft, pieces)


@given(texts, texts)
def test_candidates_are_new_and_come_once(question: str, draft: str) -> None:
    found = candidates(question, draft)
    assert len(found) == len(set(found))
    assert all(set(words(one)) - set(words(question)) for one in found)


@given(texts)
def test_sentences_hold_every_word_in_order(text: str) -> None:
    assert words(" ".join(sentences(text))) == words(text)


def test_the_question_is_read() -> None:
    row = read(QUESTION, SURE)
    assert (row["asks.who"], row["asks.when"], row["question.year"]) == (1.0, 0.0, 1.0)
    assert row["question.names"] == pytest.approx(math.log(2)), "Porgy, and its Bess"


def test_a_draft_that_answers_and_one_that_hedges() -> None:
    sure, unsure = read(QUESTION, SURE), read(QUESTION, UNSURE)
    hedges = ("first.refusal", "draft.refusal", "draft.asks_back", "draft.denial")
    assert [sure[name] for name in hedges] == [0, 0, 0, 0]
    assert unsure["first.refusal"] == 1.0
    assert unsure["draft.refusal"] == pytest.approx(math.log(3)), "sorry, do not have"
    assert unsure["draft.asks_back"] > 0
    assert sure["draft.dates"] == sure["draft.years"] == pytest.approx(math.log(2))
    assert sure["draft.repeated"] == pytest.approx(math.log(3)), "Gershwin twice"


def test_curly_apostrophes_hedge_too() -> None:
    assert read(QUESTION, UNSURE.replace("'", "’")) == read(QUESTION, UNSURE)


def test_rare_words_rank_high() -> None:
    def common(word: str) -> list[int]:
        return [20_000] if word == "gershwin" else [2_500]

    rare = features(QUESTION, "Gershwin did.", common)
    plain = features(QUESTION, "Somebody did.", common)
    at = NAMES.index("rarity.first_new.rank")
    assert rare[at] == pytest.approx(math.log(20_000 - 1995))
    assert rare[at] > plain[at]


def test_an_empty_draft_is_read_too() -> None:
    row = read(QUESTION, "")
    assert (row["draft.words"], row["draft.first_candidates"]) == (0.0, 0.0)
    assert first_sentence("") == ""


def test_names_and_figures_are_candidates() -> None:
    assert candidates(QUESTION, SURE) == [
        "George Gershwin",
        *("September", "September 26, 1898", "1898", "26"),
    ]
    assert names("He met Alexander of the North") == ["He", "Alexander", "North"]
    assert names("Duke of Kent") == ["Duke of Kent"]


@pytest.mark.parametrize("text", ["A " * 5000, f"A{' ' * 20_000}b", "a. " * 5000, "1," * 5000])
def test_long_and_odd_drafts_are_read(text: str) -> None:
    assert len(features(QUESTION, text, pieces)) == len(NAMES)
