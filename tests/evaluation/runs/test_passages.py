"""Where passages come from, and what becomes of the gold ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from tests.evaluation.towns import planned, reader, records, run

from ragweave.errors import UsageError
from ragweave.evaluation.datasets import Question, passage
from ragweave.evaluation.runs.passages import with_gold
from ragweave.tools.knowledge import KnowledgeBase, Settings

GOLD = passage("gold text", gold=True)
QUESTION = Question(id="q", question="?", answers=("x",), passages=(GOLD,))


@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True), seed=st.integers())
def test_with_gold_there_is_one_and_the_number_stays(texts: list[str], seed: int) -> None:
    found = [passage(text) for text in texts]
    put = with_gold(found, QUESTION, "with", seed)
    assert len(put) == len(found)
    assert sum(doc.metadata["gold"] for doc in put) == 1
    assert put == with_gold(found, QUESTION, "with", seed)
    out = with_gold([*found, GOLD], QUESTION, "without", seed)
    assert [doc.id for doc in out] == [doc.id for doc in found if doc.id != GOLD.id]


def test_gold_that_was_found_keeps_its_place() -> None:
    found = [passage("a"), Document(page_content=GOLD.page_content, id=GOLD.id), passage("b")]
    put = with_gold(found, QUESTION, "with", 0)
    assert [doc.metadata["gold"] for doc in put] == [False, True, False]


def test_given_passages_take_the_place_of_retrieval(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat[k=2]", corpus="given")
    run(directory, reader())
    for one in records(directory):
        assert one["usage"]["retrievals"] == 0
        assert [doc["gold"] for doc in one["passages"]] == [False, True]


def test_the_gold_passage_stands_where_the_order_says(tmp_path: Path) -> None:
    methods = "concat[k=3,order=gold_last],concat[k=3,order=gold_first]"
    directory = planned(tmp_path, methods, gold="with")
    run(directory, reader())
    for one in records(directory):
        place = 0 if "gold_first" in one["system"] else len(one["passages"]) - 1
        assert one["passages"][place]["gold"]


def test_without_gold_no_gold_passage_is_seen(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat[k=2]", gold="without")
    run(directory, reader())
    assert all(one["scores"]["recall"] == 0.0 for one in records(directory) if one["passages"])
    assert not any(doc["gold"] for one in records(directory) for doc in one["passages"])


def test_a_knowledge_base_is_searched_and_may_not_change_between_sittings(tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    with KnowledgeBase.create(kb, settings=Settings(embedding=None)) as base:
        base.add([Document(page_content="The bridge of Varn opened in 1900.")])
    directory = planned(tmp_path, "concat[k=1]", kb=kb, limit=1)
    run(directory, reader())
    assert records(directory)[0]["answer"] == "1900"
    later = planned(tmp_path / "later", "concat[k=1]", kb=kb)
    with KnowledgeBase.open(kb) as base:
        base.add([Document(page_content="More.")])
    with pytest.raises(UsageError, match="has changed since the run began"):
        run(later, reader())


def test_a_file_without_passages_needs_a_knowledge_base(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat", corpus="file", retriever="dense")
    with pytest.raises(UsageError, match="needs a knowledge base"):
        run(directory, reader())


def test_gold_answers_are_handed_over_only_to_an_oracle(tmp_path: Path) -> None:
    plain = planned(tmp_path / "plain", "filco[k=2,filter=lexical]")
    oracle = planned(tmp_path / "oracle", "filco[k=2,filter=strinc]", oracle=True)
    run(plain, reader())
    run(oracle, reader())
    kept = [doc["text"] for one in records(oracle) for doc in one["passages"]]
    assert all("opened in" in text for text in kept)
