"""Retrieval metrics by hand, and cost by a price table."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation import metrics
from ragweave.evaluation.metrics import retrieval
from ragweave.state.passages import unique

KEYS = st.lists(st.sampled_from("abcdef"), unique=True)


def test_parts_of_one_page_are_gold_by_its_id() -> None:
    """Passages of one id are told apart; a gold passage known by its id alone names them all."""
    gold = Document("document w1", id="w1", metadata={"gold": True, "title": ""})
    question = Question(id="1", question="Who?", answers=("Ada",), passages=(gold,))
    texts = ("Ada built the bridge.", "It opened in 1934.")
    parts = [Document(text, id="w1") for text in texts]
    shown = unique(parts)
    assert shown[0].id == "w1" != shown[1].id
    state = {"passages": shown, "retrieved": {"question": parts}, "kept": {}}
    assert retrieval.PRECISION.compute(question, state) == 1.0
    assert retrieval.RECALL.compute(question, state) == 1.0


def test_a_text_that_shares_the_id_of_another_query_is_no_gold_passage() -> None:
    gold = Document("Ada built the bridge.", id="g", metadata={"gold": True, "title": ""})
    question = Question(id="1", question="Who?", answers=("Ada",), passages=(gold,))
    other, right = Document("It rained.", id="w1"), Document("Ada built the bridge.", id="w1")
    state = {
        "passages": unique([other, right]),
        "retrieved": {"question": [other], "round_1": [right]},
        "kept": {},
    }
    assert retrieval.PRECISION.compute(question, state) == 0.5


def test_a_piece_is_gold_by_its_documents_id_where_its_words_stand_in_it() -> None:
    gold = Document("One two three. Four five.", id="C", metadata={"gold": True, "title": ""})
    known = retrieval.GoldPassages([gold])
    assert known.match(Document("Four five.", id="C#1")) == ("C", "id")
    assert known.match(Document("Four five.", id="C#1~0123abcd")) == ("C", "id")
    assert known.match(Document("The song C#1.", id="C#2")) is None
    assert known.match(Document("Four five.", id="D#1")) is None
    zh = retrieval.GoldPassages([Document("\u6843\u82b1\u6e90\u8bb0 \u6b66\u9675\u4eba", id="Z")])
    assert zh.match(Document("\u6e90\u8bb0", id="Z#1")) == ("Z", "id")
    stub = retrieval.GoldPassages([Document("document C", id="C", metadata={"stub": True})])
    assert stub.match(Document("Four five.", id="C#1")) == ("C", "id")


def test_within_a_collection_ids_alone_say_which_document_is_gold() -> None:
    text = "an ancient bridge over a river that nobody had named before"
    about = {"gold": True, "title": "", "collection": "beir"}
    known = retrieval.GoldPassages([Document(text, id="d1", metadata=about)])
    assert known.match(Document(text, id="d2", metadata={"collection": "beir"})) is None
    assert known.match(Document(text, id="d1", metadata={"collection": "beir"})) == ("d1", "id")
    assert known.match(Document(text, id="elsewhere")) == ("d1", "text")
    alike = Document(f"{text[: len(text) * 2 // 3]} but another one", id="d3")
    assert known.match(alike) is None, "an own document is whole: its pieces stand in it"


def test_by_hand() -> None:
    ranked, gold = ["a", "b", "c", "d"], {"b", "d"}
    assert metrics.recall_at(ranked, gold, 2) == 0.5
    assert metrics.recall(ranked, gold) == 1.0
    assert metrics.precision(ranked, gold) == 0.5
    assert metrics.s_precision(["d", "b"], gold) == 1.0
    assert metrics.s_precision(["b"], gold) == 0.0
    assert metrics.filter_recall(["b"], ["a", "b", "c"], gold) == 1.0
    assert metrics.filter_recall(["a"], ["a"], gold) is None
    dcg = 1 / math.log2(3) + 1 / math.log2(5)
    assert metrics.ndcg_at(ranked, gold, 10) == pytest.approx(dcg / (1 + 1 / math.log2(3)))
    assert metrics.answer_recall(["The Varn bridge."], ["varn"]) == 1.0


@given(ranked=KEYS, gold=KEYS.filter(bool))
def test_bounds(ranked: list[str], gold: list[str]) -> None:
    values = [metrics.recall_at(ranked, gold, k) for k in range(7)]
    assert values == sorted(values)
    assert values[-1] == metrics.recall(ranked, gold)
    exact = metrics.s_precision(ranked, gold)
    assert (exact == 1.0) == (
        metrics.precision(ranked, gold) == 1.0 and metrics.recall(ranked, gold) == 1.0
    )
    assert metrics.ndcg_at(gold, gold, 10) == pytest.approx(1.0)
    assert 0 <= metrics.ndcg_at(ranked, gold, 3) <= 1


def test_two_texts_are_compared_once_for_all_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, ...]] = []
    longest = retrieval._longest_run

    def counted(one: tuple[str, ...], other: tuple[str, ...]) -> int:
        compared.append(one)
        return longest(one, other)

    monkeypatch.setattr(retrieval, "_longest_run", counted)
    gold = Document("an ancient bridge over a river that nobody had named before", id="gold")
    gold.metadata["gold"] = True
    found = [Document(f"{gold.page_content} {at}", id=str(at)) for at in range(3)]
    asked = Question(id="1", question="Which bridge?", answers=("Varn",), passages=(gold,))
    state = {"passages": found, "retrieved": {"question": found}, "kept": {}, "answer": ""}
    names = ("recall", "precision", "s_precision", "recall@1")
    assert [metrics.METRICS[name].compute(asked, state) for name in names] == [1.0, 1.0, 1.0, 1.0]
    assert len(compared) == 3


LEDGER = {
    "answer": {"calls": 1, "input_tokens": 1_000_000, "output_tokens": 500_000},
    "proxy": {"calls": 1, "input_tokens": 2_000_000, "output_tokens": 0},
}


def test_cost_by_role(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    prices = {"answer": [1, 4], "scorer": [0, 0], "*": [0.1, 0.2]}
    path.write_text(json.dumps(prices), "utf-8")
    assert metrics.cost(LEDGER, metrics.read_prices(str(path))) == pytest.approx(3.2)
    assert metrics.cost(LEDGER, metrics.read_prices("0.5,2")) == pytest.approx(2.5)


def test_no_cost_without_a_price_for_every_role() -> None:
    assert metrics.cost(LEDGER, {"answer": metrics.Price(1, 1)}) is None
    assert metrics.read_prices("") == {}


@pytest.mark.parametrize("text", ["1", "1,x", "1,2,3", "-1,2", "nan,1"])
def test_bad_prices_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="prices"):
        metrics.read_prices(text)


def test_a_price_that_is_a_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text('{"answer": "15"}', "utf-8")
    with pytest.raises(UsageError, match="INPUT,OUTPUT"):
        metrics.read_prices(str(path))


def test_a_scorer_is_free_unless_it_has_a_price_of_its_own() -> None:
    ledger = {
        "answer": {"input_tokens": 1_000_000, "output_tokens": 0},
        "scorer": {"input_tokens": 1_000_000, "output_tokens": 0},
    }
    assert metrics.cost(ledger, metrics.read_prices("2,3")) == 2.0
    assert metrics.cost(ledger, {"answer": metrics.Price(2, 3)}) == 2.0
    priced = {"answer": metrics.Price(2, 3), "scorer": metrics.Price(1, 0)}
    assert metrics.cost(ledger, priced) == 3.0
