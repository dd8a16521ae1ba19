"""The BM25 index: equal to bm25s', built as a stream, searched by runs of scores."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import KnowledgeBaseError
from ragweave.tools.retrieval import bm25_index
from ragweave.tools.retrieval.bm25_index import Bm25Index, top_k

WORDS = [f"w{number}" for number in range(30)]
corpora = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=25)


def by_bm25s(corpus: list[list[str]], query: list[str]) -> np.ndarray:
    """Return the scores that bm25s gives."""
    scorer = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
    scorer.index(corpus, show_progress=False)
    known = [word for word in query if word in scorer.vocab_dict]
    return np.asarray(scorer.get_scores(known)) if known else np.zeros(len(corpus))


@given(corpora.filter(any), st.lists(st.sampled_from(WORDS), max_size=8))
def test_scores_are_those_of_bm25s(corpus: list[list[str]], query: list[str]) -> None:
    ours = Bm25Index.build(corpus).scores(query)
    np.testing.assert_allclose(ours, by_bm25s(corpus, query), rtol=1e-6)


@given(corpora.filter(any), st.lists(st.sampled_from(WORDS), max_size=8))
def test_scipy_sums_alike(corpus: list[list[str]], query: list[str]) -> None:
    pytest.importorskip("scipy")
    index = Bm25Index.build(corpus)
    plain = index.scores(query)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25_index, "_LARGE", 1)
        assert index.scores(query).tolist() == plain.tolist()


@given(corpora, st.integers(1, 40))
def test_written_in_blocks_is_built_at_once(
    tmp_path_factory: pytest.TempPathFactory, corpus: list[list[str]], block: int
) -> None:
    folder = tmp_path_factory.mktemp("index")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25_index, "_BLOCK_TERMS", block)
        Bm25Index.write(iter(corpus), folder)
    assert Bm25Index.open(folder).differences(Bm25Index.build(corpus)) == []


def test_bm25s_opens_what_is_written(tmp_path: Path) -> None:
    corpus = [["b", "a", "b"], ["c"], ["a", "c"]]
    Bm25Index.write(corpus, tmp_path)
    theirs = bm25s.BM25.load(tmp_path, mmap=True, load_vocab=False, show_progress=False)
    ours = Bm25Index.open(tmp_path)
    for term in "abc":
        place = ours._ids([term])
        assert theirs.get_scores_from_ids(place).tolist() == ours.scores([term]).tolist()


def peak(block: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the most bytes that a write holds when it puts aside so many terms."""

    def passages() -> Iterator[list[str]]:
        rng = np.random.default_rng(5)
        for _ in range(2000):
            yield [WORDS[at] for at in rng.integers(0, len(WORDS), 60)]

    monkeypatch.setattr(bm25_index, "_BLOCK_TERMS", block)
    Bm25Index.write([["warm"]], folder / "warm")
    tracemalloc.start()
    Bm25Index.write(passages(), folder)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_memory_of_a_build_is_that_of_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = peak(10**9, tmp_path / "whole", monkeypatch)
    assert peak(6000, tmp_path / "blocks", monkeypatch) < whole / 5


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 20_000))
def test_the_best_of_many_scores(seed: int, k: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 50, length).astype(np.float32)
    wanted = sorted(
        (number for number in range(length) if scores[number]), key=lambda n: -scores[n]
    )
    assert top_k(scores, k).tolist() == wanted[:k]


def test_a_difference_is_named() -> None:
    one, other = Bm25Index.build([["a", "b"], ["b"]]), Bm25Index.build([["a", "c"], ["c"]])
    assert one.differences(Bm25Index.build([["a", "b"], ["b"]])) == []
    assert "terms" in one.differences(other)
    assert one.differences(Bm25Index.build([["a", "b"], ["a"]])) != []


@pytest.mark.parametrize("large", [1, 100])
def test_a_passage_number_out_of_range_is_damage(
    large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bm25_index, "_LARGE", large)
    Bm25Index.write([["a"], ["b"]], tmp_path)
    np.save(tmp_path / "indices.csc.index.npy", np.array([7, 9], dtype=np.int32))
    with pytest.raises(KnowledgeBaseError, match="damaged"):
        Bm25Index.open(tmp_path).search(["a"], 1)


def test_a_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    def broken() -> Iterator[list[str]]:
        yield ["a"]
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        Bm25Index.write(broken(), tmp_path)
    assert list(tmp_path.iterdir()) == []
