"""Doubtful sentences and masked queries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragweave.nodes.flare import first_doubtful, masked
from ragweave.tools.models.forms import Token
from ragweave.tools.text.sentences import Sentence

TEXT = "The light is old. Ada Brenner built it. It stands in Norland."


def tokens(text: str, unsure: dict[str, float]) -> list[Token]:
    """One token a character, sure but in the words named."""
    shares = [1.0] * len(text)
    for word, share in unsure.items():
        index = text.index(word)
        shares[index : index + len(word)] = [share] * len(word)
    return [Token(index, index + 1, share) for index, share in enumerate(shares)]


def test_the_first_doubt_is_found() -> None:
    found = first_doubtful(TEXT, tokens(TEXT, {"Brenner": 0.5, "Norland": 0.1}), 0.8)
    assert found == Sentence("Ada Brenner built it.", 18, 39)


def test_a_sure_text_has_none() -> None:
    assert first_doubtful(TEXT, tokens(TEXT, {"Ada": 0.8}), 0.8) is None
    assert first_doubtful("", [], 0.8) is None


def test_trusted_sentences_and_what_came_before_are_passed_over() -> None:
    unsure = tokens(TEXT, {"old": 0.1, "Ada": 0.1, "Norland": 0.1})
    assert first_doubtful(TEXT, unsure, 0.8, trusted=1).start == 18  # type: ignore[union-attr]
    found = first_doubtful(TEXT, unsure, 0.8, begin=17, trusted=1)
    assert found == Sentence("It stands in Norland.", 40, 61)
    assert first_doubtful(TEXT, unsure, 0.8, trusted=3) is None


def test_doubtful_words_are_masked_whole() -> None:
    sentence = Sentence("Ada Brenner built it.", 18, 39)
    assert masked(sentence, tokens(TEXT, {"nner": 0.3}), 0.4) == "Ada built it."
    assert masked(sentence, tokens(TEXT, {"Ada": 0.5}), 0.4) == "Ada Brenner built it."
    assert masked(sentence, tokens(TEXT, {"Ada Brenner built it": 0.1}), 0.4) == ""


def test_the_words_of_the_conclusion_are_no_query() -> None:
    text = "So the answer is Norland."
    sentence = Sentence(text, 0, len(text))
    assert masked(sentence, tokens(text, {}), 0.4) == "Norland."
    assert masked(sentence, tokens(text, {"Norland": 0.1}), 0.4) == ""


@given(st.text(), st.lists(st.floats(0, 1)), st.floats(0, 1), st.integers(0, 3))
def test_a_doubt_is_a_sentence_of_the_text(
    text: str, shares: list[float], threshold: float, trusted: int
) -> None:
    made = [Token(index, index + 1, share) for index, share in enumerate(shares[: len(text)])]
    found = first_doubtful(text, made, threshold, trusted=trusted)
    if found is not None:
        assert text[found.start : found.end] == found.text
        inside = [one.probability for one in made if found.start <= one.start < found.end]
        assert min(inside) < threshold
        assert set(masked(found, made, threshold).split()) <= set(found.text.split())
