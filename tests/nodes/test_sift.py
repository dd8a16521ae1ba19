"""Which passages stay for the distiller, and which candidate answers it is shown."""

from __future__ import annotations

from typing import Any

from tests.scripted import documents

from ragweave.nodes.context_filter import answers_of, sift
from ragweave.state import Candidate
from ragweave.tools.text.unknown import UNKNOWN


def state(*answers: tuple[str, str]) -> dict[str, Any]:
    candidates: dict[str, Candidate] = {
        f"{index}": {
            "answer": answer,
            "reply": answer,
            "pool": "post_fusion",
            "round": 0,
            "rank": index,
            "sample": 0,
            "passages": [passage],
        }
        for index, (answer, passage) in enumerate(answers)
    }
    return {"candidates": candidates, "passages": documents("a", "b", "c")}


def kept(update: dict[str, Any]) -> list[str]:
    return [doc.id for doc in update["passages"].value]


def test_passages_whose_every_answer_is_unknown_are_dropped() -> None:
    held = state(("Paris", "p0"), (UNKNOWN, "p0"), (UNKNOWN, "p1"), ("Rome", "p2"))
    assert kept(sift(held, "post_fusion")) == ["p0", "p2"]


def test_without_any_answer_all_passages_stay() -> None:
    assert sift(state((UNKNOWN, "p0"), (UNKNOWN, "p1")), "post_fusion") == {}


def test_another_pool_does_not_count() -> None:
    assert sift(state(("Paris", "p0")), "other") == {}


def test_answers_are_shown_once_in_order() -> None:
    held = state(("Rome", "p0"), ("the Paris", "p1"), (UNKNOWN, "p1"), ("paris.", "p2"))
    assert answers_of(held, "post_fusion") == ["Rome", "the Paris"]
