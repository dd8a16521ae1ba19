"""Replies of real small models are read as people read them."""

from __future__ import annotations

import json

import pytest
from benchmarks import reader

from ragweave import build_graph
from ragweave.testing import ScriptedModel


def test_recorded_replies_are_read_as_meant() -> None:
    records = reader.records()
    assert len(records) == 674
    assert sum(map(reader.as_meant, records)) >= 0.95 * len(records)
    constrained = [record for record in records if record["grammar"]]
    assert sum(map(reader.as_meant, constrained)) >= 0.98 * len(constrained)


def test_refusals_in_other_languages_are_unknown_and_answers_are_not() -> None:
    results = reader.by_language()
    declined = [is_read for refusals, _ in results.values() for is_read in refusals]
    answered = [is_read for _, answers in results.values() for is_read in answers]
    assert sum(declined) >= 0.95 * len(declined)
    assert len(answered) >= 200
    assert all(answered)


@pytest.mark.parametrize("language", ["de", "fr", "es", "zh", "ja", "ko"])
def test_a_refusal_in_another_language_starts_the_fallback(language: str) -> None:
    refusals = json.loads((reader.RECORDED / "refusals_by_language.json").read_text("utf-8"))[language]["refusals"]
    model = ScriptedModel(script={"concat": refusals[0], "post_fusion": "Ada Brenner"})
    passages = ["The bridge at Alden was built by Ada Brenner.", "The bridge at Elm is of stone."]
    out = build_graph("concat_pf", model=model).invoke({"question": "Who built it?", "passages": passages})
    assert [call.node for call in model.calls] == ["concat", "post_fusion", "post_fusion"]
    assert out["answer"] == "Ada Brenner"


@pytest.mark.parametrize("kind", ["ids", "verdict", "step"])
def test_ids_verdicts_and_steps_are_read_in_most_wordings(kind: str) -> None:
    results = [is_read for row, is_read in reader.wordings() if row["kind"] == kind]
    assert len(results) >= 40
    assert sum(results) >= 0.95 * len(results)
