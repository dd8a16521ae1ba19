"""Replies recorded from real small models, at every step.

`benchmarks/record_replies.py` records them; `meant` began as what the parsers read and was
looked through once, so it shows what changes, and is no independent measure of accuracy.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.reply_readers import read_record

RECORDED = Path(__file__).parents[1] / "recorded"
MODELS = sorted(
    path for path in RECORDED.glob("*.jsonl") if path.stem not in ("answers", "refusals")
)
RECORDS: list[dict[str, Any]] = [
    json.loads(line) for path in MODELS for line in path.read_text("utf-8").splitlines()
]
STEPS = sorted({one["node"] for one in RECORDS})


def test_every_step_is_there() -> None:
    steps = Counter(one["node"] for one in RECORDS)
    asked = {"rewrite", "judge", "judge_claim", "need", "topic", "knowledge_filter", "react"}
    assert asked | {"self_ask", "flare", "filter_context", "short_answer"} <= steps.keys()
    assert steps.total() >= 200


@pytest.mark.parametrize("step", STEPS)
def test_at_least_95_in_100_are_read_as_meant(step: str) -> None:
    records = [one for one in RECORDS if one["node"] == step]
    wrong = [(one["reply"], read_record(one)) for one in records if not as_meant(one)]
    assert len(wrong) <= 0.05 * len(records), f"{len(wrong)} of {len(records)}: {wrong}"


def as_meant(record: dict[str, Any]) -> bool:
    return json.loads(json.dumps(read_record(record))) == record["meant"]
