"""Scores as a reader would give them, and by the published rules where these are named."""

import unicodedata
from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import METRICS, Metric, chosen_metrics
from ragweave.evaluation.metrics.answers import (
    accuracy,
    contains,
    exact_match,
    f1,
    filco_em,
    filco_f1,
    rouge,
    squad_em,
    squad_f1,
)
from ragweave.evaluation.metrics.passages import answer_recall, mrr_at, ndcg_at, output_precision, recall_at
from ragweave.evaluation.statistics import bootstrap, compare, holm


def state(answer: str, status: str = "answered", **more: Any) -> dict[str, Any]:
    return {"answer": answer, "status": status, "passages": [], "candidates": {}, **more}


def score(name: str, question: Question, state: dict[str, Any]) -> float | None:
    return METRICS[name].compute(question, state)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (nfd("Beyoncé"), "Beyoncé"),
        ("Côte d'Ivoire", nfd("Côte d'Ivoire")),
        ("Hawai’i", "Hawai'i"),
        ("Spider\u2011Man", "Spider-Man"),
        ("1914–1918", "1914-1918"),
        ("１９３２", "1932"),
        ("12,345", "12 345"),
        ("ﬁre", "fire"),
        ("北京。", "北京"),
        ("Oslo\u200b", "Oslo"),
        ("Rot\u00adter\u00addam", "Rotterdam"),
        ("A", "A"),
        ("The The", "The The"),
    ],
)
def test_typography_plays_no_part(answer: str, gold: str) -> None:
    assert exact_match(answer, [gold]) == f1(answer, [gold]) == 1.0


@pytest.mark.parametrize(
    ("answer", "gold"), [("", "A"), ("B", "A"), ("the", "A"), ("a", "The"), ("resume", "résumé"), ("12 34", "1234")]
)
def test_other_answers_are_wrong(answer: str, gold: str) -> None:
    assert exact_match(answer, [gold]) == 0.0


def test_the_named_rules_are_the_published_ones() -> None:
    assert squad_em("the, Beatles!", ["Beatles"]) == 1.0
    assert squad_em(nfd("Beyoncé"), ["Beyoncé"]) == 0.0
    assert squad_f1("the 44th president Obama", ["Barack Obama"]) == pytest.approx(0.4)
    assert filco_em("The Beatles", ["beatles"]) == 1.0
    assert filco_em("Beatles!", ["Beatles"]) == 0.0  # punctuation counts in FILCO's code
    assert filco_f1("abcd", ["cdef"]) == 0.5  # and letters, not words
    assert filco_f1("abcd efgh", ["ijkl"]) == 0.0


@pytest.mark.parametrize("metric", ["em", "f1", "squad_em", "squad_f1", "filco_em"])
def test_no_answer_is_right_only_if_there_is_none(metric: str) -> None:
    asked = Question(id="1", question="?", answers=("A",))
    assert score(metric, asked, state("Unknown", "unknown")) == 0.0
    assert score(metric, Question(id="1", question="?"), state("Unknown", "unknown")) == 1.0
    assert score(metric, Question(id="1", question="?"), state("1931")) == 0.0
    for output in (state("Unknown", "unknown"), state("1931")):
        assert score(metric, Question(id="1", question="?", is_known=False), output) is None


def test_chinese_is_counted_by_letter() -> None:
    assert f1("北京市", ["北京"]) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("text", "name", "right"),
    [("Russia", "US", 0), ("born in the US", "US", 1), ("北京市", "北京", 1), ("Answer A", "A", 1)],
)
def test_contains_compares_words(text: str, name: str, right: int) -> None:
    assert contains(text, [name]) == right


@pytest.mark.parametrize(
    ("answer", "right"), [("Yes, it is.", 1), ("SUPPORTS", 1), ("true", 1), ("REFUTES", 0), ("No", 0), ("", 0)]
)
def test_a_label_means_its_verdict(answer: str, right: int) -> None:
    assert accuracy(answer, ["Yes"]) == right


@pytest.mark.parametrize(
    ("gold", "text", "right"),
    [
        ("US", "Russia won.", 0),
        ("5", "It opened in 1955.", 0),
        ("era", "The camera broke.", 0),
        ("US", "He went to the US.", 1),
        ("Beyoncé", nfd("Beyoncé sang."), 1),
        ("Spider-Man", "Spider\u2011Man returned.", 1),
        ("rock 'n' roll", "It was rock ’n’ roll.", 1),
    ],
)
def test_answer_recall_follows_dpr(gold: str, text: str, right: int) -> None:
    assert answer_recall([text], [gold]) == right


def test_asqa_counts_answers_and_slimplm_names() -> None:
    question = Question(id="1", question="?", kind="parts", parts=(("Ida Holm", "I. Holm"), ("1931",)))
    output = state("Ida Holms built it.")  # a part of a word counts
    assert score("coverage_em", question, output) == 0.5
    assert score("answer_share", question, output) == pytest.approx(1 / 3)
    assert score("hit_at_1", question, output) == 1.0


def test_slimplm_counts_an_answer_in_a_part_of_a_word() -> None:
    """SlimPLM, equation 2 and `calculate_short_answer_EM` of its released code."""
    question = Question(id="1", question="?", answers=("Norwegian", "the Danes"))
    output = state("They were Norwegians.")
    assert score("contains", question, output) == 0.0
    assert score("hit_at_1", question, output) == 1.0
    assert score("answer_share", question, output) == 0.5
    assert score("hit_at_1", question, state("They were Swedes.")) == 0.0


def test_rouge_takes_one_reference_for_all_three() -> None:
    scores = rouge("a b c d", ("a b c x", "d c b a"))  # the second has the better ROUGE-1, not the better ROUGE-L
    assert scores["rougeL"] == scores["rouge1"] == 0.75
    assert scores["rouge2"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "half"),
    [
        ("Мост построила Ада Бреннер", "Мост стоит"),
        ("这座桥于一九三二年开通", "这座桥"),
        ("Το γεφύρι άνοιξε το 1931", "Το γεφύρι"),
        ("पुल 1931 में खुला", "पुल"),
        ("Łódź, Kraków i Gdańsk", "Łódź"),
        ("Größe – im Jahr 1,000!", "Im Jahr 1.000?"),
    ],
)
def test_rouge_counts_the_words_of_any_script(text: str, half: str) -> None:
    assert rouge(text, (nfd(text),)) == {"rouge1": 1.0, "rouge2": 1.0, "rougeL": 1.0}
    assert 0 < rouge(half, (text,))["rougeL"] < 1
    assert rouge("Σήμερα βρέχει — 今日は雨", (text,))["rougeL"] == 0.0


@pytest.mark.parametrize(
    "text", ["It's “10 m²” — ½ of the well-known 1,000;\nnot_a 12 345 US$.", "A.B. won’t: 3.5%!", ""]
)
def test_english_is_scored_as_rouge_score_does(text: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    other = "It is the well known 10 m, of 12 345 US, won t 3.5"
    published = RougeScorer(["rouge1", "rouge2", "rougeL"]).score(other, text)
    assert rouge(text, (other,)) == {name: value.fmeasure for name, value in published.items()}


def test_a_name_of_which_nothing_is_left_is_no_part_of_a_text() -> None:
    question = Question(id="1", question="Which grade?", answers=("A", "+"))
    assert score("hit_at_1", question, state("Unknown", "unknown")) == 0.0
    assert score("answer_share", question, state("B")) == 0.0


def test_a_right_candidate_that_lost_the_vote() -> None:
    question = Question(id="1", question="?", answers=("Oslo",))
    pool = {"a": {"answer": "Oslo"}, "b": {"answer": "Bergen"}}
    assert score("nm", question, state("Bergen", candidates=pool)) == 1.0
    assert score("nm", question, state("Oslo", candidates=pool)) == 0.0
    quotes = Question(id="1", question="?", answers=("rock 'n' roll",))
    pool = {"a": {"answer": "rock ’n’ roll"}}
    assert score("nm", quotes, state("jazz", candidates=pool)) == 0.0  # by SQuAD's EM, as Liu et al.


# ---- passages


def test_gains_are_graded() -> None:
    gold = {"weak": 1.0, "strong": 2.0}
    assert ndcg_at(["weak", "strong"], gold, 10) == pytest.approx(0.8597, abs=1e-4)
    assert recall_at(["x", "weak"], gold, 2) == mrr_at(["x", "weak"], gold, 10) == 0.5
    assert recall_at(["x", "weak"], gold, 1) == mrr_at(["x", "weak"], gold, 1) == 0.0


def test_the_query_is_no_hit_of_its_own() -> None:
    question = Question(id="arg-1", question="?", kind="retrieval", gold={"arg-2": 1.0})
    docs = [Document("a", id="arg-1"), Document("b", id="arg-2")]
    assert score("ndcg@10", question, state("", retrieved={"question": docs})) == 1.0


def test_what_was_not_searched_is_not_scored() -> None:
    question = Question(id="1", question="?", gold={"a": 1.0})
    output = state("", passages=[Document("a", id="a")], depth=5)
    assert score("recall@5", question, output) == 1.0
    assert score("recall@20", question, output) is None


def test_passages_cut_from_a_gold_one_are_gold() -> None:
    gold = Document("The Aster Bridge opened in 1931. It is red.", id="g")
    question = Question(id="1", question="?", passages=(gold,), gold={"g": 1.0})
    output = state("", passages=[Document("The Aster Bridge opened in 1931.", id="kb-7")])
    assert score("s_precision", question, output) == 1.0


def test_a_filter_is_measured_by_what_was_found() -> None:
    question = Question(id="1", question="?", gold={"a": 1.0, "b": 1.0, "c": 1.0})
    docs = {name: Document(name, id=name) for name in "abx"}
    output = state("", passages=[docs["a"]], retrieved={"question": [docs["a"], docs["x"]], "claim": [docs["b"]]})
    assert score("filter_recall", question, output) == 0.5
    assert score("recall", question, output) == pytest.approx(1 / 3)
    assert score("precision", question, output) == score("found", question, output) == 1.0
    both = state("", passages=[docs["a"], docs["x"]])
    assert (score("precision", question, both), score("found", question, both)) == (0.5, 1.0)


def test_the_output_of_a_claim_is_its_label() -> None:
    claim = Question(id="1", question="Is it?", answers=("Yes",), kind="yes_no", about={"label": ["SUPPORTS"]})
    output = state("", passages=[Document("This supports yes", id="a")])
    assert score("output_precision", claim, output) == pytest.approx(1 / 3)
    assert output_precision("aab", ["ab"]) == pytest.approx(2 / 3)


# ---- the registry, statistics


def test_metrics_are_chosen_by_name() -> None:
    metric = Metric("words", "Words", "", lambda _question, state: len(state["answer"].split()))
    assert [metric.name for metric in chosen_metrics(["words", "em"], [metric])] == ["words", "em"]
    usual = {metric.name for metric in chosen_metrics([])}
    assert "em" in usual
    assert not usual & {"faithfulness", "citation_recall", "filco_em", "tokens"}
    with pytest.raises(UsageError, match="contans"):
        chosen_metrics(["contans"])


def test_statistics() -> None:
    interval = bootstrap([0.0, 1.0] * 50)
    assert interval.mean == 0.5
    assert (interval.low, interval.high) == pytest.approx((0.402, 0.598), abs=0.01)  # 1.96 standard errors of 0.05
    same = compare([0.0, 1.0] * 20, [0.0, 1.0] * 20)
    assert (same.difference.mean, same.p) == (0.0, 1.0)
    assert compare([1.0] * 8 + [0.0], [0.0] * 8 + [1.0]).p == pytest.approx(20 / 512)  # McNemar's, exactly
    uneven = compare([0.1 * at for at in range(40)], [0.0] * 40)
    assert 0 < uneven.p < 0.001
    for sign in (1, -1):
        assert compare([sign * 1.0, sign * 2.0, sign * 3.0], [0.0] * 3).p == pytest.approx(2 / 8, abs=0.02)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_intervals_cover_what_they_should() -> None:
    import numpy as np

    random = np.random.default_rng(1)
    samples = (bootstrap((random.random(60) < 0.3).astype(float).tolist()) for _ in range(200))
    assert sum(interval.low <= 0.3 <= interval.high for interval in samples) >= 180
