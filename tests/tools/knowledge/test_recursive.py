"""The recursive splitter gives LangChain's passages, at the places where they stand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.knowledge.recursive import FINER, recursive_spans

parts = ["no ", "one", " two", "\n", "\n\n", "\n# Top\n", "```\n", "\n---\n", "\n***\n", "\t", "."]
texts = st.lists(st.sampled_from(parts), max_size=40).map("".join)
limits = st.integers(1, 9).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


def words(text: str) -> int:
    return len(text.split())


@given(texts, limits, st.booleans(), st.sampled_from([words, len]))
def test_passages_are_those_of_langchain(
    text: str, limit: tuple[int, int], of_markdown: bool, length: Callable[[str], int]
) -> None:
    library = pytest.importorskip("langchain_text_splitters", reason="needs ragweave[documents]")
    size, overlap = limit
    splitter = library.RecursiveCharacterTextSplitter
    measure = {"chunk_size": size, "chunk_overlap": overlap, "length_function": length}
    separators, theirs = FINER, splitter(**measure)
    if of_markdown:
        separators = splitter.get_separators_for_language(library.Language.MARKDOWN)
        theirs = splitter.from_language(library.Language.MARKDOWN, **measure)
    found = recursive_spans(text, separators, length, size, overlap)
    wanted = [one.strip() for one in theirs.split_text(text) if one.strip()]
    assert [text[start:end] for start, end in found] == wanted


def test_a_repeated_text_is_covered_to_its_end() -> None:
    text = "no " * 10 + "end"
    found = recursive_spans(text, FINER, words, 4, 2)
    assert found == [(0, 11), (6, 17), (12, 23), (18, 29), (24, 33)]
