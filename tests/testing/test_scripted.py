"""What the scripted models of `ragweave.testing` say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from attacks.test_linear import grows_linearly
from ragweave.testing import pieces


@given(st.text(alphabet=st.one_of(st.sampled_from(" \n\ta.é\u2028\x1c"), st.characters())))
def test_pieces_are_the_text(text: str) -> None:
    found = pieces(text)
    assert "".join(found) == (text if text.strip() else "")
    assert all(one.strip() for one in found)
    assert [one.strip() for one in found] == text.split()


def test_a_word_has_the_blanks_before_it_and_the_last_those_behind_it() -> None:
    assert pieces(" In  Rome.\nYes \n") == [" In", "  Rome.", "\nYes \n"]


def test_blanks_alone_take_time_linear_in_their_number() -> None:
    for text in ("\n", " ", "a ", " a"):
        assert grows_linearly(pieces, lambda length, text=text: text * length, 100_000)  # type: ignore[misc]
