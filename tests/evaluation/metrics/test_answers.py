"""Answer metrics against independent statements of their rules, on edge cases and real answers."""

from __future__ import annotations

import gzip
import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from tests.evaluation.files import SHARED

from ragweave.datasets import Question
from ragweave.evaluation import metrics
from ragweave.evaluation.metrics.rouge import common_subsequence

TEXTS = st.text(alphabet="abthen AN.,'’-–é1 \n", max_size=30)
GOLDS = st.lists(TEXTS, max_size=3)


def tokens_by_rule(text: str) -> list[str]:
    """The SQuAD rule said again: fold case, strike punctuation, strike articles, cut at spaces."""
    plain = "".join(sign for sign in text.lower() if sign not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", plain, flags=re.UNICODE).split()


def f1_by_rule(answer: str, gold: str) -> float:
    given_, right = tokens_by_rule(answer), tokens_by_rule(gold)
    if not given_ or not right:
        return float(given_ == right)
    left, same = list(right), 0
    for token in given_:
        if token in left:
            left.remove(token)
            same += 1
    if not same:
        return 0.0
    share, found = same / len(given_), same / len(right)
    return 2 * share * found / (share + found)


def best_by_rule(answer: str, golds: list[str]) -> tuple[float, float]:
    usable = [gold for gold in golds if tokens_by_rule(gold)] or [""]
    same = [tokens_by_rule(answer) == tokens_by_rule(gold) for gold in usable]
    return float(any(same)), max(f1_by_rule(answer, gold) for gold in usable)


@given(answer=TEXTS, golds=GOLDS)
def test_squad_metrics_follow_the_rule(answer: str, golds: list[str]) -> None:
    exact, overlap = best_by_rule(answer, golds)
    assert metrics.exact_match(answer, golds) == exact
    assert metrics.f1(answer, golds) == pytest.approx(overlap)


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "overlap"),
    [
        ("The Cat.", ["cat"], 1.0, 1.0),
        ("cat sat", ["the cat"], 0.0, 2 / 3),
        ("", [], 1.0, 1.0),  # no answer asked for, none given
        ("cat", [], 0.0, 0.0),
        ("", ["cat"], 0.0, 0.0),
        ("a", ["the"], 1.0, 1.0),  # nothing is left of the only gold answer
        ("dog", ["the", "dog"], 1.0, 1.0),
        ("U.S.A", ["USA"], 1.0, 1.0),
        ("well-known", ["wellknown"], 1.0, 1.0),
        ("a an the b", ["b"], 1.0, 1.0),
        ("b b", ["b"], 0.0, 2 / 3),  # the normalised texts differ, the tokens overlap once
        ("cat’s", ["cats"], 0.0, 0.0),  # typographic marks are no ASCII punctuation
    ],
)
def test_squad_edge_cases(answer: str, golds: list[str], exact: float, overlap: float) -> None:
    assert metrics.exact_match(answer, golds) == exact
    assert metrics.f1(answer, golds) == pytest.approx(overlap)


@pytest.mark.skipif(not SHARED.exists(), reason="the data files do not stand beside the checkout")
def test_squad_metrics_on_a_real_models_answers() -> None:
    def rows(name: str) -> list[dict[str, object]]:
        with gzip.open(SHARED / "nq" / name, "rt", encoding="utf-8") as stream:
            return [json.loads(line) for line in stream]

    said = {row["question"]: row["t5_answers"][0] for row in rows("t5-generated-answers.jsonl.gz")}  # type: ignore[index]
    pairs = [
        (str(said[row["question"]]), list(row["answers"]))  # type: ignore[call-overload]
        for row in rows("nq-open-oracle.jsonl.gz")
        if row["question"] in said
    ]
    assert len(pairs) > 1000
    for answer, golds in pairs:
        exact, overlap = best_by_rule(answer, golds)
        assert metrics.exact_match(answer, golds) == exact
        assert metrics.f1(answer, golds) == pytest.approx(overlap)
    assert 0.1 < sum(metrics.exact_match(*pair) for pair in pairs) / len(pairs) < 0.6


WORDS = st.lists(st.sampled_from(["the", "Cat", "sat-on", "3rd", "é", "mat."]), max_size=12).map(
    " ".join
)


@given(text=WORDS, references=st.lists(WORDS, min_size=1, max_size=3))
def test_rouge_equals_the_reference_package(text: str, references: list[str]) -> None:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    each = [scorer.score(reference, text) for reference in references]
    for name, ours in (
        ("rouge1", metrics.rouge_n(text, references, 1)),
        ("rouge2", metrics.rouge_n(text, references, 2)),
        ("rougeL", metrics.rouge_l(text, references)),
    ):
        assert ours == pytest.approx(max(one[name].fmeasure for one in each)), name


@given(one=st.lists(st.sampled_from("abc"), max_size=9), other=st.lists(st.sampled_from("abc")))
def test_common_subsequence_by_its_recurrence(one: list[str], other: list[str]) -> None:
    row = [0] * (len(one) + 1)
    for token in other:
        last = row
        row = [0]
        for index, mine in enumerate(one):
            row.append(last[index] + 1 if mine == token else max(last[index + 1], row[index]))
    assert common_subsequence(one, other) == row[-1]


def test_coverage_counts_answers_with_any_alias() -> None:
    sets = (("1932", "in 1932"), ("Ada Lindqvist",), ("Old Town",))
    said = "It was opened in 1932 by ada lindqvist."
    assert metrics.coverage_em(said, sets) == pytest.approx(2 / 3)
    assert metrics.hit_at_1(said, sets) == 1.0
    assert metrics.hit_at_1("Nobody knows.", sets) == 0.0
    assert metrics.contains("anything", ["the"]) == 0.0  # nothing is left of the alias


def test_the_share_of_several_answers_counts_each_name_by_itself() -> None:
    sets = (("1932", "in 1932"), ("Ada Lindqvist", "Lindqvist"), ("Old Town",))
    question = Question(id="q", question="?", answers=(), scoring="coverage", answer_sets=sets)
    state = {"answer": "It was opened in 1932 by A. Lindqvist.", "status": "answered"}
    assert metrics.METRICS["answer_share"].compute(question, state) == pytest.approx(3 / 5)
    assert metrics.METRICS["coverage_em"].compute(question, state) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("answer", "right"), [("Yes", 1.0), ("yes, it is", 1.0), ("No", 0.0), ("", 0.0)]
)
def test_accuracy_reads_the_first_word(answer: str, right: float) -> None:
    assert metrics.accuracy(answer, ["Yes"]) == right


def test_not_majority_needs_a_right_answer_that_lost() -> None:
    def right(answer: str) -> float:
        return metrics.exact_match(answer, ["Paris"])

    assert metrics.not_majority("Rome", ["Rome", "paris", "Rome"], right) == 1.0
    assert metrics.not_majority("Paris", ["Rome", "Paris"], right) == 0.0
    assert metrics.not_majority("Rome", ["Rome"], right) == 0.0


def test_output_precision_is_the_share_of_the_context() -> None:
    assert metrics.output_precision("Paris is in France", ["Paris"]) == 0.25
    assert metrics.output_precision("", ["Paris"]) == 0.0


@pytest.mark.parametrize(
    "name", ["exact_match", "f1", "contains", "answer_share", "accuracy", "output_precision"]
)
def test_a_text_given_for_the_gold_answers_is_the_only_one(name: str) -> None:
    metric = getattr(metrics, name)
    assert metric("Paris", "Paris") == metric("Paris", ["Paris"]) == 1.0
    assert metric("Rome", "Paris") == metric("Rome", ["Paris"]) == 0.0
    assert Question(id="1", question="Where?", answers="Paris").answers == ("Paris",)
