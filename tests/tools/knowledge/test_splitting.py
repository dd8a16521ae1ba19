"""Passages cover their text, in windows of the size asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.tools.knowledge import Settings
from ragweave.tools.knowledge.chunking import _CODES, simple_tokens, split, windows
from ragweave.tools.retrieval.bm25 import languages

sizes = st.integers(1, 7).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))
spans = st.integers(0, 40).map(lambda n: [(2 * i, 2 * i + 1) for i in range(n)])


@given(spans, sizes)
def test_windows_cover_all_with_the_overlap(
    units: list[tuple[int, int]], cut: tuple[int, int]
) -> None:
    size, overlap = cut
    found = list(windows(units, size, overlap))
    starts, ends = [start for start, _ in units], [end for _, end in units]
    as_units = [(starts.index(first), ends.index(last)) for first, last in found]
    assert {n for first, last in as_units for n in range(first, last + 1)} == set(range(len(units)))
    assert all(last - first + 1 <= size for first, last in as_units)
    for (_, last), (first, _) in pairwise(as_units):
        assert last - first + 1 == overlap
    assert all(last - first + 1 == size for first, last in as_units[:-1])


@given(st.text(max_size=300), sizes)
def test_words_come_back_in_order(text: str, cut: tuple[int, int]) -> None:
    settings = Settings(embedding=None, size=cut[0])
    parts = [text[start:end] for start, end in split(text, settings)]
    assert [word for part in parts for word in part.split()] == text.split()
    assert all(len(part.split()) <= cut[0] for part in parts)


def test_papers_passages_hold_100_words() -> None:
    text = " ".join(str(n) for n in range(250))
    parts = [text[a:b].split() for a, b in split(text, Settings(embedding=None))]
    assert [len(part) for part in parts] == [100, 100, 50]


def test_sentences_and_tokens() -> None:
    text = "One is here. Two is there! Is three?  Four."
    three = Settings(embedding=None, unit="sentences", size=3, overlap=1)
    assert [text[a:b] for a, b in split(text, three)] == [
        "One is here. Two is there! Is three?",
        "Is three?  Four.",
    ]
    tokens = Settings(embedding=None, unit="tokens", size=4)
    assert [text[a:b] for a, b in split(text, tokens)][:2] == ["One is here.", "Two is there!"]
    assert simple_tokens("a-b") == [(0, 1), (1, 2), (2, 3)]
    assert simple_tokens("किताब।") == [(0, 5), (5, 6)]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"unit": "pages"}, "pages"),
        ({"size": 0}, "size"),
        ({"size": 2, "overlap": 2}, "overlap"),
        ({"overlap": -1}, "overlap"),
        ({"language": "klingon"}, "klingon"),
        ({"embedding": ""}, "embedding"),
        ({"chroma_url": "localhost:8000"}, "chroma_url"),
        ({"chroma_url": "http://me:secret@host:1"}, "password"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Settings(**wrong)  # type: ignore[arg-type]


def test_every_language_has_a_sentence_splitter_code() -> None:
    assert set(_CODES) >= set(languages())
