"""Which scores a question gets, by what its data set asks for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragweave.datasets import Question, passage
from ragweave.evaluation.metrics import Metric
from ragweave.evaluation.runs.outcome import scores

GOLD, OTHER = passage("Paris is in France.", "Paris", gold=True), passage("Rome is in Italy.")


def state(answer: str = "Paris", **more: Any) -> dict[str, Any]:
    plain = {"status": "answered", "candidates": {}, "passages": [], "retrieved": {}, "kept": {}}
    return {**plain, "answer": answer, **more}


def test_unknown_is_an_empty_answer() -> None:
    question = Question(id="q", question="?", answers=("Unknown",))
    found = scores(question, state("Unknown", status="unknown"))
    assert (found["em"], found["unknown"]) == (0.0, 1.0)


def test_the_right_answer_to_an_unanswerable_question_is_none() -> None:
    question = Question(id="q", question="?", answers=(), answerable=False)
    assert scores(question, state("Unknown", status="unknown"))["em"] == 1.0
    found = scores(question, state("Paris"))
    assert (found["em"], found["f1"]) == (0.0, 0.0)
    assert "contains" not in found


def test_a_vote_that_passes_the_right_answer_over() -> None:
    pool = {str(index): {"answer": text} for index, text in enumerate(("Rome", "Paris", "Rome"))}
    question = Question(id="q", question="?", answers=("Paris",))
    assert scores(question, state("Rome", candidates=pool))["nm"] == 1.0
    assert scores(question, state("Paris", candidates=pool))["nm"] == 0.0


def test_passages_against_gold() -> None:
    question = Question(id="q", question="?", answers=("Paris",), passages=(GOLD, OTHER))
    found = scores(
        question,
        state(passages=[GOLD], retrieved={"question": [OTHER, GOLD]}, kept={"question": [GOLD]}),
    )
    assert (found["recall"], found["precision"], found["s_precision"]) == (1.0, 1.0, 1.0)
    assert (found["recall@1"], found["filter_precision"], found["filter_recall"]) == (0.0, 1.0, 1.0)
    assert found["answer_recall"] == 1.0
    assert found["output_precision"] == 0.25


def test_a_filter_that_kept_nothing_found_nothing() -> None:
    question = Question(id="q", question="?", answers=("Paris",), passages=(GOLD,))
    found = scores(question, state(retrieved={"question": [GOLD]}, kept={"question": []}))
    assert (found["recall"], found["answer_recall"], found["filter_recall"]) == (0.0, 0.0, 0.0)


def test_a_search_that_finds_too_little_counts_by_what_it_asked_for() -> None:
    question = Question(id="q", question="?", answers=("Paris",), passages=(GOLD, OTHER))
    nothing = scores(question, state(retrieved={"question": []}, search_depth=10))
    assert {nothing[name] for name in ("recall@1", "recall@5", "recall@10", "ndcg@10")} == {0.0}
    little = scores(question, state(retrieved={"question": [GOLD]}, search_depth=5))
    assert (little["recall@1"], little["recall@5"]) == (1.0, 1.0)
    assert "recall@10" not in little
    other = scores(question, state(retrieved={"external": [GOLD]}, search_depth=5))
    assert "recall@1" not in other


def test_without_retrieval_no_passage_score_is_made_up() -> None:
    question = Question(id="q", question="?", answers=("Paris",), passages=(GOLD,))
    assert "recall" not in scores(question, state())


@pytest.mark.parametrize(
    ("scoring", "names"),
    [
        ("accuracy", {"accuracy", "nm", "unknown"}),
        ("long", {"rouge_1", "rouge_2", "rouge_l", "unigram_f1", "unknown"}),
        (
            "coverage",
            {
                "answer_share",
                "coverage_em",
                "hit_at_1",
                "rouge_1",
                "rouge_2",
                "rouge_l",
                "unigram_f1",
                "unknown",
            },
        ),
        ("retrieval", {"unknown"}),
    ],
)
def test_scores_by_kind(scoring: Any, names: set[str]) -> None:
    question = Question(
        id="q", question="?", answers=("Paris",), answer_sets=(("Paris",),), scoring=scoring
    )
    assert set(scores(question, state())) == names


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float64("nan"), np.float32("-inf")])
def test_a_score_that_is_no_finite_number_is_left_out_and_told_once(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"overlap {value!r}"
    odd = Metric(name=name, label="O", summary="Odd.", compute=lambda _question, _state: value)
    even = replace(odd, name="even", compute=lambda _question, _state: np.float64(0.5))
    question = Question(id="q7", question="?", answers=("Paris",))
    for _ in range(2):
        assert scores(question, state(), [odd, even]) == {"even": 0.5}
    (told,) = caplog.messages
    assert name in told
    assert "question 'q7'" in told
    assert "None" in told
