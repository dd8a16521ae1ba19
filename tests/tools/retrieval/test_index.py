"""The analyzer and the BM25 index."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import bm25s
import numpy as np
import pytest
from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.retrieval.analyzer import Analyzer
from ragweave.tools.retrieval.bm25_index import Bm25Index, top_k


def corpus(size: int, seed: int = 1) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [[f"w{n}" for n in rng.zipf(1.5, length) % 200] for length in rng.integers(5, 60, size)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The cats sat", ["cat", "sat"]),
        ("图书馆 opens", ["图书", "书馆", "open"]),
        ("年", ["年"]),
        ("휴가는", ["휴가", "가는"]),
        ("ภาษาไทย", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย"]),
        ("เสื้อ", ["เสื้", "สื้อ"]),
        ("第3章 ABC", ["第", "3", "章", "abc"]),
        ("café", ["cafe"]),
        ("cafe\u0301", ["cafe"]),
        ("Łódź, Bjørk, Straße", ["lodz", "bjork", "strasse", "strass"]),
        ("й и ё", ["й", "и", "е"]),
        ("C++17, C#, (F#) and C", ["c++", "17", "c#", "f#", "c"]),
        ("issue #4, a heading#", ["issu", "4", "head"]),
        (".NET on ASP.NET", ["net", "asp", "net", ".net"]),
        ("1,500 or 1.500.000", ["1", "500", "1", "500", "000", "1500", "1500000"]),
        ("1.5 and 3.11.2", ["1", "5", "3", "11", "2"]),
        ("KX-7741-B", ["kx", "7741", "b", "kx7741b"]),
        ("To be or not to be?", ["to", "be", "or", "not", "to", "be"]),
        ("Which IT budget is it?", ["which", "budget", "IT"]),
        ("TERMS OF USE", ["term", "use"]),
        ("well-known", ["well", "known"]),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    assert Analyzer("english").terms(text) == terms


def test_a_word_broken_at_a_lines_end_is_found_whole() -> None:
    assert "databas" in Analyzer("english").terms("the data-\nbase of names")


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("german", "Wo ist die Brücke über den Fluss?", ["bruck", "fluss"]),
        ("french", "Où est le pont de la ville ?", ["pont", "vill"]),
        ("russian", "Где мост через реку и кто его построил?", ["мост", "рек", "постро"]),
        ("finnish", "Missä on silta?", ["mis", "on", "sil"]),
    ],
)
def test_stop_words_of_other_languages_are_left_out(language: str, text: str, terms: list[str]) -> None:
    assert Analyzer(language).terms(text) == terms


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("1500", "It costs 1,500 crowns."),
        ("1,500", "It costs 1500 crowns."),
        ("1500", "Es kostet 1.500 Kronen."),
        ("KX7741B", "The part KX-7741-B is in stock."),
        ("kx-7741-b", "The part KX7741B is in stock."),
        ("Where is IT?", "IT has moved to the second floor."),
        ("to be or not to be", "That is the question: to be or not to be."),
    ],
)
def test_a_question_finds_other_spellings(question: str, text: str) -> None:
    others = [
        Document("It is said that the crane lifts 500 kg and 15 tonnes."),
        Document("The part B 41 is on the third floor."),
    ]
    retriever = Bm25Retriever.from_documents([*others, Document(text)], k=1)
    assert [doc.page_content for doc in retriever.invoke(question)] == [text]


@pytest.mark.parametrize(
    ("language", "text", "question"),
    [("french", "les réunions", "reunion"), ("spanish", "informaciones", "información"), ("german", "Tür", "tur")],
)
def test_a_word_without_its_accents_is_found_in_any_language(language: str, text: str, question: str) -> None:
    analyzer = Analyzer(language)
    assert not {*analyzer.terms(question)}.isdisjoint(analyzer.index_terms(text))


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(UsageError, match="english"):
        Analyzer("klingon")


def test_scores_are_those_of_bm25s(tmp_path: Path) -> None:
    terms = corpus(300)
    Bm25Index.build(terms, tmp_path)
    ours = Bm25Index.open(tmp_path)
    theirs = bm25s.BM25(method="lucene")
    theirs.index(terms, show_progress=False)
    for query in terms[:20]:
        assert np.allclose(ours.score(query[:5]), theirs.get_scores(query[:5]), atol=1e-5)
    best = top_k(ours.score(terms[0]), 5)
    assert best.tolist() == np.argsort(-theirs.get_scores(terms[0]), kind="stable")[:5].tolist()


def test_a_term_that_fills_a_passage_counts_as_often_as_fits() -> None:
    terms = [["a"] * 300, ["b"]]
    theirs = bm25s.BM25(method="lucene")
    theirs.index(terms, show_progress=False)
    assert Bm25Index.of(terms).score(["a"]) == pytest.approx(theirs.get_scores(["a"]), rel=2e-3)


def test_an_extended_index_is_that_of_a_fresh_build(tmp_path: Path) -> None:
    old, new = corpus(200), [*corpus(50, seed=2), ["unseen"], []]
    keep = np.random.default_rng(3).random(200) > 0.3
    Bm25Index.build(old, tmp_path)
    (tmp_path / "new").mkdir()
    Bm25Index.build(new, tmp_path / "new", before=Bm25Index.open(tmp_path), keep=keep)
    extended = Bm25Index.open(tmp_path / "new")
    stay = [terms for terms, stays in zip(old, keep, strict=True) if stays]
    fresh = Bm25Index.of([*stay, *new])
    for field in fields(Bm25Index):
        assert np.array_equal(getattr(extended, field.name), getattr(fresh, field.name)), field.name
    Bm25Index.build([], tmp_path, before=extended, keep=np.zeros(len(stay) + len(new), dtype=bool))
    nothing = Bm25Index.open(tmp_path)
    assert len(nothing.terms) == len(nothing.score(["w1"])) == 0


@pytest.mark.parametrize("k", [1, 3, 10, 19])
def test_the_best_of_many_scores_are_those_of_a_sort(k: int) -> None:
    scores = np.random.default_rng(k).integers(-500, 5000, 20_000).astype(np.float32)
    scores[5:9] = 5000  # ties, in one block of those compared first
    assert top_k(scores, k).tolist() == np.argsort(-scores, kind="stable")[:k].tolist()


def test_scores_of_zero_are_not_found() -> None:
    assert top_k(np.array([0, 2, -1, 1], np.float32), 4).tolist() == [1, 3]


def test_an_empty_index(tmp_path: Path) -> None:
    Bm25Index.build([], tmp_path)
    assert len(Bm25Index.open(tmp_path).score(["a"])) == 0
    assert top_k(np.zeros(0, np.float32), 5).tolist() == []
